"""VLANs and ports as command lines write them, `10,111-112`, and the order of ports by number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

MOST_VLAN: Final = 4095
_NUMBER: Final = re.compile(r"\d+")
_SPAN: Final = re.compile(r"((?:\d+/)*)(\d+)(?:-(?:\1)?(\d+))?")


def parse_vlan_ranges(text: str) -> tuple[int, ...]:
    """Read `10, 111-112` into ascending numbers; blank, `N/A` and `none` are no VLANs.

    What is above 4095 is no number of IEEE 802.1Q, and is left out.
    """
    vlans: set[int] = set()
    for part in re.findall(r"\d+(?:-\d+)?", text):
        first, _, last = str(part).partition("-")
        vlans |= set(range(int(first), min(int(last or first), MOST_VLAN) + 1))
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
    """The lines that add to a list of VLANs and remove from it."""
    for word, vlans in (("add", wanted - held), ("remove", held - wanted)):
        if vlans:
            yield f"{head} {word} {collapse_vlans(vlans)}"


@cache
def port_key(port: str) -> tuple[int, ...]:
    """Sort key of `1/10`, `1/3/2` and `swp3s1`: by number, not by letter."""
    return tuple(int(part) for part in _NUMBER.findall(port))


def collapse_ports(ports: Iterable[str]) -> list[str]:
    """Group neighbouring ports: `1/1`, `1/2`, `1/4` becomes `1/1-1/2`, `1/4`.

    A part of a split port stays alone: whether a range may cross a split is not documented.
    """
    runs: list[list[str]] = []
    for port in sorted(ports, key=port_key):
        *card, number = port_key(port)
        if runs and len(card) == 1 and port_key(runs[-1][-1]) == (*card, number - 1):
            runs[-1].append(port)
        else:
            runs.append([port])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def expand_ports(text: str) -> list[str] | None:
    """`1/1-1/3,1/7` as names; None: over parts of several split ports, in no published order."""
    spans = [_SPAN.fullmatch(part) for part in text.split(",")]
    if None in spans:
        return None
    return [
        f"{span[1]}{number}"
        for span in spans
        if span
        for number in range(int(span[2]), int(span[3] or span[2]) + 1)
    ]
