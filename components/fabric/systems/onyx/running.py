"""`show running-config`, read into what it says of ports and VLANs; and what it leaves open.

It holds what is not the factory's, one whole line a setting, and equal lines of neighbouring ports
with a range (oxidized's capture of 3.9.2504, the collection's fixture). A line about a setting of
ours in another form is no value: its topic is open on those ports, and they are asked one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from operator import not_
from typing import Final, Literal, cast

from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.onyx.read import Interface, PortMode, Switchport, Trust
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
                _take_all(ports, *of_ports.groups(default=""))
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


def _take_all(
    ports: dict[str, RunningPort], negated: str, kind: str, names: str, tail: str
) -> None:
    for name in _expand(names):
        _take(ports.setdefault(f"{_NAMES[kind]}{name}", RunningPort()), negated + tail)


def _take(port: RunningPort, tail: str) -> None:
    for pattern, name, convert in _VALUES:
        if found := pattern.fullmatch(tail):
            setattr(port, name, convert(found[1]))
            return
    for pattern, take in _ENTRIES:
        if found := pattern.fullmatch(tail):
            take(port, *found.groups())
            return
    if not _OTHERS.fullmatch(tail):
        port.open |= _topics_in(tail)


def _topics_in(line: str) -> set[Topic]:
    return {topic for word, topics in _WORDS if word.search(line) for topic in topics}


def _allow(port: RunningPort, mode: str, adds: str | None, text: str) -> None:
    held = port.allowed.get(mode)
    if adds and held is None:
        port.open.add("switchport")  # added to what the mode allows at first, which none documents
    elif held != "all":
        vlans = parse_vlan_ranges(text)
        more = tuple(sorted({*(held or ()), *vlans}))
        port.allowed[mode] = "all" if text == "all" else more if adds else vlans


def _mark(port: RunningPort, tc: str, kind: str, word: str, low: str, high: str) -> None:
    port.ecn[int(tc)] = EcnState(
        min_kib=int(low),
        max_kib=int(high),
        kind=cast("Literal['ecn', 'red', 'both']", kind),
        relative=word == "relative",
    )


def _serve(port: RunningPort, tc: str, weight: str | None) -> None:
    if weight is None:
        port.strict.add(int(tc))
    else:
        port.weights[int(tc)] = int(weight)


_VALUES: Final[tuple[tuple[re.Pattern[str], str, Callable[[str], object]], ...]] = (
    (re.compile(r"mtu (\d+)(?: force)?"), "mtu_bytes", int),
    (re.compile(r"(no )?shutdown"), "shut", not_),
    (re.compile(r"switchport mode (access|trunk|hybrid)"), "mode", str),
    (re.compile(r"switchport access vlan (\d+)"), "access_vlan", int),
    (re.compile(r"qos trust (L2|L3|both|port)"), "trust", str),
    (re.compile(r"(no )?qos rewrite dscp"), "rewrite_dscp", not_),
)
"""Lines that say one value: its field, and how the text becomes it."""
_ENTRIES: Final[tuple[tuple[re.Pattern[str], Callable[..., None]], ...]] = (
    (re.compile(r"switchport (trunk|hybrid) allowed-vlan (add )?(all|none|[\d,-]+)"), _allow),
    (
        re.compile(
            r"traffic-class (\d) congestion-control (ecn|red|both)"
            r" minimum-(absolute|relative) (\d+) maximum-\3 (\d+)"
        ),
        _mark,
    ),
    (re.compile(r"traffic-class (\d) dcb ets (?:strict|wrr (\d+))"), _serve),
)
_OTHERS: Final = re.compile(
    r"(?:no )?qos rewrite pcp|description .*|speed .*|dcb priority-flow-control .*"
)
"""Lines about no setting of ours."""
_WORDS: Final[tuple[tuple[re.Pattern[str], tuple[Topic, ...]], ...]] = (
    (re.compile(r"\b(?:mtu|shutdown)\b"), ("interface",)),
    # A port of a bundle is in the bundle's VLANs.
    (re.compile(r"\b(?:switchport|channel-group)\b"), ("switchport",)),
    (re.compile(r"\b(?:qos|dscp)\b"), ("qos",)),
    (re.compile(r"\b(?:traffic-class|congestion-control)\b"), ("congestion",)),
    (re.compile(r"\b(?:traffic-class|ets)\b"), ("ets",)),
)
"""A word in a line of another form, and what is then not known."""


_HEAD: Final = re.compile(r"^RoCE mode *: *(?:lossless|semi-lossless|lossy)$", re.MULTILINE)
_TRUST: Final = re.compile(r"^Port trust mode *: *(L2|L3|both|port)$", re.MULTILINE)
_ECN: Final = re.compile(
    r"^Port congestion-control:\n +Mode *: *ecn, absolute\n +Min \(KB\) *: *(\d+)\n"
    r" +Max \(KB\) *: *(\d+)$",
    re.MULTILINE,
)
_CLASS: Final = re.compile(r"^ +\d +(\d) +(RoCE|CNP) +(?:WRR (\d+)%|(Strict)) *$", re.MULTILINE)
_NO_EXCEPTION: Final = re.compile(r"^Exception list:\s+N/A\s*\Z", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OneShot:
    """Settings of every port that has no line of its own; at first the factory's, as without it."""

    trust: Trust = "L2"
    ecn: dict[int, EcnState] = field(default_factory=dict[int, EcnState])
    strict: frozenset[int] = frozenset()
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """Percent, of the class of RoCE alone: those of the others are not in the answer."""


