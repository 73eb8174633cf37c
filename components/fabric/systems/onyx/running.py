"""`show running-config`, read into what it says of ports and VLANs; and what it leaves open.

It holds what is not the factory's, one whole line a setting, and equal lines of neighbouring ports
with a range (oxidized's capture of 3.9.2504, the collection's fixture). A line about a setting of
ours in another form is no value: its topic is open on those ports, and they are asked one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, cast

from components.fabric.state import EcnState
from components.fabric.systems.onyx.read import PortMode, Switchport, Trust
from components.fabric.systems.ranges import parse_vlan_ranges

Topic = Literal["interface", "switchport", "qos", "congestion", "ets"]
"""One command a port each, but for the switchports, which are one table."""
FACTORY_VLAN: Final = 1

_HEADS: Final = (
    re.compile(r"^## Running database", re.MULTILINE),
    re.compile(r"^no cli default prefix-modes enable\s*$", re.MULTILINE),
)
"""Of every capture; the second one says that each line is whole, with the name of its port."""
_OF_PORTS: Final = re.compile(
    r"^\s*(no )?interface (ethernet|port-channel|mlag-port-channel) (\S+) *(.*?)\s*$"
)
_NAMES: Final = {"ethernet": "", "port-channel": "Po", "mlag-port-channel": "Mpo"}
_VLAN: Final = re.compile(r"^\s*vlan ([\d,-]+)(?: name .*)?\s*$")
_ROCE: Final = re.compile(r"^\s*roce\b")
_LLDP: Final = re.compile(r"^\s*lldp\s*$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"^\s*(?:$|#|(?:no )?interface )")
"""A comment, or a line about one interface."""
_RANGE: Final = re.compile(r"((?:\d+/)*)(\d+)(?:-((?:\d+/)*)(\d+))?")


@dataclass(slots=True)
class RunningPort:
    """What lines say of one port or bundle; what none says is the factory's."""

    open: set[Topic] = field(default_factory=set[Topic])
    """What has a line that cannot be read."""
    shut: bool = False
    mtu_bytes: int | None = None
    """None: no line says it, and what the factory's is depends on the release."""
    mode: PortMode = "access"
    access_vlan: int = FACTORY_VLAN
    allowed: dict[str, Literal["all"] | tuple[int, ...]] = field(
        default_factory=dict[str, Literal["all"] | tuple[int, ...]]
    )
    trust: Trust | None = None
    """None: no line says it."""
    rewrite_dscp: bool = False
    ecn: dict[int, EcnState] = field(default_factory=dict[int, EcnState])
    strict: set[int] = field(default_factory=set[int])
    weights: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def switchport(self) -> Switchport | None:
        """Its VLANs; None: a line is missing or cannot be read."""
        if "switchport" in self.open or (self.mode != "access" and self.mode not in self.allowed):
            return None
        access = None if self.mode == "trunk" else self.access_vlan
        return Switchport(self.mode, access, self.allowed.get(self.mode, ()))


@dataclass(frozen=True, slots=True)
class Running:
    """A running configuration."""

    vlans: tuple[int, ...]
    ports: dict[str, RunningPort]
    """Each port and bundle that a line names."""
    open: frozenset[Topic]
    """What a line about no single port may decide for all of them, since it cannot be read."""
    one_shot: bool
    """A `roce` line is there: what it sets on ports has no lines of its own."""
    lldp: bool
    """An `lldp` line is there."""


class _OpenError(Exception):
    """A range whose ports cannot be counted."""


@lru_cache(maxsize=1)
def parse_running(text: str) -> Running | None:
    """Read an answer to `show running-config`; None: it has another form than the captures.

    The last one is kept: one look asks it four times what is still to be asked, and read.
    """
    if not all(head.search(text) for head in _HEADS):
        return None
    vlans, ports, opened = {FACTORY_VLAN}, dict[str, RunningPort](), set[Topic]()
    one_shot = False
    try:
        for line in text.splitlines():
            vlan, of_ports = _VLAN.match(line), _OF_PORTS.match(line)
            if vlan is not None:
                vlans.update(parse_vlan_ranges(vlan[1]))
            elif of_ports is not None:
                _take_all(ports, of_ports)
            elif _ROCE.match(line):
                one_shot = True
            elif not _ELSEWHERE.match(line):
                opened |= _topics_in(line)
    except _OpenError:
        return None
    return Running(
        tuple(sorted(vlans)), ports, frozenset(opened), one_shot, bool(_LLDP.search(text))
    )


