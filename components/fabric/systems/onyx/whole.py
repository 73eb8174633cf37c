"""A look at an Onyx switch by its running configuration: what it tells, and what is still to ask.

Four commands a port become one for the switch, the table of all ports where the MTU of one is the
factory's, which differs by release, and `show roce` where the one-shot is on. What they leave open
is asked port by port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, cast

from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.onyx.read import Interface, Switchport, Trust
from components.fabric.systems.onyx.running import Running, RunningPort, Topic, parse_running

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

    @property
    def vlans(self) -> tuple[int, ...]:
        """Every VLAN."""
        return self.running.vlans

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
        port = self._port(name)
        for topic in topics_of(asked):
            if topic == "interface":
                if self.interface(name) is None:
                    yield topic
            elif topic in self._open(port):
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
    return {
        name: Interface(admin == "Enabled", int(mtu)) for name, _, admin, mtu in _ROW.findall(text)
    }


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
    beside = asked.rewrite_dscp is not None or bool(asked.dscp_priorities)
    return asked.trust is not None or beside


def parse_links(_command: str, text: str) -> dict[str, bool]:
    """The same table: port to whether it has a link."""
    return {name: state == "Up" for name, state, _, _ in _ROW.findall(text)}
