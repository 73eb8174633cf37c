"""Dell Z9332F-ON: 32 ports of 400 Gbit/s, Broadcom Tomahawk 3, a community SONiC platform.

Ports, aliases and lanes are those of the platform's `DellEMC-Z9332f-O32` (sonic-buildimage,
device/dell/x86_64-dellemc_z9332f_d1508-r0), which also has the templates that lossless buffers
need: docs/explanation/sources.md#sonic. Its two SFP+ ports are left out: no rail runs at 10.
"""

from __future__ import annotations

from components.catalogue.switches.switch_model import SwitchModel

LANES_PER_PORT = 8
Z9332F = SwitchModel(
    name="Z9332F",
    asic="Tomahawk 3",
    ports={"sonic": tuple(f"Ethernet{LANES_PER_PORT * number}" for number in range(32))},
    port_speeds_gbit_s=(40, 100, 200, 400),
    lanes=LANES_PER_PORT,
    breakouts={2: 200, 4: 100, 8: 50},
    traffic_classes=8,
    # The template has two, 3 and 4; one is what a file can ask for.
    max_lossless_priorities=2,
    # pg_profile_lookup.ini, for 100 and 400 Gbit/s alike; the same in branches 202205 to 202605.
    headroom_lengths_m={"sonic": (5, 40, 300, 1000, 2000)},
    sources={"sonic": "sonic-buildimage, port_config.ini; MTU range of sonic-utilities"},
)
