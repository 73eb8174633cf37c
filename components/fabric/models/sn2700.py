"""NVIDIA (Mellanox) SN2700: the switch of the DeepOps RoCE guide."""

from __future__ import annotations

from components.fabric.drivers.cumulus_profile import MIN_RELEASE, MTU_RANGE_BYTES
from components.fabric.models.switch_model import SwitchModel

SN2700 = SwitchModel(
    name="SN2700",
    ports={
        "onyx": tuple(f"1/{number}" for number in range(1, 33)),
        "cumulus": tuple(f"swp{number}" for number in range(1, 33)),
    },
    port_speeds_gbit_s=(10, 25, 40, 50, 56, 100),
    # Onyx: what the vendor's Ansible collection accepts (module_utils/…/onyx.py).
    mtu_range_bytes={"onyx": (1500, 9612), "cumulus": MTU_RANGE_BYTES},
    traffic_classes=8,
    # A second lossless priority splits the headroom of the shared buffer and may be refused.
    max_lossless_priorities=1,
    # `roce` came with 3.8.2000; traffic pools, which the manual way needs, with 3.6.5000.
    min_release={"onyx": (3, 6, 5000), "cumulus": (*MIN_RELEASE, 0)},
    min_release_lossless={"onyx": (3, 8, 2000), "cumulus": (*MIN_RELEASE, 0)},
)
