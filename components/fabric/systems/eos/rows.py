"""The settings of an EOS port as rows: each row reads its lines of `interface X` and writes them.

A running configuration holds only what differs from the defaults. Lines that no row knows belong to
others, and stay. Sources of the lines: WHY.md; of the defaults: lab/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

from components.core.record import field, record
from components.fabric.parts import is_default, read_fields, sources, write_text
from components.fabric.state import EcnState, PortState, SwitchState, list_vlans
from components.fabric.systems import rows as table
from components.fabric.systems.base import Unreadable
from components.fabric.systems.ranges import collapse_vlans, move_vlans, parse_vlan_ranges
from components.fabric.systems.rows import Row, Values, by_word, nothing

QUEUES: Final = range(8)
"""Unicast transmit queues of a port; traffic class n is in queue n."""
FACTORY_MTU_BYTES: Final = 9214
"""`Ethernet MTU 9214 bytes` of every switched port that a public capture shows."""
FACTORY_VLAN: Final = 1
DEFAULT_CLASSES: Final = {dscp: (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8] for dscp in range(64)}
"""The traffic class of a DSCP: eight DSCPs a class, and classes 0 and 1 are swapped. Public notes
quote it from Arista's manual, equal for every chip."""
MAX_MARK_PERCENT: Final = 100
"""`max-mark-probability` of a line without it (a guess)."""
ECN_WEIGHT: Final = 0
"""`weight`: the depth of the queue now, not its average; what public RoCE examples set. If a line
lacks it, we assume this value (a guess)."""
WATCHDOG_MS: Final = (200, 200)
"""Time until a queue counts as stuck, and for which it is then drained: those of Arista's guide on
AI fabrics. It polls each 0.1 s; `auto` has the switch derive that from the other two."""
WATCHDOG_ACTION: Final = "drop"
"""What `pfc_watchdog` promises; without it EOS shuts the port (`errdisable`)."""
_FEC: Final = "error-correction encoding"
_FEC_LINES: Final = {
    "rs": f"{_FEC} reed-solomon",
    "fc": f"{_FEC} fire-code",
    "none": f"no {_FEC}",
    "no-rs": f"no {_FEC} reed-solomon",
    "no-fc": f"no {_FEC} fire-code",
}
"""A port may have several (AVD's template of an Ethernet interface)."""
_PFC: Final = "priority-flow-control"
_WATCHDOG: Final = f"{_PFC} pause watchdog"
_WATCHDOG_PARTS: Final = {"enable": "", "timer": " port timer", "action": " port action"}
"""In the order of the vendor's own configuration."""
_TIMES: Final = re.compile(r"timeout ([\d.]+) polling-interval \S+ recovery-time ([\d.]+)")
_EDGE: Final = "spanning-tree portfast"
_GUARD: Final = "spanning-tree bpduguard"
_ALLOWED: Final = "switchport trunk allowed vlan"
_NATIVE: Final = "switchport trunk native vlan"
_ECN: Final = re.compile(
    r"minimum-threshold (\d+) kbytes maximum-threshold (\d+) kbytes"
    rf"(?: max-mark-probability (\d+))?(?: weight {ECN_WEIGHT})?"
)
_QUEUE: Final = re.compile(r"(?:uc-)?tx-queue (\d+)")


def _take_fec(held: str | None, line: str) -> str:
    word = next(word for word, each in _FEC_LINES.items() if each == line)
    return f"{held} {word}" if held else word


