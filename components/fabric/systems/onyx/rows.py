"""Every managed setting of Onyx in one table: the command that shows it, its line, its writer.

`show running-config` prints one line for each value other than the factory's, with a range of
ports. If a line has an unknown form, the settings that it may concern stay open, and those ports
are asked one by one. WHY.md names the source of each line. Every form of an answer has a public
source: `tests/fabric/forms/README.md` names it. Readers raise `Unreadable` rather than guess. A
"capture" is one of lab/sources.md#onyx-captures.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter

from components.core.record import record, replace
from components.fabric.parts import LATER
from components.fabric.state import ALL_VLANS, EcnState, PortState, SwitchState, list_vlans
from components.fabric.systems import ranges
from components.fabric.systems import rows as table
from components.fabric.systems.base import Answer
from components.fabric.systems.ranges import parse_vlan_ranges
from components.fabric.systems.rows import Row, Step, Values, nothing

SWITCHPORTS: Final = "show interfaces switchport | json-print"
INTERFACE: Final = "show interfaces ethernet {}"
QOS: Final = "show qos interface ethernet {} | json-print"
CONGESTION: Final = "show interfaces ethernet {} congestion-control | json-print"
ETS: Final = "show dcb ets interface ethernet {} | json-print"
PRIORITIES: Final = range(8)
"""Switch priorities, and traffic classes: eight of each."""
COUNT: Final = TypeAdapter(int, config=LATER)
CELLS: Final = TypeAdapter(dict[str, dict[str, str]], config=LATER)
LISTS: Final = TypeAdapter(dict[str, list[dict[str, str]]], config=LATER)
TABLES: Final = TypeAdapter(list[dict[str, JsonValue]], config=LATER)
_PORT: Final = TypeAdapter(PortState)
_ECN: Final = TypeAdapter(EcnState)
_SHOT: Final = (
    r"(?ms)^RoCE mode *: *(?:lossless|semi-lossless|lossy)$.*"
    r"^Port trust mode *: *(?P<trust>L2|L3|both|port)$.*"
    r"^Port congestion-control:\n +Mode *: *ecn, absolute\n +Min \(KB\) *: *(?P<low>\d+)\n"
    r" +Max \(KB\) *: *(?P<high>\d+)$.*"
    r"^Exception list:\s+N/A\s*\Z"
)
"""Expressions of this module are texts: `check` uses none of them, and `re` keeps those in use."""
_CLASS: Final = r"(?m)^ +\d +(\d) +(RoCE|CNP) +(?:WRR (\d+)%|Strict) *$"
_STATUS: Final = r"(?m)^Eth(\S+) {2,}(\S.*?) {2,}(Enabled|Disabled) {2,}\S.*? {2,}(\d+)(?:\s|$)"
"""Port, operational state, admin state, speed, MTU (capture C7)."""
_ABOUT: Final = {
    SWITCHPORTS: r"\b(?:switchport|channel-group)\b",  # a bundle has its own VLANs
    INTERFACE: r"\b(?:mtu|shutdown)\b",
    QOS: r"\b(?:qos|dscp)\b",
    CONGESTION: r"\b(?:traffic-class|congestion-control)\b",
    ETS: r"\b(?:traffic-class|ets)\b",
}
"""Command to words of lines in another form that may concern the same settings."""
_ON: Final = ("enabled", "disabled")
Classes = Mapping[int, object] | None
"""Traffic class to the values of its lines; None before the first line."""
FACTORY_VLAN: Final = 1
FACTORY_WEIGHTS: Final = {tc: 12 + tc % 2 for tc in PRIORITIES}
"""Of an untouched port (onyx_show_dcb_ets_interface.cfg); together 100."""
LLDP: Final = "lldp"
"""Key of `SwitchState.native`: `on` if LLDP was on, which goes with the one-shot."""
_ENDS: Final = r"minimum-(absolute|relative) (\d+) maximum-\3 (\d+)"
_MAP: Final = {dscp: dscp // len(PRIORITIES) for dscp in range(64)}
RUNNING: Final = "show running-config"
ROCE: Final = "show roce"
STATUS: Final = "show interfaces ethernet status"
ALL: Final = ""
"""Means every port in `Whole.opened`."""
_HEADS: Final = r"(?ms)^## Running database.*^no cli default prefix-modes enable\s*$"
"""Of every capture; its end says that each line is whole, with the name of its port."""
_OF_PORTS: Final = r"^\s*(no )?interface (ethernet|port-channel|mlag-port-channel) (\S+) *(.*?)\s*$"
_NAMES: Final = {"ethernet": "", "port-channel": "Po", "mlag-port-channel": "Mpo"}
_VLAN: Final = r"^\s*vlan ([\d,-]+)(?: name .*)?\s*$"
_ELSEWHERE: Final = r"^\s*(?:$|#|roce\b|(?:no )?interface )"
"""A comment, the one-shot, or a line about one interface."""
_OTHERS: Final = r"(?:no )?qos rewrite pcp|description .*|speed .*|dcb priority-flow-control .*"
"""Lines that Railyard does not manage."""


def read_members(answer: Answer) -> dict[str, PortState]:
    """The table of switchports and bundles."""
    ports: dict[str, PortState] = {}
    for name, row in answer.find(CELLS).items():
        if name.startswith(("Eth", "Po", "Mpo")):
            mode = answer.cell(row, "Mode", "access", "trunk", "hybrid")
            access = answer.cell(row, "Access vlan")
            allowed = answer.cell(row, "Allowed vlans").strip().lower()
            with answer.reading():
                vlans = allowed if allowed == "all" else parse_vlan_ranges(allowed)
            found = {"mode": mode, "access_vlan": int(access) if access.isdigit() else None}
            ports[name.removeprefix("Eth")] = answer.typed(_PORT, {**found, "trunk_vlans": vlans})
    return ports


def read_dscp_map(answer: Answer) -> dict[int, int]:
    """DSCP to priority."""
    tables = answer.find(TABLES, f"Eth{answer.port}", "PCP(DEI); DSCP to switch-priority mapping")
    return {
        int(dscp): int(answer.cell(row, "switch-priority", *map(str, PRIORITIES)))
        for rows in answer.typed(LISTS, tables[0]).values()
        for row in rows
        for dscp in row.get("DSCP", "").split()
        if dscp.isdecimal()
    }


def read_congestion(answer: Answer) -> dict[int, EcnState | None]:
    """Class to its thresholds."""
    found: dict[int, EcnState | None] = {}
    for each in answer.find(TABLES):
        if "header" in each:
            row = answer.typed(CELLS, {"": each})[""]
            kind = answer.cell(row, "Mode", "none", "ECN", "RED", "BOTH").lower()
            number = answer.typed(COUNT, row["header"].removeprefix("TC-"))
            found[number] = None
            if kind == "none":
                continue
            low, high = (answer.cell(row, f"{end} threshold") for end in ("Minimum", "Maximum"))
            ends = {"min_kib": low.rstrip(" KB%"), "max_kib": high.rstrip(" KB%"), "kind": kind}
            relative = row.get("Threshold mode") == "relative"
            found[number] = answer.typed(_ECN, {**ends, "relative": relative})
    if not found:
        raise answer.unreadable("no traffic class in the answer")
    return found


def read_schedule(answer: Answer) -> dict[int, int | None]:
    """Class to its weight; None: it is served strictly."""
    return {
        int(tc): None
        if answer.cell(row[0], "S.Mode", "WRR", "Strict") == "Strict"
        else answer.typed(COUNT, row[0].get("W"))
        for tc, row in answer.typed(LISTS, answer.find(TABLES, "ETS per TC")[0]).items()
    }


def read_one_shot(text: str) -> dict[str, Any] | None:
    """`show roce` (capture C1): values by row name for ports without their own line.

    None: another form, or there is an exception. Only the class of RoCE has its weight, in percent.
    """
    found, rows = re.search(_SHOT, text), re.findall(_CLASS, text)
    marked = [int(tc) for tc, use, _ in rows if use == "RoCE"]
    if found is None or len(marked) != 1:
        return None
    ecn = EcnState(min_kib=int(found["low"]), max_kib=int(found["high"]))
    return {
        "trust": found["trust"],
        "ecn": dict.fromkeys(PRIORITIES) | {marked[0]: ecn},
        "schedule": {int(tc): int(percent) if percent else None for tc, _, percent in rows},
    }


def read_status(text: str) -> dict[str, dict[str, bool | int]]:
    """`show interfaces ethernet status`: link, admin state and MTU by port."""
    return {
        port: {"admin_up": admin == "Enabled", "mtu_bytes": int(mtu), "link": state == "Up"}
        for port, state, admin, mtu in re.findall(_STATUS, text)
    }


def _write_switchport(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    mode, is_new = now.mode or was.mode, now.mode not in {None, was.mode}
    if is_new:
        yield f"switchport mode {mode}"  # not `no switchport force`, which makes a router port
    access = FACTORY_VLAN if is_new else was.access_vlan
    if now.access_vlan not in {None, access} and mode != "trunk":
        yield f"switchport access vlan {now.access_vlan}"
    if now.trunk_vlans is None or mode not in {"trunk", "hybrid"}:
        return
    head, wanted = f"switchport {mode} allowed-vlan", {*list_vlans(now.trunk_vlans)}
    held = set[int]() if is_new else {*list_vlans(was.trunk_vlans or ())}
    if wanted != held and len(wanted) == len(ALL_VLANS):
        yield f"{head} all"
        return
    if is_new:
        yield f"{head} none"  # the first list of a mode is not documented
    yield from ranges.move_vlans(head, held, wanted)


def _take_list(held: Values | None, mode: str, adds: str | None, text: str) -> Values:
    """The list of a mode; None: more than it allows at first, which is not documented."""
    before = (held or {}).get(mode) if adds else ()
    if "all" in {text, before} or before is None:
        return {**(held or {}), mode: "all" if text == "all" else before}
    return {**(held or {}), mode: tuple(sorted({*before, *parse_vlan_ranges(text)}))}


def _take_share(held: Classes, tc: str, weight: str | None) -> object:
    return {**(held or {}), int(tc): weight and int(weight)}


def _take_ecn(held: Classes, tc: str, kind: str, word: str, low: str, high: str) -> object:
    found = {"min_kib": low, "max_kib": high, "kind": kind, "relative": word == "relative"}
    return {**(held or {}), int(tc): EcnState.model_validate(found)}


def _write_ecn(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    for tc, wanted in sorted(now.ecn.items()):
        head = f"traffic-class {tc} congestion-control"
        if wanted is not None and wanted != was.ecn.get(tc):
            word = "relative" if wanted.relative else "absolute"
            ends = f"minimum-{word} {wanted.min_kib} maximum-{word} {wanted.max_kib}"
            yield f"{head} {wanted.kind} {ends}"
        elif wanted != was.ecn.get(tc):
            yield f"no {head}"


def _write_schedule(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    if now.strict_classes is None:
        return
    held, wanted = {*(was.strict_classes or ())}, {*now.strict_classes}
    for tc in sorted(wanted - held):
        yield f"traffic-class {tc} dcb ets strict"
    for tc in sorted(held - wanted - {*now.class_shares}):
        yield f"traffic-class {tc} dcb ets wrr {now.wrr_weights[tc]}"
    for tc, said in sorted(now.class_shares.items()):
        share = said or now.wrr_weights.get(tc, 0)  # a baseline has weights, and no shares
        if tc not in wanted and (tc in held or share != was.class_shares.get(tc)):
            yield f"traffic-class {tc} dcb ets wrr {share}"


def _write_mtu(row: Row, was: PortState, now: PortState) -> Iterator[str]:
    """A port must be shut for a new MTU (the ESXi guide)."""
    lines = table.write_value(row, was, now)
    yield from ("shutdown",) if lines and was.admin_up is not False else ()
    yield from lines
    yield from ("no shutdown",) if lines and False not in {was.admin_up, now.admin_up} else ()


def _pfc(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str]]:
    """Set priorities before the global switch, to pause no traffic halfway."""
    line, held = "dcb priority-flow-control priority {} enable", actual.pfc_priorities or ()
    wanted = held if target.pfc_priorities is None else target.pfc_priorities
    yield from ((line.format(each),) for each in wanted if each not in held)
    yield from ((f"no {line.format(each)}",) for each in held if each not in wanted)
    if target.pfc_enabled not in {None, actual.pfc_enabled}:
        yield (f"{'' if target.pfc_enabled else 'no '}dcb priority-flow-control enable force",)


ROWS: Final[tuple[Row | Step, ...]] = (
    table.add_vlans,
    Row("mode", "switchport mode (access|trunk|hybrid)", "access", write=_write_switchport,
        command=SWITCHPORTS),
    Row("access_vlan", r"switchport access vlan (\d+)", FACTORY_VLAN, write=nothing,
        command=SWITCHPORTS),
    Row("trunk_vlans", r"switchport (trunk|hybrid) allowed-vlan (add )?(all|none|[\d,-]+)", {},
        _take_list, write=nothing, command=SWITCHPORTS),
    Row("trust", "qos trust (L2|L3|both|port)", "L2", command=QOS,
        read=lambda a: a.word((f"Eth{a.port}", "Trust mode"), "L2", "L3", "both", "port")),
    Row("rewrite_dscp", factory=False, command=QOS, if_asked=True,
        read=lambda a: a.word((f"Eth{a.port}", "DSCP rewrite"), *_ON) == _ON[0],
        lines={True: "qos rewrite dscp", False: "no qos rewrite dscp"}),
    Row("dscp_priorities", factory=_MAP, write=nothing, command=QOS, read=read_dscp_map,
        if_asked=True),
    Row("ecn", rf"traffic-class (\d) congestion-control (ecn|red|both) {_ENDS}",
        dict.fromkeys(PRIORITIES), _take_ecn, write=_write_ecn, command=CONGESTION,
        read=read_congestion),
    Row("schedule", r"traffic-class (\d) dcb ets (?:strict|wrr (\d+))", FACTORY_WEIGHTS,
        _take_share, write=_write_schedule, command=ETS, read=read_schedule),
    _pfc,
    Row("pfc", factory=False, lines={True: "dcb priority-flow-control mode on force",
                                     False: "no dcb priority-flow-control mode force"}),
    # Only ever put back: `roce` needs it, and `no roce` takes it along.
    lambda was, now: [("lldp",)]
    if now.roce is not None and LLDP in now.native and LLDP not in was.native else [],
    Row("mtu_bytes", r"mtu (\d+)(?: force)?", write=_write_mtu, command=INTERFACE, alone=True,
        read=lambda a: int(a.match(r"^\s*(?:Ethernet )?MTU\s*:\s*(\d+) bytes")),
        lines={None: "mtu {}"}),
    # Without the line if the port should be down and a new MTU has already shut it.
    Row("admin_up", factory=True, command=INTERFACE, alone=True,
        write=lambda row, was, now: table.write_value(row, was, now)
        if now.admin_up or now.mtu_bytes in {None, was.mtu_bytes} else (),
        read=lambda a: a.match(r"^\s*Admin state\s*:\s*(Enabled|Disabled)") == "Enabled",
        lines={True: "no shutdown", False: "shutdown"}),
    table.remove_vlans,
)  # fmt: skip
"""In the order of writing: VLANs before ports name them, classes before a port flaps."""
PORT_ROWS: Final = tuple(row for row in ROWS if isinstance(row, Row))


def _by_port(row: Row) -> Step:
    """The lines of one row; ports with the same ones share them, if one range names the ports."""

    def step(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, ...]]:
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for name, port in target.ports.items():
            lines = tuple(row.write(row, actual.ports.get(name, PortState()), port))
            groups.setdefault((name if row.alone else "", lines), []).append(name)
        for (_, lines), names in groups.items():
            for ports in ranges.collapse_ports(names) if lines else ():
                yield tuple(f"interface ethernet {ports} {line}" for line in lines)

    return step


STEPS: Final = tuple(_by_port(each) if isinstance(each, Row) else each for each in ROWS)


def _is_asked(row: Row, port: PortState) -> bool:
    names = ("strict_classes", "class_shares") if row.name == "schedule" else (row.name,)
    return any(getattr(port, name) not in (None, {}) for name in names)


def asked_rows(asked: PortState) -> tuple[Row, ...]:
    """The rows to read of a port from the answers that there are."""
    return tuple(row for row in PORT_ROWS if not row.if_asked or _is_asked(row, asked))


def asked_commands(asked: PortState) -> tuple[str, ...]:
    """The commands for one port; VLANs come from a table of all ports."""
    commands = {row.command for row in PORT_ROWS if _is_asked(row, asked)} - {SWITCHPORTS}
    return tuple(command for command in _ABOUT if command in commands)


def fields_of(values: Values, asked: PortState) -> Values:
    """Values as fields of `PortState`: the schedule gives two, strict classes and weights."""
    found = {**values}
    schedule = found.pop("schedule", None)
    if schedule is not None:
        weights = {tc: weight for tc, weight in schedule.items() if weight is not None}
        found["strict_classes"] = tuple(sorted({*schedule} - {*weights}))
        found["wrr_weights"] = weights
        found |= {"class_shares": weights} if asked.class_shares else {}
    return found


_FACTORY: Final[Values] = table.factory_values(PORT_ROWS)


@record
class Whole:
    """The answers about all ports, ready to be asked about one port."""

    vlans: tuple[int, ...]
    ports: Mapping[str, Values]
    """Port or bundle to its values by row name, from its own lines."""
    opened: defaultdict[str, set[str]]
    """Port or bundle to the commands that a line in an unknown form may be about."""
    one_shot: bool
    """Whether there is a `roce` line: its port settings then do not show as lines."""
    status: Mapping[str, Values]
    """The table of MTU and admin state: the factory's MTU depends on the release."""
    shot: Values | None = None
    """The one-shot's settings of ports without own lines; None: it is off, or has exceptions."""

    def _open(self, name: str) -> set[str]:
        lines = self.ports.get(name, {})
        opened = self.opened[ALL] | self.opened[name]
        if self.one_shot and self.shot is None:
            opened |= {QOS, CONGESTION, ETS}
        if self.one_shot and any(lines.get("schedule", {}).values()):
            opened |= {ETS}  # a weight is a number in a line, and a percentage in `show roce`
        return opened if "mtu_bytes" in lines else opened | {INTERFACE}

    def opens(self, name: str, asked: PortState) -> Iterator[str]:
        """The commands by which the port itself must still be asked."""
        opened = self._open(name) - ({INTERFACE} if name in self.status else set[str]())
        return (command for command in asked_commands(asked) if command in opened)

    def members(self, wanted: SwitchState) -> dict[str, PortState] | None:
        """Switchports and bundles with their VLANs; None: ask for the table."""
        if wanted.others is not None or not {*wanted.ports} <= {*self.ports, *self.status}:
            return None
        told: dict[str, PortState] = {}
        for name in dict.fromkeys((*wanted.ports, *self.ports)):
            found = _FACTORY | self.ports.get(name, {})
            mode, lists = found["mode"], {"access": (), **found["trunk_vlans"]}
            if SWITCHPORTS in self._open(name) or lists.get(mode) is None:
                return None  # a line is missing or cannot be read
            access = None if mode == "trunk" else found["access_vlan"]
            told[name] = PortState(mode=mode, access_vlan=access, trunk_vlans=lists[mode])
        return told

    def port(self, name: str, asked: PortState) -> Values:
        """The wanted settings of a port, except its VLANs."""
        base, own = _FACTORY | (self.shot or {}), self.ports.get(name, {})
        if INTERFACE in self._open(name):
            own = own | self.status.get(name, {})
        commands = asked_commands(asked)
        names = [row.name for row in asked_rows(asked) if row.command in commands]
        values = {name: own.get(name, base[name]) for name in names}
        for key in {"ecn", "schedule"} & {*names}:
            values[key] = base[key] | values[key]  # a line is about one class
        return fields_of(values, asked)


