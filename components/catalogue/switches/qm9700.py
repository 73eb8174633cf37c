"""NVIDIA QM9700: a managed Quantum-2 switch, 64 ports of NDR InfiniBand in 32 OSFP cages."""

from __future__ import annotations

from components.catalogue.switches.switch_model import SwitchModel

QM9700 = SwitchModel(
    name="QM9700",
    asic="Quantum-2",
    # Each cage holds two ports, which the switch names 1/1/1 and 1/1/2 (a cable maker's guide).
    ports={"mlnxos": tuple(f"1/{cage}/{part}" for cage in range(1, 33) for part in (1, 2))},
    port_speeds_gbit_s=(100, 200, 400),
    traffic_classes=0,
    max_lossless_priorities=0,
    sources={"mlnxos": "QM9700 data sheet; MTU range of the InfiniBand specification"},
)
