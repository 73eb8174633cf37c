"""Arista DCS-7060DX5-64S: 64 ports of 400 Gbit/s on Broadcom's Tomahawk 4.

Chip and ports: the board's description in aristanetworks/sonic (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

from components.fabric.drivers.eos_defaults import MIN_RELEASE, MTU_RANGE_BYTES
from components.fabric.models.switch_model import SwitchModel

PORTS = range(1, 65)
"""QSFP-DD; the two SFP+ ports 65 and 66 are too slow for a rail."""
LANES = range(1, 9)
"""A QSFP-DD port has eight lanes: 1/1 alone at 400 Gbit/s, 1/1 and 1/5 at 200, and so on."""

DCS_7060DX5_64S = SwitchModel(
    name="DCS-7060DX5-64S",
    ports={"eos": tuple(f"Ethernet{port}/{lane}" for port in PORTS for lane in LANES)},
    # 400 and its splits over eight lanes of 50; a public configuration of a 7388 has 200 on four.
    port_speeds_gbit_s=(50, 100, 200, 400),
    mtu_range_bytes={"eos": MTU_RANGE_BYTES},
    traffic_classes=8,
    # A choice: public guides for EOS protect the RoCE data alone.
    max_lossless_priorities=1,
    min_release={"eos": MIN_RELEASE},
    min_release_lossless={"eos": MIN_RELEASE},
)
