"""Every setting of Onyx that we own, as one table: what shows it, its line, how it is written.

`show running-config` has one whole line for each value that is not the factory's, with a range of
ports. A line about a setting of ours in another form is no value: its topic is open on those ports,
and they are asked one by one. WHY.md has the source of each line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from components.fabric.state import ALL_VLANS, EcnState, PortState, SwitchState, list_vlans
from components.fabric.systems import ranges
from components.fabric.systems import rows as table
from components.fabric.systems.base import Change
from components.fabric.systems.onyx import answers as show
from components.fabric.systems.onyx.answers import PRIORITIES
from components.fabric.systems.ranges import collapse_vlans, parse_vlan_ranges
from components.fabric.systems.rows import PortRow, SwitchLines, Values, nothing, rows_of

SWITCHPORTS: Final = "show interfaces switchport | json-print"
COMMANDS: Final = {
    "switchport": SWITCHPORTS,
    "interface": "show interfaces ethernet {}",
    "qos": "show qos interface ethernet {} | json-print",
    "congestion": show.CONGESTION,
    "ets": "show dcb ets interface ethernet {} | json-print",
}
"""What is shown together."""
_WORDS: Final = {
    "switchport": re.compile(r"\b(?:switchport|channel-group)\b"),  # a bundle has its own VLANs
    "interface": re.compile(r"\b(?:mtu|shutdown)\b"),
    "qos": re.compile(r"\b(?:qos|dscp)\b"),
    "congestion": re.compile(r"\b(?:traffic-class|congestion-control)\b"),
    "ets": re.compile(r"\b(?:traffic-class|ets)\b"),
}
"""A word in a line of another form, and what that line may be about."""
FACTORY_VLAN: Final = 1
FACTORY_WEIGHTS: Final = {tc: 12 + tc % 2 for tc in PRIORITIES}
"""Of an untouched port (onyx_show_dcb_ets_interface.cfg); together 100."""
LLDP: Final = "lldp"
"""Key of `SwitchState.native`: `on` if LLDP was on, which goes with the one-shot."""


def _switchport(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    mode, is_new = target.mode or actual.mode, target.mode not in {None, actual.mode}
    if is_new:
        yield f"switchport mode {mode}"  # not `no switchport force`, which makes a router port
    access = FACTORY_VLAN if is_new else actual.access_vlan
    if target.access_vlan not in {None, access} and mode != "trunk":
        yield f"switchport access vlan {target.access_vlan}"
    if target.trunk_vlans is None or mode not in {"trunk", "hybrid"}:
        return
    head, wanted = f"switchport {mode} allowed-vlan", {*list_vlans(target.trunk_vlans)}
    held = set[int]() if is_new else {*list_vlans(actual.trunk_vlans or ())}
    if wanted != held and len(wanted) == len(ALL_VLANS):
        yield f"{head} all"
        return
    if is_new:
        yield f"{head} none"  # what a mode allows at first is not documented
    if wanted - held:
        yield f"{head} add {collapse_vlans(wanted - held)}"
    if held - wanted:
        yield f"{head} remove {collapse_vlans(held - wanted)}"


def _allow(held: Values, mode: str, adds: str | None, text: str) -> Values:
    """The list of a mode; None: more than it allows at first, which is not documented."""
    before = held.get(mode)
    if text == "all" or (adds and before == "all"):
        return {**held, mode: "all"}
    vlans = parse_vlan_ranges(text)
    if adds:
        return {**held, mode: None if before is None else tuple(sorted({*before, *vlans}))}
    return {**held, mode: vlans}


def _share(held: Values, tc: str, weight: str | None) -> Values:
    return {**held, int(tc): weight and int(weight)}


def _mark(held: Values, tc: str, kind: str, word: str, low: str, high: str) -> Values:
    found = {"min_kib": low, "max_kib": high, "kind": kind, "relative": word == "relative"}
    return {**held, int(tc): EcnState.model_validate(found)}


def _ecn(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    for tc, wanted in sorted(target.ecn.items()):
        if wanted == actual.ecn.get(tc):
            continue
        head = f"traffic-class {tc} congestion-control"
        if wanted is None:
            yield f"no {head}"
        else:
            word = "relative" if wanted.relative else "absolute"
            ends = f"minimum-{word} {wanted.min_kib} maximum-{word} {wanted.max_kib}"
            yield f"{head} {wanted.kind} {ends}"


def _schedule(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    if target.strict_classes is None:
        return
    held, wanted = {*(actual.strict_classes or ())}, {*target.strict_classes}
    for tc in sorted(wanted - held):
        yield f"traffic-class {tc} dcb ets strict"
    for tc in sorted(held - wanted - {*target.class_shares}):
        yield f"traffic-class {tc} dcb ets wrr {target.wrr_weights[tc]}"
    for tc, said in sorted(target.class_shares.items()):
        share = said or target.wrr_weights.get(tc, 0)  # a baseline has weights, and no shares
        if tc not in wanted and (tc in held or share != actual.class_shares.get(tc)):
            yield f"traffic-class {tc} dcb ets wrr {share}"


def _mtu(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    """A port must be shut for a new MTU (the ESXi guide)."""
    if target.mtu_bytes in {None, actual.mtu_bytes}:
        return
    if actual.admin_up is not False:
        yield "shutdown"
    yield f"mtu {target.mtu_bytes}"
    if actual.admin_up is not False and target.admin_up is not False:
        yield "no shutdown"


def _is_shut(_held: object, no: str | None) -> bool:
    return no is not None


def _admin(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    if target.admin_up and not actual.admin_up:
        yield "no shutdown"
    elif target.admin_up is False and actual.admin_up is not False:
        yield from ("shutdown",) if target.mtu_bytes in {None, actual.mtu_bytes} else ()


def _pfc(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str]]:
    """Priorities before the switch as a whole, so that nothing is paused by halves."""
    line, held = "dcb priority-flow-control priority {} enable", actual.pfc_priorities or ()
    wanted = held if target.pfc_priorities is None else target.pfc_priorities
    yield from ((line.format(each),) for each in wanted if each not in held)
    yield from ((f"no {line.format(each)}",) for each in held if each not in wanted)
    if target.pfc_enabled not in {None, actual.pfc_enabled}:
        yield (f"{'' if target.pfc_enabled else 'no '}dcb priority-flow-control enable force",)


def _lldp(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str]]:
    """Only ever put back: `roce` needs it, and `no roce` takes it along."""
    if target.roce is not None and LLDP in target.native and LLDP not in actual.native:
        yield ("lldp",)


_read_mtu = table.line_reader(r"^\s*(?:Ethernet )?MTU\s*:\s*(\d+) bytes")
_read_admin = table.line_reader(r"^\s*Admin state\s*:\s*(Enabled|Disabled)")
_read_trust = table.word_reader("Eth{}", "Trust mode", "L2", "L3", "both", "port")
_read_rewrite = table.word_reader("Eth{}", "DSCP rewrite", "enabled", "disabled")
_MODE: Final = "switchport mode (access|trunk|hybrid)"
_ACCESS: Final = r"switchport access vlan (\d+)"
_LIST: Final = r"switchport (trunk|hybrid) allowed-vlan (add )?(all|none|[\d,-]+)"
_TRUST: Final = "qos trust (L2|L3|both|port)"
_REWRITE: Final = "(no )?qos rewrite dscp"
_MAP: Final = {dscp: dscp // len(PRIORITIES) for dscp in range(64)}
_CONTROL: Final = (
    r"traffic-class (\d) congestion-control (ecn|red|both)"
    r" minimum-(absolute|relative) (\d+) maximum-\3 (\d+)"
)
_ON, _OFF = True, False
_NO_ECN: Final[Values] = dict.fromkeys(PRIORITIES)
_ETS: Final = r"traffic-class (\d) dcb ets (?:strict|wrr (\d+))"
_MTU, _SHUT = r"mtu (\d+)(?: force)?", "(no )?shutdown"
ROWS: Final[tuple[PortRow | SwitchLines, ...]] = (
    lambda was, now: ((f"vlan {vlan}", "exit") for vlan in now.vlans if vlan not in was.vlans),
    PortRow("mode", "switchport", None, "access", _MODE, write=_switchport),
    PortRow("access_vlan", "switchport", None, FACTORY_VLAN, _ACCESS, write=nothing),
    PortRow("trunk_vlans", "switchport", None, {}, _LIST, _allow, nothing),
    PortRow("trust", "qos", _read_trust, "L2", _TRUST),
    PortRow("rewrite_dscp", "qos", _read_rewrite, _OFF, _REWRITE, if_asked=True),
    PortRow("dscp_priorities", "qos", show.read_dscp_map, _MAP, write=nothing, if_asked=True),
    PortRow("ecn", "congestion", show.read_congestion, _NO_ECN, _CONTROL, _mark, _ecn),
    PortRow("schedule", "ets", show.read_schedule, FACTORY_WEIGHTS, _ETS, _share, _schedule),
    _pfc,
    PortRow("pfc", line="(no )?dcb priority-flow-control mode( on)? force"),
    _lldp,
    PortRow("mtu_bytes", "interface", _read_mtu, None, _MTU, write=_mtu, alone=True),
    PortRow("admin_up", "interface", _read_admin, _ON, _SHUT, _is_shut, _admin, alone=True),
    lambda was, now: ((f"no vlan {vlan}",) for vlan in was.vlans if vlan not in now.vlans),
)
"""In the order of writing: VLANs before ports name them, classes before a port flaps."""
PORT_ROWS: Final = tuple(row for row in ROWS if isinstance(row, PortRow))


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    The one-shot `roce` moves many settings at once, so it comes alone: what is left after it is
    planned from what the switch then has. While it is lossless, no line takes PFC off a port.
    """
    if target.roce is not None and actual.roce != target.roce:
        line = "no roce" if target.roce == "none" else f"roce {target.roce}"
        return (Change((line,), settles=True),)
    if (target.roce or actual.roce) == "lossless":
        ports = {
            name: port.model_copy(update={"pfc": port.pfc or None})
            for name, port in target.ports.items()
        }
        target = target.model_copy(update={"ports": ports})
    head = "interface ethernet {}"
    return tuple(table.plan_rows(ROWS, head, ranges.collapse_ports, (actual, target)))


