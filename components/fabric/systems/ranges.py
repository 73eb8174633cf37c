"""VLANs and ports as command lines write them, and which port is in which VLAN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from components.fabric.state import OtherPorts, PortState

MOST: Final = 4096
"""Numbers of one range: VLANs of IEEE 802.1Q, 0 to 4095; a switch has fewer ports and DSCPs."""
_NUMBER: Final = re.compile(r"\d+")
_SPAN: Final = re.compile(r"((?:\d+/)*)(\d+)(?:-(?:\1)?(\d+))?")


def _read_span(part: str) -> tuple[str, range]:
    """The text before the numbers, such as `1/`, and the numbers."""
    found = _SPAN.fullmatch(part)
    numbers = range(int(found[2]), int(found[3] or found[2]) + 1) if found else range(0)
    if found is None or not 0 < len(numbers) <= MOST:
        raise ValueError(f"{part!r} is not a range of numbers")
    return found[1], numbers


def parse_vlan_ranges(text: str) -> tuple[int, ...]:
    """Read `10, 111-112` into ascending numbers; blank, `N/A` and `none` mean no VLANs."""
    text = text.strip()
    words = [] if text.lower() in {"", "n/a", "none"} else re.split(r"\s*,\s*|\s+", text)
    vlans = {number for word in words for number in _read_span(word)[1]}
    if odd := [vlan for vlan in vlans if vlan >= MOST]:
        raise ValueError(f"{text!r} names {odd[0]}, but VLANs end at {MOST - 1}")
    return tuple(sorted(vlans))


def collapse_vlans(vlans: Iterable[int]) -> str:
    """Write VLANs as one argument: `10,111-112`."""
    runs: list[list[int]] = []
    for vlan in sorted(vlans):
        if runs and runs[-1][-1] == vlan - 1:
            runs[-1].append(vlan)
        else:
            runs.append([vlan])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def move_vlans(head: str, held: set[int], wanted: set[int]) -> Iterator[str]:
    """The lines that add VLANs to a list and remove others from it."""
    for word, vlans in (("add", wanted - held), ("remove", held - wanted)):
        if vlans:
            yield f"{head} {word} {collapse_vlans(vlans)}"


@cache
def port_key(port: str) -> tuple[int, ...]:
    """Sort key of `1/10`, `1/3/2` and `swp3s1`: by number, not by letter."""
    return tuple(int(part) for part in _NUMBER.findall(port))


def collapse_ports(ports: Iterable[str]) -> list[str]:
    """Group ports: `1/1-1/2`, `1/4`; a part stays alone: no page shows a range over a split."""
    runs: list[list[str]] = []
    for port in sorted(ports, key=port_key):
        *card, number = port_key(port)
        if runs and len(card) == 1 and port_key(runs[-1][-1]) == (*card, number - 1):
            runs[-1].append(port)
        else:
            runs.append([port])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def expand_ports(text: str) -> list[str]:
    """Read `1/1-1/3,1/7` into names; ValueError for others, and for a range over split ports."""
    spans = [_read_span(part) for part in text.split(",")]
    return [f"{card}{number}" for card, numbers in spans for number in numbers]


def holders_of(named: Mapping[str, Iterable[int]]) -> dict[int, tuple[str, ...]]:
    """Port to the VLANs that it names, turned round: `Reading.vlan_holders`."""
    holders: dict[int, tuple[str, ...]] = {}
    for name, vlans in named.items():
        for vlan in {*vlans}:
            holders[vlan] = (*holders.get(vlan, ()), name)
    return holders


def fill_membership(was: PortState, port: PortState) -> PortState:
    """Complete a target that sets only some VLAN settings: the others stay as they are."""
    if port.mode is not None and port.mode != was.mode:
        return port
    changes: dict[str, object] = {"mode": was.mode}
    if port.access_vlan is None:
        changes["access_vlan"] = was.access_vlan
    if port.trunk_vlans is None:
        changes["trunk_vlans"] = was.trunk_vlans
    return port.model_copy(update=changes)


def named_vlans(port: PortState) -> set[int]:
    """The VLANs that a port names, whether or not they are in force in its mode."""
    named = () if port.trunk_vlans == "all" else port.trunk_vlans or ()
    return {*named, *((port.access_vlan,) if port.access_vlan else ())}


def others_of(ports: Mapping[str, PortState]) -> OtherPorts:
    """Ports that were not asked for, by the VLANs that they carry now."""
    named: dict[str, tuple[int, ...]] = {}
    for name, port in ports.items():
        # Those in force in its mode; outside a bridge it carries none.
        own = (port.access_vlan,) if port.access_vlan and port.mode in {"access", "hybrid"} else ()
        listed = port.trunk_vlans or () if port.mode in {"trunk", "hybrid"} else ()
        if listed != "all":
            named[name] = (*listed, *own)
    of_all = tuple(name for name in ports if name not in named)
    return OtherPorts(by_vlan=holders_of(named), of_all=of_all)