@lru_cache(maxsize=1)
def parse_running(text: str) -> Whole | None:
    """Read `show running-config`, cached for one look; None: not in the form of the captures."""
    if not re.search(_HEADS, text):
        return None
    vlans, ports, opened = {FACTORY_VLAN}, dict[str, Values](), defaultdict[str, set[str]](set)
    try:
        for line in text.splitlines():
            if vlan := re.match(_VLAN, line):
                vlans.update(parse_vlan_ranges(vlan[1]))
            elif found := re.match(_OF_PORTS, line):
                tail, kind = f"{found[1] or ''}{found[4]}", _NAMES[found[2]]
                for name in (f"{kind}{each}" for each in ranges.expand_ports(found[3])):
                    is_ours = table.take_line(PORT_ROWS, ports.setdefault(name, {}), tail)
                    is_known = is_ours or re.fullmatch(_OTHERS, tail)
                    opened[name] |= set() if is_known else _commands_about(tail)
            elif not re.match(_ELSEWHERE, line):
                opened[ALL] |= _commands_about(line)
    except ValueError:
        return None
    roce = re.search(r"^\s*roce\b", text, re.MULTILINE) is not None
    return Whole(tuple(sorted(vlans)), ports, opened, roce, status={})


def _commands_about(line: str) -> set[str]:
    return {command for command, words in _ABOUT.items() if re.search(words, line)}


def whole_of(answers: Mapping[str, str]) -> Whole | None:
    """Combine the answers; None: the running configuration has an unknown form."""
    whole = parse_running(answers.get(RUNNING, ""))
    if whole is None:
        return None
    shot = read_one_shot(answers.get(ROCE, "")) if whole.one_shot else None
    return replace(whole, shot=shot, status=read_status(answers.get(STATUS, "")))
