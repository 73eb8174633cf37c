"""Boxes on Broadcom's Tomahawk 3 to 5 that run SONiC, beside the Z9332F: one entry each.

Ports, lanes and lengths of cables with headroom are those of their folders in
sonic-net/sonic-buildimage (docs/explanation/sources.md#switch-models).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from components.catalogue.switches.switch_model import SwitchModel


@dataclass(frozen=True, slots=True)
class _Board:
    asic: str
    ports: int
    speeds: tuple[int, ...]
    lanes: int
    breakouts: Mapping[int, int] = field(default_factory=dict[int, int])
    headroom_m: tuple[int, ...] = ()
    """Empty: its folder has no `pg_profile_lookup.ini`, so that nothing can be lossless there."""


def _box(name: str, board: _Board) -> SwitchModel:
    return SwitchModel(
        name=name,
        asic=board.asic,
        ports={"sonic": tuple(f"Ethernet{board.lanes * port}" for port in range(board.ports))},
        port_speeds_gbit_s=board.speeds,
        lanes=board.lanes,
        breakouts=board.breakouts,
        traffic_classes=8,
        max_lossless_priorities=2 if board.headroom_m else 0,
        headroom_lengths_m={"sonic": board.headroom_m} if board.headroom_m else {},
        sources={"sonic": "sonic-buildimage, port_config.ini; MTU range of sonic-utilities"},
    )


SONIC_MODELS: Final[tuple[SwitchModel, ...]] = (
    _box("AS9716-32D", _Board("Tomahawk 3", 32, (400,), 8)),
    _box(
        "AS9736-64D",
        _Board("Tomahawk 4", 64, (10, 25, 40, 50, 100, 200, 400), 8, {2: 200, 4: 100}),
    ),
    # Its maker's page; that SONiC counts its names by its lanes is a guess.
    _box(
        "AIS800-64D",
        _Board("Tomahawk 5", 64, (100, 200, 400, 800), 8, {2: 400, 4: 200, 8: 100}),
    ),
    # Its folder names no form of a split port.
    _box("Z9664F", _Board("Tomahawk 4", 64, (400,), 4, headroom_m=(5, 40, 300))),
    _box(
        "Z9864F",
        _Board(
            "Tomahawk 5",
            64,
            (100, 400, 800),
            8,
            {2: 400, 4: 200, 8: 100},
            headroom_m=(5, 40, 300),
        ),
    ),
)