def parse_one_shot(text: str) -> OneShot | None:
    """Read an answer in the form of capture C1; None: it has another, or names an exception."""
    trust, ecn = _TRUST.search(text), _ECN.search(text)
    rows = _CLASS.findall(text)
    if not (_HEAD.search(text) and _NO_EXCEPTION.search(text)) or trust is None or ecn is None:
        return None
    marked = [int(tc) for tc, use, _, _ in rows if use == "RoCE"]
    if len(marked) != 1:
        return None
    return OneShot(
        cast("Trust", trust[1]),
        {marked[0]: EcnState(min_kib=int(ecn[1]), max_kib=int(ecn[2]))},
        frozenset(int(tc) for tc, _, _, strict in rows if strict),
        {int(tc): int(percent) for tc, _, percent, _ in rows if percent},
    )


ROCE: Final = "show roce"
RUNNING: Final = "show running-config"
STATUS: Final = "show interfaces ethernet status"
CLASSES: Final = range(8)
FACTORY_ETS_WEIGHT: Final = 12
"""Weight of every class before anybody sets one (the collection's fixture)."""
_ROW: Final = re.compile(
    r"^Eth(\S+) {2,}(\S.*?) {2,}(Enabled|Disabled) {2,}\S.*? {2,}(\d+)(?:\s|$)", re.MULTILINE
)
"""Port, operational state, admin state, speed, MTU (capture C7)."""
_SET_BY_ROCE: Final[frozenset[Topic]] = frozenset({"qos", "congestion", "ets"})


