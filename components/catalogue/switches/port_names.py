"""How switch systems call their ports: the ways that there are, and nothing else knows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class PortPlace:
    """Where a port is on the front panel."""

    whole: str
    """Name of the front panel port that it is, or is a part of."""
    parts: int
    """Into how many parts that port is split at least if it has this part; 1 for a whole one."""


class PortNaming(Protocol):
    """The names of one system."""

    @property
    def holds_parts(self) -> bool:
        """A whole port has a name that no part of it has, so that a file says which it means."""
        ...

    def names(self, count: int, lanes: int) -> Iterator[str]:
        """The names of so many whole ports, from the first on, of so many lanes each."""
        ...

    def parts(self, whole: str, count: int, lanes: int) -> tuple[str, ...]:
        """The names of the parts of a port of so many lanes that is split into so many."""
        ...

    def place(self, name: str, lanes: int) -> PortPlace | None:
        """Where a port is on a model whose ports have so many lanes; None: it is no name."""
        ...

    def describe(self, ports: Sequence[str], *, split: bool) -> str:
        """The names of a switch with these ports, for people."""
        ...


@dataclass(frozen=True, slots=True)
class CountedParts:
    """Parts of a split port are counted, in a name of their own: `1/31/2`, `swp31s1`."""

    pattern: re.Pattern[str]
    """Group `whole` is the port, group `part` what a split adds to it."""
    form: str
    """The name of port `{}`, from 1 on."""
    first_part: str
    """What the first part adds."""
    holds_parts: bool = True

    def names(self, count: int, lanes: int) -> Iterator[str]:
        """See `PortNaming`."""
        del lanes
        return (self.form.format(number) for number in range(1, count + 1))

    def parts(self, whole: str, count: int, lanes: int) -> tuple[str, ...]:
        """See `PortNaming`."""
        del lanes
        sign, first = self.first_part[0], int(self.first_part[1:])
        return tuple(f"{whole}{sign}{first + number}" for number in range(count))

    def place(self, name: str, lanes: int) -> PortPlace | None:
        """See `PortNaming`."""
        del lanes
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        part = found["part"]
        return PortPlace(
            found["whole"], int(part[1:]) - int(self.first_part[1:]) + 1 if part else 1
        )

    def describe(self, ports: Sequence[str], *, split: bool) -> str:
        """See `PortNaming`."""
        parts = f", split ones {ports[0]}{self.first_part} and so on" if split else ""
        return f"{ports[0]} to {ports[-1]}{parts}"


@dataclass(frozen=True, slots=True)
class LaneOfPort:
    """A port and a part of it are called by their first lane, which is counted in each port."""

    pattern: re.Pattern[str]
    """Group `port`, and group `lane` from 1 on."""
    form: str
    """The name of lane 1 of port `{}`, from 1 on."""
    holds_parts: bool = False

    def names(self, count: int, lanes: int) -> Iterator[str]:
        """See `PortNaming`."""
        del lanes
        return (self.form.format(number) for number in range(1, count + 1))

    def parts(self, whole: str, count: int, lanes: int) -> tuple[str, ...]:
        """See `PortNaming`."""
        port = whole.rpartition("/")[0]
        return tuple(f"{port}/{lane + 1}" for lane in range(0, lanes, lanes // count))

    def place(self, name: str, lanes: int) -> PortPlace | None:
        """See `PortNaming`."""
        found = self.pattern.fullmatch(name)
        if found is None or int(found["lane"]) > lanes:
            return None
        return PortPlace(f"{found['port']}/1", _parts(int(found["lane"]) - 1, lanes))

    def describe(self, ports: Sequence[str], *, split: bool) -> str:
        """See `PortNaming`."""
        parts = ", split ones with their first lane, 1/1 to 1/8" if split else ""
        return f"{ports[0]} to {ports[-1]}{parts}"


@dataclass(frozen=True, slots=True)
class LaneOfSwitch:
    """The same, and lanes are counted through the whole switch: `Ethernet0`, `Ethernet8`."""

    pattern: re.Pattern[str]
    """Group `head`, and group `lane` from 0 on."""
    form: str
    """The name of the port, or part, that begins at lane `{}`, from 0 on."""
    holds_parts: bool = False

    def names(self, count: int, lanes: int) -> Iterator[str]:
        """See `PortNaming`."""
        return (self.form.format(number * lanes) for number in range(count))

    def parts(self, whole: str, count: int, lanes: int) -> tuple[str, ...]:
        """See `PortNaming`."""
        found = self.pattern.fullmatch(whole)
        first = int(found["lane"]) if found else 0
        return tuple(self.form.format(first + lane) for lane in range(0, lanes, lanes // count))

    def place(self, name: str, lanes: int) -> PortPlace | None:
        """See `PortNaming`."""
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        lane = int(found["lane"])
        return PortPlace(f"{found['head']}{lane - lane % lanes}", _parts(lane % lanes, lanes))

    def describe(self, ports: Sequence[str], *, split: bool) -> str:
        """See `PortNaming`."""
        parts = "; a part of a split one is called by its first lane" if split else ""
        return f"{ports[0]}, {ports[1]} and so on to {ports[-1]}{parts}"


def _parts(lane: int, lanes: int) -> int:
    """The fewest parts of equal size of which one begins at this lane, counted from 0."""
    return lanes // gcd(lanes, lane)


# The whole names, with their sources: what `SWITCH_SYSTEMS` chooses from.

SLOT_AND_PORT: Final = CountedParts(
    re.compile(r"(?P<whole>[1-9]\d*/[1-9]\d*)(?P<part>/[1-8])?"), form="1/{}", first_part="/1"
)
"""Onyx and MLNX-OS: `1/31`, split `1/31/1`; sources.md#onyx (grammar of the collection's modules).
On the QM9700 `1/31/1` is a port, not a part (sources.md#mlnx-os)."""
SWP: Final = CountedParts(
    re.compile(r"(?P<whole>swp[1-9]\d*)(?P<part>s[0-7])?"), form="swp{}", first_part="s0"
)
"""Cumulus: `swp31`, split `swp31s0` to `s7` (sources.md#cumulus, page "Switch Port Attributes")."""
LANE_IN_PORT: Final = LaneOfPort(
    re.compile(r"(?P<port>Ethernet[1-9]\d*)/(?P<lane>[1-9])"), form="Ethernet{}/1"
)
"""EOS: `Ethernet31/1`, at half speed `Ethernet31/1` and `Ethernet31/5` (sources.md#eos)."""
LANE_IN_SWITCH: Final = LaneOfSwitch(
    re.compile(r"(?P<head>Ethernet)(?P<lane>0|[1-9]\d*)"), form="Ethernet{}"
)
"""SONiC: `Ethernet8` for the second port of eight lanes, at half speed `Ethernet8` and
`Ethernet12` (sources.md#sonic, port_config.ini)."""
