"""Every setting of Onyx that we own, as one table: what shows it, its line, how it is written.

`show running-config` holds what is not the factory's value, one whole line a setting, and equal
lines of neighbouring ports with a range (oxidized's capture of 3.9.2504, the collection's fixture).
A line about a setting of ours in another form is no value: its topic is open on those ports, and
they are asked one by one. WHY.md has the source of each line that is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from components.fabric.state import ALL_VLANS, EcnState, PortState, SwitchState, list_vlans
from components.fabric.systems.base import Change
from components.fabric.systems.onyx import answers as show
from components.fabric.systems.onyx.answers import PRIORITIES, Answer
from components.fabric.systems.ranges import collapse_vlans, parse_vlan_ranges, port_runs

Values = dict[Any, Any]
PortLines = Callable[["PortRow", PortState, PortState], Iterable[str]]
"""(row, actual, target) of one port to the tails of its `interface ethernet …` lines."""
SWITCHPORTS: Final = "show interfaces switchport | json-print"
QOS: Final = "show qos interface ethernet {} | json-print"
TOPICS: Final = {
    "switchport": (SWITCHPORTS, re.compile(r"\b(?:switchport|channel-group)\b")),
    "interface": ("show interfaces ethernet {}", re.compile(r"\b(?:mtu|shutdown)\b")),
    "qos": (QOS, re.compile(r"\b(?:qos|dscp)\b")),
    "congestion": (show.CONGESTION, re.compile(r"\b(?:traffic-class|congestion-control)\b")),
    "ets": (
        "show dcb ets interface ethernet {} | json-print",
        re.compile(r"\b(?:traffic-class|ets)\b"),
    ),
}
"""What is shown together: the command, and a word in a line of another form that may be about it.
A port of a bundle is in the bundle's VLANs."""
FACTORY_VLAN: Final = 1
FACTORY_WEIGHTS: Final = {tc: 12 + tc % 2 for tc in PRIORITIES}
"""Of a port that nobody has set (onyx_show_dcb_ets_interface.cfg); together 100."""
LLDP: Final = "lldp"
"""Key of `SwitchState.native`: `on` if LLDP was on, which goes with the one-shot."""


def _nothing(_row: PortRow, _actual: PortState, _target: PortState) -> tuple[str, ...]:
    """Another row writes it, or none does."""
    return ()


def _write(row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    """The line of the running configuration with the wanted value in it."""
    wanted = getattr(target, row.name)
    if wanted is None or wanted == getattr(actual, row.name):
        return
    words = row.line.removeprefix("(no )?")
    if words != row.line:
        yield words if wanted else f"no {words}"
    else:
        yield re.sub(r"\(.*\)", str(wanted), words)


def _take(_held: object, text: str | None) -> object:
    """A number or a word; of a line that may begin with `no`, whether it does not."""
    if text is None or text == "no ":
        return text is None
    return int(text) if text.isdecimal() else text


@dataclass(frozen=True, slots=True)
class PortRow:
    """One setting of a port."""

    name: str
    """The field of `PortState`; of `schedule` two: strict classes, and weights of the others."""
    topic: str = ""
    read: Callable[[Answer], object] | None = None
    """From the answer about one port; None: a table of all ports has it."""
    factory: Any = None
    """Its value if no line says one; None: that depends on the release."""
    line: str = "(?!)"
    """Pattern of its line in the running configuration, which is also the one to send."""
    take: Callable[..., object] = _take
    """The value before that line, and the groups of the pattern, to the value after it."""
    write: PortLines = _write
    alone: bool = False
    """One port at a time, since the port flaps."""
    if_asked: bool = False
    """Read only if it is asked for, not whenever its topic is."""

    def is_asked(self, port: PortState) -> bool:
        """Whether a wish or a question names it."""
        names = ("strict_classes", "class_shares") if self.name == "schedule" else (self.name,)
        return any(getattr(port, name) not in (None, {}) for name in names)

    def fields(self, value: Any, asked: PortState) -> dict[str, object]:  # noqa: ANN401 - of any row
        """A value as fields of `PortState`."""
        if self.name != "schedule":
            return {self.name: value}
        strict = tuple(sorted(tc for tc, weight in value.items() if weight is None))
        weights = {tc: weight for tc, weight in value.items() if weight is not None}
        shares = {"class_shares": weights} if asked.class_shares else {}
        return {"strict_classes": strict, "wrr_weights": weights, **shares}

    def changes(self, actual: SwitchState, target: SwitchState) -> Iterator[Change]:
        """Ports with the same lines, in the same order, share them."""
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for name, port in target.ports.items():
            lines = tuple(self.write(self, actual.ports.get(name, PortState()), port))
            groups.setdefault((name if self.alone else "", lines), []).append(name)
        for (_, lines), names in groups.items():
            for ports in collapse_ports(names) if lines else ():
                yield Change(tuple(f"interface ethernet {ports} {line}" for line in lines))


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """One setting of the whole switch: (actual, target) to lines that belong together."""

    write: Callable[[SwitchState, SwitchState], Iterable[tuple[str, ...]]]

    def changes(self, actual: SwitchState, target: SwitchState) -> Iterator[Change]:
        """The lines that make it so."""
        yield from map(Change, self.write(actual, target))


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


def _mark(held: Values, tc: str, kind: str, word: str, low: str, high: str) -> Values:
    found = {"min_kib": low, "max_kib": high, "kind": kind, "relative": word == "relative"}
    return {**held, int(tc): EcnState.model_validate(found)}


def _serve(held: Values, tc: str, weight: str | None) -> Values:
    return {**held, int(tc): weight and int(weight)}


def _is_no(_held: object, no: str | None) -> bool:
    return no is not None


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


def _new_vlans(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, str]]:
    """`vlan N` enters its mode, so leave it."""
    yield from ((f"vlan {vlan}", "exit") for vlan in target.vlans if vlan not in actual.vlans)