@dataclass(frozen=True, slots=True)
class Whole:
    """What the two answers say of any port."""

    running: Running
    status: Mapping[str, Interface]
    shot: OneShot | None
    """What the one-shot set on every port that has no line of its own; None: it is off, or some
    port is an exception."""

    def interface(self, name: str) -> Interface | None:
        """MTU and admin state; None: neither answer says them."""
        port = self._port(name)
        if port.mtu_bytes is None or "interface" in self.running.open | port.open:
            return self.status.get(name)
        return Interface(not port.shut, port.mtu_bytes)

    def members(self, wanted: SwitchState) -> dict[str, Switchport] | None:
        """Switchports and bundles that are asked for or named; None: the table is to be asked."""
        known = {*self.running.ports, *self.status}
        if wanted.others is not None or not {*wanted.ports} <= known:
            return None
        if "switchport" in self.running.open:
            return None
        names = (*wanted.ports, *self.running.ports)
        found = {name: self._port(name).switchport for name in names}
        told = {name: port for name, port in found.items() if port is not None}
        return told if len(told) == len(found) else None

    def port(self, name: str, asked: PortState) -> PortState:
        """What it says of the settings that are asked for, but for those of `members`."""
        port, shot, found = self._port(name), self.shot or OneShot(), dict[str, object]()
        link = self.interface(name) if "interface" in topics_of(asked) else None
        if link is not None:
            found |= {"admin_up": link.admin_up, "mtu_bytes": link.mtu_bytes}
        if asked_trust(asked):
            found["trust"] = port.trust or shot.trust
        if asked.rewrite_dscp is not None:
            found["rewrite_dscp"] = port.rewrite_dscp
        if asked.dscp_priorities:
            found["dscp_priorities"] = {dscp: dscp // len(CLASSES) for dscp in range(64)}
        if asked.ecn:
            ecn: dict[int, EcnState | None] = {
                tc: port.ecn.get(tc, shot.ecn.get(tc)) for tc in CLASSES
            }
            found["ecn"] = ecn
        if "ets" in topics_of(asked):
            found |= _classes(port, shot, with_shares=bool(asked.class_shares))
        return PortState().model_copy(update=found)

    def opens(self, name: str, asked: PortState) -> Iterator[Topic]:
        """What of a port is still to be asked by itself."""
        opened = self._open(self._port(name))
        for topic in topics_of(asked):
            if self.interface(name) is None if topic == "interface" else topic in opened:
                yield topic

    def _open(self, port: RunningPort) -> AbstractSet[Topic]:
        opened: set[Topic] = {*self.running.open, *port.open}
        if self.running.one_shot and self.shot is None:
            opened |= _SET_BY_ROCE
        if self.running.one_shot and port.weights:
            opened.add("ets")  # a weight is a number in a line, and a percentage in `show roce`
        return opened

    def _port(self, name: str) -> RunningPort:
        return self.running.ports.get(name, RunningPort())


def _classes(port: RunningPort, shot: OneShot, *, with_shares: bool) -> dict[str, object]:
    """The strict classes of a port, and the weights of the others."""
    strict = port.strict | shot.strict
    weights = shot.weights or {
        tc: port.weights.get(tc, FACTORY_ETS_WEIGHT) for tc in CLASSES if tc not in strict
    }
    shares = {"class_shares": weights} if with_shares else {}
    return {"strict_classes": tuple(sorted(strict)), "wrr_weights": weights, **shares}


def whole_of(answers: Mapping[str, str]) -> Whole | None:
    """Read what is there of the answers; None: no running configuration of a known form."""
    running = parse_running(answers.get(RUNNING, ""))
    if running is None:
        return None
    shot = parse_one_shot(answers.get(ROCE, "")) if running.one_shot else None
    return Whole(running, parse_status(answers.get(STATUS, "")), shot)


def parse_status(text: str) -> dict[str, Interface]:
    """`show interfaces ethernet status`: the rows that have the form of the capture."""
    rows = _ROW.findall(text)
    return {name: Interface(admin == "Enabled", int(mtu)) for name, _, admin, mtu in rows}


def whole_command(answers: Mapping[str, str], wanted: SwitchState) -> str | None:
    """The next command whose answer is about all ports; None: there is no more to learn so."""
    if RUNNING not in answers:
        return RUNNING
    whole = whole_of(answers)
    if whole is None:
        return None
    if ROCE not in answers and (whole.running.one_shot or wanted.roce is not None):
        return ROCE
    if STATUS in answers:
        return None
    lacking = (
        "interface" in whole.opens(name, port) or name not in whole.running.ports
        for name, port in wanted.ports.items()
    )
    return STATUS if any(lacking) else None


def topics_of(asked: PortState) -> tuple[Topic, ...]:
    """What must be known of a port beside its VLANs."""
    needed: tuple[tuple[Topic, bool], ...] = (
        ("interface", asked.mtu_bytes is not None or asked.admin_up is not None),
        ("qos", asked_trust(asked)),
        ("congestion", bool(asked.ecn)),
        ("ets", asked.strict_classes is not None or bool(asked.class_shares)),
    )
    return tuple(topic for topic, is_needed in needed if is_needed)


def asked_trust(asked: PortState) -> bool:
    """Whether a setting is asked for that the answer about trust has."""
    named = (asked.trust, asked.rewrite_dscp, asked.dscp_priorities or None)
    return any(value is not None for value in named)


def parse_links(_command: str, text: str) -> dict[str, bool]:
    """The same table: port to whether it has a link."""
    return {name: state == "Up" for name, state, _, _ in _ROW.findall(text)}
