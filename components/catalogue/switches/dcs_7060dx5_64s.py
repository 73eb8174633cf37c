"""Arista DCS-7060DX5-64S: 64 ports of 400 Gbit/s on Broadcom's Tomahawk 4.

Chip and ports: the board's description in aristanetworks/sonic (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

from components.catalogue.switches.switch_model import SwitchModel

PORTS = range(1, 65)
"""QSFP-DD; the two SFP+ ports 65 and 66 are too slow for a rail."""

DCS_7060DX5_64S = SwitchModel(
    name="DCS-7060DX5-64S",
    asic="Tomahawk 4",
    ports={"eos": tuple(f"Ethernet{port}/1" for port in PORTS)},
    # 400 and its splits over eight lanes of 50; a public configuration of a 7388 has 200 on four.
    port_speeds_gbit_s=(50, 100, 200, 400),
    lanes=8,
    breakouts={2: 200, 4: 100, 8: 50},
    traffic_classes=8,
    # A choice: public guides for EOS protect the RoCE data alone.
    max_lossless_priorities=1,
    sources={"eos": "public captures of EOS: `Ethernet MTU 9214 bytes`"},
)