def _expand(names: str) -> Iterator[str]:
    """`1/1-1/3,1/7` as names; a range over parts of several split ports has no published order."""
    for part in names.split(","):
        found = _RANGE.fullmatch(part)
        if found is None or found[3] not in {None, found[1]}:
            raise _OpenError(part)
        for number in range(int(found[2]), int(found[4] or found[2]) + 1):
            yield f"{found[1]}{number}"


def _take_all(ports: dict[str, RunningPort], found: re.Match[str]) -> None:
    negated, kind, names, tail = found.groups(default="")
    for name in _expand(names):
        _take(ports.setdefault(f"{_NAMES[kind]}{name}", RunningPort()), negated + tail)


def _take(port: RunningPort, tail: str) -> None:
    for pattern, take in _TAILS:
        found = pattern.fullmatch(tail)
        if found is not None:
            take(port, found)
            return
    port.open |= _topics_in(tail)


def _topics_in(line: str) -> set[Topic]:
    return {topic for word, topics in _WORDS if word.search(line) for topic in topics}


def _mtu(port: RunningPort, found: re.Match[str]) -> None:
    port.mtu_bytes = int(found[1])


def _shutdown(port: RunningPort, found: re.Match[str]) -> None:
    port.shut = not found[1]


def _mode(port: RunningPort, found: re.Match[str]) -> None:
    port.mode = cast("PortMode", found[1])


def _access_vlan(port: RunningPort, found: re.Match[str]) -> None:
    port.access_vlan = int(found[1])


def _allowed(port: RunningPort, found: re.Match[str]) -> None:
    mode, adds, text = found.groups()
    held = port.allowed.get(mode)
    if adds and held is None:
        port.open.add("switchport")  # added to what the mode allows at first, which none documents
    elif held != "all":
        vlans = parse_vlan_ranges(text)
        more = tuple(sorted({*(held or ()), *vlans}))
        port.allowed[mode] = "all" if text == "all" else more if adds else vlans


def _trust(port: RunningPort, found: re.Match[str]) -> None:
    port.trust = cast("Trust", found[1])


def _rewrite(port: RunningPort, found: re.Match[str]) -> None:
    port.rewrite_dscp = not found[1]


def _congestion(port: RunningPort, found: re.Match[str]) -> None:
    tc, kind, word, low, high = found.groups()
    port.ecn[int(tc)] = EcnState(
        min_kib=int(low),
        max_kib=int(high),
        kind=cast("Literal['ecn', 'red', 'both']", kind),
        relative=word == "relative",
    )


def _strict(port: RunningPort, found: re.Match[str]) -> None:
    port.strict.add(int(found[1]))


def _weight(port: RunningPort, found: re.Match[str]) -> None:
    port.weights[int(found[1])] = int(found[2])


def _nothing(_port: RunningPort, _found: re.Match[str]) -> None:
    """A line that is about no setting of ours."""


_TAILS: Final[tuple[tuple[re.Pattern[str], Callable[[RunningPort, re.Match[str]], None]], ...]] = (
    (re.compile(r"mtu (\d+)(?: force)?"), _mtu),
    (re.compile(r"(no )?shutdown"), _shutdown),
    (re.compile(r"switchport mode (access|trunk|hybrid)"), _mode),
    (re.compile(r"switchport access vlan (\d+)"), _access_vlan),
    (re.compile(r"switchport (trunk|hybrid) allowed-vlan (add )?(all|none|[\d,-]+)"), _allowed),
    (re.compile(r"qos trust (L2|L3|both|port)"), _trust),
    (re.compile(r"(no )?qos rewrite dscp"), _rewrite),
    (re.compile(r"(?:no )?qos rewrite pcp"), _nothing),
    (
        re.compile(
            r"traffic-class (\d) congestion-control (ecn|red|both)"
            r" minimum-(absolute|relative) (\d+) maximum-\3 (\d+)"
        ),
        _congestion,
    ),
    (re.compile(r"traffic-class (\d) dcb ets strict"), _strict),
    (re.compile(r"traffic-class (\d) dcb ets wrr (\d+)"), _weight),
    (re.compile(r"description .*|speed .*|dcb priority-flow-control .*"), _nothing),
)
_WORDS: Final[tuple[tuple[re.Pattern[str], tuple[Topic, ...]], ...]] = (
    (re.compile(r"\b(?:mtu|shutdown)\b"), ("interface",)),
    # A port of a bundle is in the bundle's VLANs.
    (re.compile(r"\b(?:switchport|channel-group)\b"), ("switchport",)),
    (re.compile(r"\b(?:qos|dscp)\b"), ("qos",)),
    (re.compile(r"\b(?:traffic-class|congestion-control)\b"), ("congestion",)),
    (re.compile(r"\b(?:traffic-class|ets)\b"), ("ets",)),
)
"""A word in a line of another form, and what is then not known."""
