"""NVIDIA (Mellanox) QM8700: a managed Quantum switch, 40 ports of HDR InfiniBand."""

from __future__ import annotations

from components.catalogue.switches.switch_model import SwitchModel

QM8700 = SwitchModel(
    name="QM8700",
    asic="Quantum",
    ports={"mlnxos": tuple(f"1/{number}" for number in range(1, 41))},
    port_speeds_gbit_s=(40, 56, 100, 200),
    # A port may be split into two of HDR100: 1/2 into 1/2/1 and 1/2/2 (public capture).
    breakouts={2: 100},
    traffic_classes=0,
    max_lossless_priorities=0,
    sources={"mlnxos": "QM8700 data sheet; MTU range of the InfiniBand specification"},
)