def _write_fec(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    """Write all encodings again: a line for one may leave the line of another in place."""
    if now.fec is not None and now.fec != was.fec:
        yield from (f"default {_FEC}",) if was.fec else ()
        yield from (_FEC_LINES[word] for word in now.fec.split())


def _write_mode(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    """A routed port needs `switchport` first, and is then in the mode that it had before."""
    if now.mode not in {None, was.mode}:
        yield from ("switchport",) if was.mode == "routed" else ()
        yield from (f"switchport mode {now.mode}",) if now.mode != "routed" else ()


def _write_routed(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    """The mode that `no switchport` hides is put back first."""
    if now.mode == "routed" and was.mode != "routed":
        hidden = "access" if is_default(now.native, "mode") else "trunk"
        yield from (f"switchport mode {hidden}",) if hidden != was.mode else ()
        yield "no switchport"


def _write_allowed(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    """A new trunk gets its whole list; an old one gets only what changes."""
    if now.trunk_vlans in {None, was.trunk_vlans}:
        return
    held, wanted = ({*list_vlans(each.trunk_vlans or ())} for each in (was, now))
    if now.trunk_vlans == "all":
        yield f"{_ALLOWED} all"
    elif was.trunk_vlans == "all" or not held & wanted:
        yield f"{_ALLOWED} {collapse_vlans(wanted) or 'none'}"
    else:
        yield from move_vlans(_ALLOWED, held, wanted)


def _take_priority(held: tuple[int, ...] | None, number: str) -> tuple[int, ...]:
    return tuple(sorted({*(held or ()), int(number)}))


def _write_priorities(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    if now.pfc_priorities is None:
        return
    held, wanted = {*(was.pfc_priorities or ())}, {*now.pfc_priorities}
    if now.pfc is False and was.pfc is not False:
        # Whether `no priority-flow-control` clears the list is not documented, so it is sent again.
        held -= wanted
    yield from (f"no {_PFC} priority {each} no-drop" for each in sorted(held - wanted))
    yield from (f"{_PFC} priority {each} no-drop" for each in sorted(wanted - held))


def _take_watchdog(
    held: Mapping[str, str] | None, part: str | None, words: str | None
) -> Mapping[str, str]:
    return {**(held or {}), part or "enable": words or ""}


def _write_watchdog(_row: Row, was: PortState, now: PortState) -> Iterator[str]:
    if now.pfc_watchdog is None:
        return
    held, recorded = (read_fields(each.native.get("pfc_watchdog")) for each in (was, now))
    if recorded or not now.pfc_watchdog:
        wanted = {part: recorded[part] for part in _WATCHDOG_PARTS if part in recorded}
    elif was.pfc_watchdog and now.pfc_watchdog_ms in {None, was.pfc_watchdog_ms}:
        wanted = held
    else:
        times = (f"{ms / 1000:.2f}" for ms in now.pfc_watchdog_ms or WATCHDOG_MS)
        timer = "timeout {} polling-interval auto recovery-time {}".format(*times)
        if now.pfc_watchdog_ms is None:
            timer = held.get("timer", timer)  # an existing timer is kept
        wanted = {"enable": "", "timer": timer, "action": WATCHDOG_ACTION}
    gone = [part for part in _WATCHDOG_PARTS if part in held and part not in wanted]
    yield from (f"no {_WATCHDOG}{_WATCHDOG_PARTS[part]}" for part in gone)
    # Whether such a line, or the end of PFC, clears the others is not documented, so the lines
    # that stay are sent again.
    cleared = "enable" in gone or (was.pfc is True and now.pfc is False)
    for part, words in wanted.items():
        if cleared or held.get(part) != words:
            yield f"{_WATCHDOG}{_WATCHDOG_PARTS[part]} {words}".rstrip()


ROWS: Final = (
    Row("speed", r"speed (.+)", "", by_word(str), {"": "no speed"}),
    Row("fec", f"({'|'.join(_FEC_LINES.values())})", "", _take_fec, write=_write_fec),
    Row("mtu_bytes", r"l2 mtu (\d+)", FACTORY_MTU_BYTES, unset="no l2 mtu"),
    Row("mode", "switchport mode (trunk)", "access", write=_write_mode),
    Row("access_vlan", r"switchport access vlan (\d+)", FACTORY_VLAN),
    Row("native_vlan", rf"{_NATIVE} (\d+)", FACTORY_VLAN,
        lines={FACTORY_VLAN: f"no {_NATIVE}", 0: f"{_NATIVE} tag"}),
    Row("trunk_vlans", rf"{_ALLOWED} (.+)", "all",
        by_word(lambda text: text if text == "all" else parse_vlan_ranges(text)),
        write=_write_allowed),
    Row("routed", "(no switchport)", factory=False, take=by_word(bool), write=_write_routed),
    Row("edge_port", rf"{_EDGE} (\S+)", "", lines={"": f"no {_EDGE}", "on": _EDGE}),
    Row("bpdu_guard", factory="",
        lines={"": f"no {_GUARD}", "on": f"{_GUARD} enable", "off": f"{_GUARD} disable"}),
    Row("trust", lines={"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"},
        unset="default qos trust"),
    Row("pfc", f"{_PFC} mode (on)", factory=False, take=by_word(bool),
        lines={True: f"{_PFC} on", False: f"no {_PFC}"}),
    Row("pfc_priorities", rf"{_PFC} priority (\d) no-drop", (), _take_priority,
        write=_write_priorities),
    Row("pfc_watchdog", rf"{_WATCHDOG}(?: port (timer|action) (.+))?", {}, _take_watchdog,
        write=_write_watchdog),
    Row("admin_up", factory=True, lines={True: "no shutdown", False: "shutdown"}),
    Row("is_odd", r"(switchport mode (?!trunk$|access$).*|switchport monitor.*|channel-group .*)",
        factory=False, take=by_word(bool), write=nothing),
)  # fmt: skip
"""In the order in which lines are sent. `routed` and `is_odd` are read only: `is_odd` marks a
tunnel, a tap or a member of a bundle, on which our settings would not be in force."""


def _take_map(held: Mapping[int, int] | None, numbers: str, to: str) -> Mapping[int, int]:
    return {**(held or {}), **dict.fromkeys(parse_vlan_ranges(numbers), int(to))}


def _write_map(_row: Row, was: SwitchState, now: SwitchState) -> Iterator[str]:
    held = was.dscp_classes or {}
    for dscp, tc in sorted((now.dscp_classes or {}).items()):
        if held.get(dscp) != tc:
            yield f"qos map dscp {dscp} to traffic-class {tc}"


MAP_ROWS: Final = (
    Row("dscp_classes", r"qos map dscp ([\d ,-]+) to traffic-class (\d).*",
        take=_take_map, write=_write_map),
    Row("class_queues", r"qos map traffic-class ([\d ,-]+) to (?:uc-)?tx-queue (\d).*",
        take=_take_map, write=nothing),
    Row("rewrite_dscp", r"(qos rewrite dscp)\b.*", take=by_word(bool), write=nothing),
)  # fmt: skip
"""Of the whole switch; `qos rewrite dscp` is one line (AVD's template of `qos`)."""


def _read_ecn(words: str) -> EcnState:
    found = _ECN.fullmatch(words)
    if found is None:
        return EcnState(min_kib=0, max_kib=0, native=words)
    percent = int(found[3] or MAX_MARK_PERCENT)
    return EcnState(min_kib=int(found[1]), max_kib=int(found[2]), percent=percent)


def _say_ecn(ecn: EcnState | str) -> str:
    if isinstance(ecn, str) or ecn.native:
        return str(ecn)
    return (
        f"minimum-threshold {ecn.min_kib} kbytes maximum-threshold {ecn.max_kib} kbytes "
        f"max-mark-probability {ecn.percent} weight {ECN_WEIGHT}"
    )


QUEUE_ROWS: Final = (
    Row("ecn", "random-detect ecn (minimum-threshold .*)", take=by_word(_read_ecn), say=_say_ecn,
        lines={"": "no random-detect ecn minimum-threshold", None: "random-detect ecn {}"}),
    Row("strict", factory=True, lines={True: "priority strict", False: "no priority"}),
    Row("share", r"bandwidth percent (\d+)", 0, lines={0: "no bandwidth percent"}),
)  # fmt: skip
"""Of one queue. Every queue is strict unless `no priority` puts it into the round."""


@record
class Section:
    """One interface of the configuration."""

    lines: list[str] = field(default_factory=list[str])
    """Without those of queues."""
    found: Values = field(default_factory=dict[str, Any])
    """Row to the value of its line."""
    queues: dict[int, Values] = field(default_factory=dict[int, Values])

    @property
    def values(self) -> Values:
        """Every row to its value; `no switchport` may hide another mode."""
        values = table.factory_values(ROWS) | self.found
        return values | ({"mode": "routed"} if values["routed"] else {})

    def named_vlans(self, name: str) -> set[int]:
        """VLANs written here, in force or not; a trunk that allows all names none."""
        if (routed := name.removeprefix("Vlan")).isdigit():
            return {int(routed)}
        values = self.values
        allowed = () if values["trunk_vlans"] == "all" else values["trunk_vlans"]
        return {*allowed} | ({values["access_vlan"], values["native_vlan"]} - {0, FACTORY_VLAN})


def parse_sections(command: str, text: str) -> dict[str, Section]:
    """`show running-config … | section ^interface`, by interface."""
    sections: dict[str, Section] = {}
    for head, *lines in table.nested_lines(text):
        kind, _, name = head.partition(" ")
        if kind != "interface":
            continue
        section = sections.setdefault(name, Section())
        queue = _QUEUE.fullmatch(lines[0]) if lines else None
        if queue and len(lines) > 1:
            table.take_line(QUEUE_ROWS, section.queues.setdefault(int(queue[1]), {}), lines[1])
        elif len(lines) == 1 and not queue:
            section.lines.append(lines[0])
            table.take_line(ROWS, section.found, lines[0])
    if not sections:
        raise Unreadable(command, text, "the answer lists no interface")
    return sections


def read_port(section: Section, wanted: PortState) -> PortState:
    """A port as its section has it; optional settings are read only if `wanted` names them."""
    values = section.values
    watchdog: Mapping[str, str] = values["pfc_watchdog"]
    queues = {n: table.factory_values(QUEUE_ROWS) | section.queues.get(n, {}) for n in QUEUES}
    times = _TIMES.match(watchdog.get("timer", "")) if wanted.pfc_watchdog_ms else None
    written = sources(**{key: key in section.found for key in ("mtu_bytes", "trust", "mode")})
    shares = {queue: each["share"] for queue, each in queues.items() if each["share"]}
    state: dict[str, Any] = values | {
        "native_vlan": None if wanted.native_vlan is None else values["native_vlan"],
        # Arista's manual: a switch port trusts CoS by default, a routed one DSCP.
        "trust": values["trust"] or ("L3" if values["routed"] else "L2"),
        "ecn": {queue: each["ecn"] for queue, each in queues.items()},
        "strict_classes": tuple(queue for queue, each in queues.items() if each["strict"]),
        "class_shares": dict.fromkeys(wanted.class_shares, 0) | shares,
        # All three lines: without one, a default of the whole switch would decide.
        "pfc_watchdog": "enable" in watchdog
        and "timer" in watchdog
        and watchdog.get("action") == WATCHDOG_ACTION,
        "pfc_watchdog_ms": times and tuple(round(float(each) * 1000) for each in times.groups()),
        "native": written | ({"pfc_watchdog": write_text(watchdog)} if watchdog else {}),
    }
    return PortState(**{key: state[key] for key in state.keys() - {"routed", "is_odd"}})


def port_lines(was: PortState, now: PortState) -> Iterator[str]:
    """The lines inside `interface X` from one state of a port to another."""
    yield from table.write_rows(ROWS, was, now)
    for queue in QUEUES:
        held = SimpleNamespace(
            ecn=was.ecn.get(queue) or "",
            strict=queue in (was.strict_classes or ()),
            share=was.class_shares.get(queue, 0),
        )
        wanted = SimpleNamespace(  # None: not managed
            ecn=(now.ecn[queue] or "") if queue in now.ecn else None,
            strict=None if now.strict_classes is None else queue in now.strict_classes,
            share=now.class_shares.get(queue),
        )
        if lines := [*table.write_rows(QUEUE_ROWS, held, wanted)]:
            yield from (f"uc-tx-queue {queue}", *lines, "exit")