def asked_topics(asked: PortState) -> tuple[str, ...]:
    """What must be known of a port beside its VLANs."""
    topics = {row.topic for row in PORT_ROWS if row.is_asked(asked)} - {"switchport"}
    return tuple(topic for topic in COMMANDS if topic in topics)


RUNNING: Final = "show running-config"
ROCE: Final = "show roce"
STATUS: Final = "show interfaces ethernet status"
ALL: Final = ""
"""Means every port in `Whole.opened`."""
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
_ELSEWHERE: Final = re.compile(r"^\s*(?:$|#|roce\b|(?:no )?interface )")
"""A comment, the one-shot, or a line about one interface."""
_ROCE: Final = re.compile(r"^\s*roce\b", re.MULTILINE)
_LLDP: Final = re.compile(r"^\s*lldp\s*$", re.MULTILINE)
_OTHERS: Final = re.compile(
    r"(?:no )?qos rewrite pcp|description .*|speed .*|dcb priority-flow-control .*"
)
"""Lines about no setting of ours."""
_FACTORY: Final[Values] = table.factory_values(PORT_ROWS)


@dataclass(frozen=True, slots=True)
class Whole:
    """What the answers about all ports say of any port."""

    vlans: tuple[int, ...]
    ports: Mapping[str, Values]
    """What lines say of each port and bundle that one names, by name of the row."""
    opened: Mapping[str, set[str]]
    """Port or bundle to the topics with a line that cannot be read."""
    one_shot: bool
    """A `roce` line is there: what it sets on ports has no lines of its own."""
    lldp: bool
    status: Mapping[str, Values]
    """The table of MTU and admin state: the factory's MTU depends on the release."""
    shot: Values | None = None
    """What the one-shot set on every port that has no line of its own; None: it is off, or some
    port is an exception."""

    def _open(self, name: str) -> set[str]:
        lines = self.ports.get(name, {})
        opened = self.opened.get(ALL, set[str]()) | self.opened.get(name, set[str]())
        if self.one_shot and self.shot is None:
            opened |= {"qos", "congestion", "ets"}
        if self.one_shot and any(lines.get("schedule", {}).values()):
            opened |= {"ets"}  # a weight is a number in a line, and a percentage in `show roce`
        return opened if "mtu_bytes" in lines else opened | {"interface"}

    def opens(self, name: str, asked: PortState) -> Iterator[str]:
        """What of a port is still to be asked by itself."""
        opened = self._open(name) - ({"interface"} if name in self.status else set[str]())
        yield from (topic for topic in asked_topics(asked) if topic in opened)

    def _switchport(self, name: str) -> PortState | None:
        """Its VLANs; None: a line is missing or cannot be read."""
        found = _FACTORY | self.ports.get(name, {})
        mode, lists = found["mode"], {"access": (), **found["trunk_vlans"]}
        if "switchport" in self._open(name) or lists.get(mode) is None:
            return None
        access = None if mode == "trunk" else found["access_vlan"]
        return PortState(mode=mode, access_vlan=access, trunk_vlans=lists[mode])

    def members(self, wanted: SwitchState) -> dict[str, PortState] | None:
        """Switchports and bundles that are asked for or named; None: the table is to be asked."""
        if wanted.others is not None or not {*wanted.ports} <= {*self.ports, *self.status}:
            return None
        found = {name: self._switchport(name) for name in (*wanted.ports, *self.ports)}
        told = {name: port for name, port in found.items() if port is not None}
        return told if len(told) == len(found) else None

    def port(self, name: str, asked: PortState) -> dict[str, object]:
        """What it says of the settings that are asked for, but for those of `members`."""
        base, own = _FACTORY | (self.shot or {}), self.ports.get(name, {})
        if "interface" in self._open(name):
            own = own | self.status.get(name, {})
        asked_rows = (
            row for topic in asked_topics(asked) for row in rows_of(PORT_ROWS, topic, asked)
        )
        return table.fields_of(asked_rows, base, own, asked)


