"""What `show running-config` and two tables say of all ports, and what they leave open.

The configuration holds what is not the factory's value, one whole line a setting, and equal lines
of neighbouring ports with a range (oxidized's capture of 3.9.2504, the collection's fixture). A
line about a setting of ours in another form is no value: its topic is open on those ports, and they
are asked one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.onyx.answers import PRIORITIES, read_status
from components.fabric.systems.onyx.rows import (
    FACTORY_VLAN,
    PORT_ROWS,
    TOPICS,
    Values,
    rows_of,
    topics_of,
)
from components.fabric.systems.ranges import parse_vlan_ranges

RUNNING: Final = "show running-config"
ROCE: Final = "show roce"
STATUS: Final = "show interfaces ethernet status"
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
_ROCE: Final = re.compile(r"^\s*roce\b", re.MULTILINE)
_LLDP: Final = re.compile(r"^\s*lldp\s*$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"^\s*(?:$|#|roce\b|(?:no )?interface )")
"""A comment, the one-shot, or a line about one interface."""
_RANGE: Final = re.compile(r"((?:\d+/)*)(\d+)(?:-((?:\d+/)*)(\d+))?")
_OTHERS: Final = re.compile(
    r"(?:no )?qos rewrite pcp|description .*|speed .*|dcb priority-flow-control .*"
)
"""Lines about no setting of ours."""
_LINES: Final = tuple((re.compile(row.line), row) for row in PORT_ROWS)
_FACTORY: Final[Values] = {row.name: row.factory for row in PORT_ROWS}


@dataclass(slots=True)
class RunningPort:
    """What lines say of one port or bundle, by name of the row."""

    values: Values = field(default_factory=dict[str, object])
    open: set[str] = field(default_factory=set[str])
    """Topics with a line that cannot be read."""

    def take(self, tail: str) -> None:
        """Read one line about this port."""
        for pattern, row in _LINES:
            if found := pattern.fullmatch(tail):
                held = self.values.get(row.name, {})
                self.values[row.name] = row.take(held, *found.groups())
                return
        if not _OTHERS.fullmatch(tail):
            self.open |= _topics_in(tail)

    @property
    def switchport(self) -> PortState | None:
        """Its VLANs; None: a line is missing or cannot be read."""
        found = _FACTORY | self.values
        mode, allowed = found["mode"], {"access": (), **found["trunk_vlans"]}.get(found["mode"])
        if "switchport" in self.open or allowed is None:
            return None
        access = None if mode == "trunk" else found["access_vlan"]
        return PortState(mode=mode, access_vlan=access, trunk_vlans=allowed)


def _topics_in(line: str) -> set[str]:
    return {topic for topic, (_, words) in TOPICS.items() if words.search(line)}


@dataclass(frozen=True, slots=True)
class Running:
    """A running configuration."""

    vlans: tuple[int, ...]
    ports: dict[str, RunningPort]
    """Each port and bundle that a line names."""
    open: frozenset[str]
    """What a line about no single port may decide for all of them, since it cannot be read."""
    one_shot: bool
    """A `roce` line is there: what it sets on ports has no lines of its own."""
    lldp: bool


@lru_cache(maxsize=1)
def parse_running(text: str) -> Running | None:
    """Read an answer to `show running-config`; None: it has another form than the captures.

    The last one is kept: one look asks it four times what is still to be asked, and read.
    """
    if not all(head.search(text) for head in _HEADS):
        return None
    vlans, ports, opened = {FACTORY_VLAN}, dict[str, RunningPort](), set[str]()
    for line in text.splitlines():
        if vlan := _VLAN.match(line):
            vlans.update(parse_vlan_ranges(vlan[1]))
        elif of_ports := _OF_PORTS.match(line):
            negated, kind, names, tail = of_ports.groups(default="")
            if (expanded := _expand(names)) is None:
                return None
            for name in expanded:
                ports.setdefault(f"{_NAMES[kind]}{name}", RunningPort()).take(negated + tail)
        elif not _ELSEWHERE.match(line):
            opened |= _topics_in(line)
    flags = (bool(pattern.search(text)) for pattern in (_ROCE, _LLDP))
    return Running(tuple(sorted(vlans)), ports, frozenset(opened), *flags)


def _expand(names: str) -> list[str] | None:
    """`1/1-1/3,1/7` as names; None: over parts of several split ports, in no published order."""
    found = [_RANGE.fullmatch(part) for part in names.split(",")]
    if any(part is None or part[3] not in {None, part[1]} for part in found):
        return None
    return [
        f"{part[1]}{number}"
        for part in found
        if part
        for number in range(int(part[2]), int(part[4] or part[2]) + 1)
    ]


_TRUST: Final = re.compile(r"^Port trust mode *: *(L2|L3|both|port)$", re.MULTILINE)
_ECN: Final = re.compile(
    r"^Port congestion-control:\n +Mode *: *ecn, absolute\n +Min \(KB\) *: *(\d+)\n"
    r" +Max \(KB\) *: *(\d+)$",
    re.MULTILINE,
)
_CLASS: Final = re.compile(r"^ +\d +(\d) +(RoCE|CNP) +(?:WRR (\d+)%|Strict) *$", re.MULTILINE)
_HEAD: Final = re.compile(r"^RoCE mode *: *(?:lossless|semi-lossless|lossy)$", re.MULTILINE)
_NO_EXCEPTION: Final = re.compile(r"^Exception list:\s+N/A\s*\Z", re.MULTILINE)


def parse_one_shot(text: str) -> Values | None:
    """Values of every port that has no line of its own, by name of the row (capture C1).

    None: the answer has another form, or names an exception. The weight is a percent, of the class
    of RoCE alone: those of the others are not in the answer.
    """
    trust, ecn, rows = _TRUST.search(text), _ECN.search(text), _CLASS.findall(text)
    marked = [int(tc) for tc, use, _ in rows if use == "RoCE"]
    if not (_HEAD.search(text) and _NO_EXCEPTION.search(text) and trust and ecn):
        return None
    control = EcnState(min_kib=int(ecn[1]), max_kib=int(ecn[2]))
    schedule = {int(tc): int(percent) if percent else None for tc, _, percent in rows}
    ecn_of = dict.fromkeys(PRIORITIES) | dict.fromkeys(marked, control)
    found = {"trust": trust[1], "ecn": ecn_of, "schedule": schedule}
    return found if len(marked) == 1 else None


@dataclass(frozen=True, slots=True)
class Whole:
    """What the answers about all ports say of any port."""

    running: Running
    status: Mapping[str, Values]
    shot: Values | None
    """What the one-shot set on every port that has no line of its own; None: it is off, or some
    port is an exception."""

    def _port(self, name: str) -> RunningPort:
        return self.running.ports.get(name, RunningPort())

    def _open(self, name: str) -> set[str]:
        port = self._port(name)
        opened = {*self.running.open, *port.open}
        if self.running.one_shot and self.shot is None:
            opened |= {"qos", "congestion", "ets"}
        if self.running.one_shot and any(port.values.get("schedule", {}).values()):
            opened.add("ets")  # a weight is a number in a line, and a percentage in `show roce`
        if "mtu_bytes" not in port.values:
            opened.add("interface")
        return opened

    def opens(self, name: str, asked: PortState) -> Iterator[str]:
        """What of a port is still to be asked by itself."""
        known = {"interface"} if name in self.status else set[str]()
        yield from (topic for topic in topics_of(asked) if topic in self._open(name) - known)

    def members(self, wanted: SwitchState) -> dict[str, PortState] | None:
        """Switchports and bundles that are asked for or named; None: the table is to be asked."""
        known = {*self.running.ports, *self.status}
        if wanted.others is not None or not {*wanted.ports} <= known:
            return None
        names = (*wanted.ports, *self.running.ports)
        found = {name: self._port(name).switchport for name in names}
        told = {name: port for name, port in found.items() if port is not None}
        is_whole = len(told) == len(found) and "switchport" not in self.running.open
        return told if is_whole else None

    def port(self, name: str, asked: PortState) -> dict[str, object]:
        """What it says of the settings that are asked for, but for those of `members`."""
        base, own = _FACTORY | (self.shot or {}), self._port(name).values
        table = self.status.get(name, {}) if "interface" in self._open(name) else {}
        found: dict[str, object] = {}
        for topic in topics_of(asked):
            for row in rows_of(topic, asked):
                value = own.get(row.name, base[row.name])
                if row.name in {"ecn", "schedule"}:
                    value = base[row.name] | own.get(row.name, {})
                found |= row.fields(table.get(row.name, value), asked)
        return found


def whole_of(answers: Mapping[str, str]) -> Whole | None:
    """Read what is there of the answers; None: no running configuration of a known form."""
    running = parse_running(answers.get(RUNNING, ""))
    if running is None:
        return None
    shot = parse_one_shot(answers.get(ROCE, "")) if running.one_shot else None
    return Whole(running, read_status(answers.get(STATUS, "")), shot)


def whole_command(answers: Mapping[str, str], wanted: SwitchState) -> str | None:
    """The next command whose answer is about all ports; None: there is no more to learn so."""
    if RUNNING not in answers:
        return RUNNING
    whole = whole_of(answers)
    if whole is None:
        return None
    if ROCE not in answers and (whole.running.one_shot or wanted.roce is not None):
        return ROCE
    lacking = (
        "interface" in whole.opens(name, port) or name not in whole.running.ports
        for name, port in wanted.ports.items()
    )
    return STATUS if STATUS not in answers and any(lacking) else None
