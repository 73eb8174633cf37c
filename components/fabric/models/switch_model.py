"""What one switch model can do: the facts that a plan is held against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PORT: Final = re.compile(r"(\d+/\d+|swp\d+)(?:/\d+|s\d)?")
"""`1/31`, `swp31`, and their parts `1/31/2` and `swp31s1`."""
_LANE: Final = re.compile(r"Ethernet(0|[1-9]\d*)")
"""SONiC names a port by its first lane, and a part of it by the first lane of the part."""
Release = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """One switch model."""

    name: str
    ports: Mapping[str, tuple[str, ...]]
    """Switch system that runs on it to its port names, unsplit."""
    port_speeds_gbit_s: tuple[int, ...]
    mtu_range_bytes: Mapping[str, tuple[int, int]]
    """Switch system to the least and the largest MTU of a port."""
    traffic_classes: int
    max_lossless_priorities: int
    min_release: Release
    """Oldest release of Onyx that has the commands we send."""
    min_release_one_shot: Release
    """Oldest release of Onyx that has the one-shot `roce`."""
    lanes_per_port: int = 0
    """Of a port that SONiC names by its lanes; 0: SONiC does not run on it here."""

    def has_port(self, system: str, name: str) -> bool:
        """Whether a port, or the port that was split into it, is on the front panel."""
        lane = _LANE.fullmatch(name)
        if lane is not None and self.lanes_per_port:
            whole = int(lane[1]) // self.lanes_per_port * self.lanes_per_port
            return f"Ethernet{whole}" in self.ports.get(system, ())
        found = _PORT.fullmatch(name)
        return found is not None and found[1] in self.ports[system]


def parse_release(text: str) -> Release:
    """Read `3.9.2504`; missing or strange parts count as 0."""
    numbers = [int(part) if part.isdigit() else 0 for part in text.split(".")[:3]]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third
