"""Arista's switches on Broadcom's Trident and Tomahawk: one entry each.

Ports are those of Arista's own boards in sonic-net/sonic-buildimage, whose aliases are the names of
EOS; docs/explanation/sources.md#switch-models names the folders. Where a board has no list of
splits, those of its lanes are taken, as on the DCS-7060DX5-64S.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.switches.switch_model import SwitchModel

_100: Final = (10, 25, 40, 50, 100)
_400: Final = (10, 25, 40, 50, 100, 200, 400)
_800: Final = (100, 200, 400, 800)


def _arista(
    name: str,
    asic: str,
    ports: int,
    speeds: tuple[int, ...],
    breakouts: Mapping[int, int],
    lanes: int = 8,
) -> SwitchModel:
    return SwitchModel(
        name=name,
        asic=asic,
        ports={"eos": tuple(f"Ethernet{port}/1" for port in range(1, ports + 1))},
        port_speeds_gbit_s=speeds,
        lanes=lanes,
        breakouts=breakouts,
        traffic_classes=8,
        # A choice: public guides for EOS protect the RoCE data alone.
        max_lossless_priorities=1,
        sources={"eos": "public captures of EOS: `Ethernet MTU 9214 bytes`"},
    )


ARISTA_MODELS: Final[tuple[SwitchModel, ...]] = (
    _arista("DCS-7060CX-32S", "Tomahawk", 32, _100, {2: 50, 4: 25}, lanes=4),
    _arista("DCS-7050CX3-32S", "Trident 3", 32, _100, {2: 50, 4: 25}, lanes=4),
    _arista("DCS-7050DX4-32S", "Trident 4", 32, _400, {2: 200, 4: 100}),
    _arista("DCS-7050PX4-32S", "Trident 4", 32, _400, {2: 200, 4: 100}),
    _arista("DCS-7060DX4-32", "Tomahawk 3", 32, _400, {2: 200, 4: 100}),
    _arista("DCS-7060PX4-32", "Tomahawk 3", 32, _400, {2: 200, 4: 100}),
    _arista("DCS-7060PX5-64S", "Tomahawk 4", 64, _400, {2: 200, 4: 100, 8: 50}),
    _arista("DCS-7060X6-32PE", "Tomahawk 5", 32, _800, {2: 400, 4: 200}),
    _arista("DCS-7060X6-64PE", "Tomahawk 5", 64, _800, {2: 400, 4: 200, 8: 100}),
)