@lru_cache(maxsize=1)
def parse_running(text: str) -> Whole | None:
    """Read an answer to `show running-config`; None: it has another form than the captures.

    The last one is kept: one look asks it four times what is still to be asked, and read.
    """
    vlans, ports, opened = {FACTORY_VLAN}, dict[str, Values](), defaultdict[str, set[str]](set)
    if not all(head.search(text) for head in _HEADS):
        return None
    for line in text.splitlines():
        if vlan := _VLAN.match(line):
            vlans.update(parse_vlan_ranges(vlan[1]))
        elif found := _OF_PORTS.match(line):
            if (names := ranges.expand_ports(found[3])) is None:
                return None
            for name in (f"{_NAMES[found[2]]}{each}" for each in names):
                tail, values = f"{found[1] or ''}{found[4]}", ports.setdefault(name, {})
                is_known = table.take_line(PORT_ROWS, values, tail) or _OTHERS.fullmatch(tail)
                opened[name] |= set() if is_known else _topics_in(tail)
        elif not _ELSEWHERE.match(line):
            opened[ALL] |= _topics_in(line)
    roce, lldp = (bool(pattern.search(text)) for pattern in (_ROCE, _LLDP))
    return Whole(tuple(sorted(vlans)), ports, opened, roce, lldp, status={})


def _topics_in(line: str) -> set[str]:
    return {topic for topic, words in _WORDS.items() if words.search(line)}


def whole_of(answers: Mapping[str, str]) -> Whole | None:
    """Read what is there of the answers; None: no running configuration of a known form."""
    whole = parse_running(answers.get(RUNNING, ""))
    if whole is None:
        return None
    shot = show.read_one_shot(answers.get(ROCE, "")) if whole.one_shot else None
    return replace(whole, shot=shot, status=show.read_status(answers.get(STATUS, "")))


def whole_command(answers: Mapping[str, str], wanted: SwitchState) -> str | None:
    """The next command whose answer is about all ports; None: there is no more to learn so."""
    whole = whole_of(answers)
    if RUNNING not in answers or whole is None:
        return None if RUNNING in answers else RUNNING
    if ROCE not in answers and (whole.one_shot or wanted.roce is not None):
        return ROCE
    lacking = (
        "interface" in whole.opens(name, port) or name not in whole.ports
        for name, port in wanted.ports.items()
    )
    return STATUS if STATUS not in answers and any(lacking) else None