def _old_vlans(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str]]:
    yield from ((f"no vlan {vlan}",) for vlan in actual.vlans if vlan not in target.vlans)


def _pfc_mode(_row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    line = "dcb priority-flow-control mode"
    if target.pfc not in {None, actual.pfc}:
        yield f"{line} on force" if target.pfc else f"no {line} force"


def _read_mtu(answer: Answer) -> int:
    return int(answer.match(r"^\s*(?:Ethernet )?MTU\s*:\s*(\d+) bytes"))


def _read_admin(answer: Answer) -> bool:
    return answer.match(r"^\s*Admin state\s*:\s*(Enabled|Disabled)") == "Enabled"


def _read_trust(answer: Answer) -> str:
    return answer.of_port("Trust mode", "L2", "L3", "both", "port")


def _read_rewrite(answer: Answer) -> bool:
    return answer.of_port("DSCP rewrite", "enabled", "disabled") == "enabled"


_MODE: Final = "switchport mode (access|trunk|hybrid)"
_ACCESS: Final = r"switchport access vlan (\d+)"
_LIST: Final = r"switchport (trunk|hybrid) allowed-vlan (add )?(all|none|[\d,-]+)"
_TRUST: Final = "qos trust (L2|L3|both|port)"
_REWRITE: Final = "(no )?qos rewrite dscp"
_FACTORY_MAP: Final = {dscp: dscp // len(PRIORITIES) for dscp in range(64)}
_CONTROL: Final = (
    r"traffic-class (\d) congestion-control (ecn|red|both)"
    r" minimum-(absolute|relative) (\d+) maximum-\3 (\d+)"
)
_ON, _OFF = True, False
_NO_ECN: Final[Values] = dict.fromkeys(PRIORITIES)
_ETS: Final = r"traffic-class (\d) dcb ets (?:strict|wrr (\d+))"
ROWS: Final[tuple[PortRow | SwitchRow, ...]] = (
    SwitchRow(_new_vlans),
    PortRow("mode", "switchport", None, "access", _MODE, write=_switchport),
    PortRow("access_vlan", "switchport", None, FACTORY_VLAN, _ACCESS, write=_nothing),
    PortRow("trunk_vlans", "switchport", None, {}, _LIST, _allow, _nothing),
    PortRow("trust", "qos", _read_trust, "L2", _TRUST),
    PortRow("rewrite_dscp", "qos", _read_rewrite, _OFF, _REWRITE, if_asked=True),
    PortRow(
        "dscp_priorities", "qos", show.read_dscp_map, _FACTORY_MAP, write=_nothing, if_asked=True
    ),
    PortRow("ecn", "congestion", show.read_congestion, _NO_ECN, _CONTROL, _mark, _ecn),
    PortRow("schedule", "ets", show.read_schedule, FACTORY_WEIGHTS, _ETS, _serve, _schedule),
    SwitchRow(_pfc),
    PortRow("pfc", factory=False, write=_pfc_mode),
    SwitchRow(_lldp),
    PortRow(
        "mtu_bytes", "interface", _read_mtu, None, r"mtu (\d+)(?: force)?", write=_mtu, alone=True
    ),
    PortRow(
        "admin_up", "interface", _read_admin, _ON, "(no )?shutdown", _is_no, _admin, alone=True
    ),
    SwitchRow(_old_vlans),
)
"""In the order of writing: VLANs before ports name them, classes before a port flaps."""
PORT_ROWS: Final = tuple(row for row in ROWS if isinstance(row, PortRow))


def collapse_ports(ports: Iterable[str]) -> list[str]:
    """Group neighbouring ports: `1/1`, `1/2`, `1/4` becomes `1/1-1/2`, `1/4`."""
    runs = port_runs(ports, whole=2)
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


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
    return tuple(change for row in ROWS for change in row.changes(actual, target))


def topics_of(asked: PortState) -> tuple[str, ...]:
    """What must be known of a port beside its VLANs."""
    topics = {row.topic for row in PORT_ROWS if row.is_asked(asked)}
    return tuple(topic for topic in TOPICS if topic in topics and topic != "switchport")


def rows_of(topic: str, asked: PortState) -> Iterator[PortRow]:
    """The rows of a topic that are read at once."""
    yield from (
        row for row in PORT_ROWS if row.topic == topic and (not row.if_asked or row.is_asked(asked))
    )
