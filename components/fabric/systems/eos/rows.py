"""The settings of an EOS port as rows: each row reads its lines of `interface X` and writes them.

A running configuration holds only what differs from the defaults. Reading finds the lines of each
row; writing follows from the same table, in its order. A row has code of its own only if its lines
depend on other settings. Lines that no row knows belong to others, and stay.
Sources of the lines: WHY.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from components.fabric.native import is_default, read_fields, sources, write_fields
from components.fabric.state import EcnState, PortState, list_vlans
from components.fabric.systems.eos.facts import (
    ECN_WEIGHT,
    FACTORY_MTU_BYTES,
    FACTORY_VLAN,
    MAX_MARK_PERCENT,
    QUEUES,
    WATCHDOG_ACTION,
    WATCHDOG_TIMER,
    watchdog_timer,
)
from components.fabric.systems.ranges import collapse_vlans, parse_vlan_ranges

Lines = Iterable[str]
Matches = Sequence[re.Match[str]]
_FEC: Final = "error-correction encoding"
_FEC_LINES: Final = {
    f"{_FEC} reed-solomon": "rs",
    f"{_FEC} fire-code": "fc",
    f"no {_FEC}": "none",
    f"no {_FEC} reed-solomon": "no-rs",
    f"no {_FEC} fire-code": "no-fc",
}
"""A port may have several of them (AVD's template of an Ethernet interface)."""
_TRUST: Final = {"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"}
_PFC: Final = "priority-flow-control"
_WATCHDOG: Final = f"{_PFC} pause watchdog"
_WATCHDOG_PARTS: Final = {"enable": "", "timer": " port timer", "action": " port action"}
"""In the order of the vendor's own configuration."""
_TIMES: Final = re.compile(r"timeout ([\d.]+) polling-interval \S+ recovery-time ([\d.]+)")
_EDGE: Final = "spanning-tree portfast"
_GUARD: Final = "spanning-tree bpduguard"
_GUARD_WORDS: Final = {"on": "enable", "off": "disable"}
_ALLOWED: Final = "switchport trunk allowed vlan"
_NATIVE: Final = "switchport trunk native vlan"


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of a port."""

    key: str
    """Its field of `PortState`."""
    pattern: str
    """A regular expression for a whole line."""
    read: Callable[[Matches], Any]
    """The value of the lines that match; there is at least one."""
    absent: Any
    """The value if no line matches."""
    line: Callable[[Any], str] = str
    """The line that sets a value."""
    unset: str = ""
    """The line that leaves none, for a setting whose source is recorded in `native`."""
    write: Callable[[PortState, PortState], Lines] | None = None
    """The lines from one state to another, if they depend on more than this setting."""

    def lines(self, was: PortState, port: PortState) -> Lines:
        """The lines from one state of a port to another."""
        if self.write is not None:
            return self.write(was, port)
        held, wanted = getattr(was, self.key), getattr(port, self.key)
        if wanted is None:
            return ()
        if self.unset and is_default(port.native, self.key):
            return () if is_default(was.native, self.key) else (self.unset,)
        if wanted == (self.absent if held is None and self.absent == "" else held):
            return ()
        return (self.line(wanted),)


def _text(found: Matches) -> str:
    return str(found[0][1])


def _number(found: Matches) -> int:
    return int(found[0][1])


def _numbers(found: Matches) -> tuple[int, ...]:
    return tuple(sorted(int(each[1]) for each in found))


def _flag(*, on: bool) -> Callable[[Matches], bool]:
    return lambda _found: on


def _fec_lines(was: PortState, port: PortState) -> Iterator[str]:
    """All of them again: a line for one encoding may leave the line of another where it is."""
    if port.fec is None or port.fec == (was.fec or ""):
        return
    if was.fec != "":
        yield f"default {_FEC}"
    by_word = {word: line for line, word in _FEC_LINES.items()}
    yield from (by_word[word] for word in port.fec.split())


def _mode_lines(was: PortState, port: PortState) -> Iterator[str]:
    """A routed port that was made a switch port is in the mode that it was in before that."""
    if port.mode is None or port.mode == was.mode:
        return
    if was.mode == "routed":
        yield "switchport"
    if port.mode != "routed":
        yield f"switchport mode {port.mode}"


def _routed_lines(was: PortState, port: PortState) -> Iterator[str]:
    """The mode that `no switchport` hides is put back first."""
    if port.mode != "routed" or was.mode == "routed":
        return
    hidden = "access" if is_default(port.native, "mode") else "trunk"
    if hidden != was.mode:
        yield f"switchport mode {hidden}"
    yield "no switchport"


def _allowed_lines(was: PortState, port: PortState) -> Iterator[str]:
    """A new trunk gets exactly its list; one that was there keeps what it has."""
    if port.trunk_vlans is None or port.trunk_vlans == was.trunk_vlans:
        return
    if port.trunk_vlans == "all":
        yield f"{_ALLOWED} all"
        return
    held, wanted = {*list_vlans(was.trunk_vlans or ())}, {*port.trunk_vlans}
    if was.trunk_vlans in {"all", ()} or not held & wanted:
        yield f"{_ALLOWED} {collapse_vlans(wanted) or 'none'}"
        return
    if wanted - held:
        yield f"{_ALLOWED} add {collapse_vlans(wanted - held)}"
    if held - wanted:
        yield f"{_ALLOWED} remove {collapse_vlans(held - wanted)}"


def _trust_lines(was: PortState, port: PortState) -> Iterator[str]:
    """The default depends on whether the port is routed, so a default is no match."""
    if port.trust is None:
        return
    implied = is_default(was.native, "trust")
    if is_default(port.native, "trust"):
        if not implied:
            yield "default qos trust"
    elif port.trust != was.trust or implied:
        yield _TRUST[port.trust]


def _priority_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.pfc_priorities is None:
        return
    held, wanted = {*(was.pfc_priorities or ())}, {*port.pfc_priorities}
    if port.pfc is False and was.pfc is not False:
        # Whether `no priority-flow-control` clears the list is not documented, so it is sent again.
        held -= wanted
    yield from (f"no {_PFC} priority {each} no-drop" for each in sorted(held - wanted))
    yield from (f"{_PFC} priority {each} no-drop" for each in sorted(wanted - held))


def _read_watchdog(found: Matches) -> dict[str, str]:
    """The port's own lines: `enable`, `timer` and `action` to their words."""
    return {each["part"] or "enable": each["words"] or "" for each in found}


def _watchdog_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.pfc_watchdog is None:
        return
    held, wanted = read_fields(was.native.get("pfc_watchdog")), _watchdog_words(was, port)
    gone = [part for part in _WATCHDOG_PARTS if part in held and part not in wanted]
    for part in gone:
        yield f"no {_WATCHDOG}{_WATCHDOG_PARTS[part]}"
    # Whether such a line, or the end of PFC, clears the others is not documented, so the lines
    # that stay are sent again.
    cleared = "enable" in gone or (was.pfc is True and port.pfc is False)
    for part, words in wanted.items():
        if cleared or held.get(part) != words:
            yield f"{_WATCHDOG}{_WATCHDOG_PARTS[part]} {words}".rstrip()


def _watchdog_words(was: PortState, port: PortState) -> dict[str, str]:
    """The three lines that are wanted; a timer that is already set is kept."""
    held, recorded = (read_fields(each.native.get("pfc_watchdog")) for each in (was, port))
    if recorded:
        return {part: recorded[part] for part in _WATCHDOG_PARTS if part in recorded}
    if not port.pfc_watchdog:
        return {}
    if was.pfc_watchdog and port.pfc_watchdog_ms in {None, was.pfc_watchdog_ms}:
        return held
    timer = held.get("timer", WATCHDOG_TIMER)
    if port.pfc_watchdog_ms is not None:
        timer = watchdog_timer(*port.pfc_watchdog_ms)
    return {"enable": "", "timer": timer, "action": WATCHDOG_ACTION}


ROWS: Final = (
    Row("speed", r"speed (.+)", _text, "", lambda v: f"speed {v}" if v else "no speed"),
    Row("fec", "|".join(_FEC_LINES), lambda found: " ".join(_FEC_LINES[m[0]] for m in found), "",
        write=_fec_lines),
    Row("mtu_bytes", r"l2 mtu (\d+)", _number, None, "l2 mtu {}".format, "no l2 mtu"),
    Row("mode", "switchport mode trunk", lambda _: "trunk", "access", write=_mode_lines),
    Row("access_vlan", r"switchport access vlan (\d+)", _number, FACTORY_VLAN,
        "switchport access vlan {}".format),
    Row("native_vlan", rf"{_NATIVE} (\d+|tag)", lambda found: int(_text(found).replace("tag", "0")),
        FACTORY_VLAN,
        lambda v: f"no {_NATIVE}" if v == FACTORY_VLAN else f"{_NATIVE} {v or 'tag'}"),
    Row("trunk_vlans", rf"{_ALLOWED} (.+)",
        lambda found: "all" if _text(found) == "all" else parse_vlan_ranges(_text(found)), "all",
        write=_allowed_lines),
    Row("routed", "no switchport", _flag(on=True), absent=False, write=_routed_lines),
    Row("edge_port", rf"{_EDGE}(?: (\S+))?", lambda found: found[0][1] or "on", "",
        lambda v: f"{_EDGE} {v}".removesuffix(" on") if v else f"no {_EDGE}"),
    Row("bpdu_guard", rf"{_GUARD} (\S+)",
        lambda found: "on" if found[0][1] == "enable" else "off", "",
        lambda v: f"{_GUARD} {_GUARD_WORDS[v]}" if v else f"no {_GUARD}"),
    Row("trust", "|".join(_TRUST.values()),
        lambda found: next(word for word, line in _TRUST.items() if line == found[0][0]), None,
        write=_trust_lines),
    Row("pfc", f"{_PFC} (?:mode )?on", _flag(on=True), absent=False,
        line=lambda v: f"{_PFC} on" if v else f"no {_PFC}"),
    Row("pfc_priorities", rf"{_PFC} priority (\d) no-drop", _numbers, (), write=_priority_lines),
    Row("pfc_watchdog", rf"{_WATCHDOG}(?: port (?P<part>timer|action) (?P<words>.+))?",
        _read_watchdog, {}, write=_watchdog_lines),
    Row("admin_up", "shutdown", _flag(on=False), absent=True,
        line=lambda v: "no shutdown" if v else "shutdown"),
    Row("is_odd", r"switchport mode (?!trunk$|access$).*|switchport monitor.*|channel-group .*",
        _flag(on=True), absent=False, write=lambda _was, _port: ()),
)  # fmt: skip
"""In the order in which lines are sent. `routed` and `is_odd` are read only: `is_odd` marks a
tunnel, a tap or a member of a bundle, on which our settings would not be in force."""
_PATTERNS: Final = tuple((row, re.compile(row.pattern)) for row in ROWS)
_QUEUE: Final = re.compile(r"(?:uc-)?tx-queue (\d+)")
_ECN_HEAD: Final = "random-detect ecn "
_ECN: Final = re.compile(
    r"random-detect ecn minimum-threshold (?P<low>\d+) (?P<low_unit>\w+) "
    r"maximum-threshold (?P<high>\d+) (?P<high_unit>\w+)"
    r"(?: max-mark-probability (?P<percent>\d+))?(?: weight (?P<weight>\d+))?"
)
_PORT_INDENT: Final = 3
"""EOS indents each level by three blanks."""


@dataclass(frozen=True, slots=True)
class Section:
    """One interface of the configuration."""

    lines: tuple[str, ...]
    queues: Mapping[int, tuple[str, ...]]
    values: Mapping[str, Any]
    """By the key of the row."""

    @property
    def mode(self) -> str:
        """`routed`, `trunk` or `access`."""
        return "routed" if self.values["routed"] else self.values["mode"]

    def named_vlans(self) -> Iterator[int]:
        """VLANs that are written here, in force or not; a trunk that allows all names none."""
        yield from {self.values["access_vlan"], self.values["native_vlan"]} - {0, FACTORY_VLAN}
        if self.values["trunk_vlans"] != "all":
            yield from self.values["trunk_vlans"]


def read_section(block: Iterable[str]) -> Section:
    """The lines of one interface, with their indent."""
    lines, queues, queue = list[str](), dict[int, tuple[str, ...]](), None
    for line in block:
        words, indent = line.strip(), len(line) - len(line.lstrip())
        if indent > _PORT_INDENT:
            if queue is not None:
                queues[queue] = (*queues[queue], words)
            continue
        found = _QUEUE.fullmatch(words)
        queue = int(found[1]) if found else None
        if queue is None:
            lines.append(words)
        else:
            queues[queue] = ()
    return Section(tuple(lines), queues, dict(_values(lines)))


def _values(lines: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for row, pattern in _PATTERNS:
        found = [match for line in lines if (match := pattern.fullmatch(line))]
        yield row.key, row.read(found) if found else row.absent


def read_port(section: Section, wanted: PortState) -> PortState:
    """A port as its section has it; `wanted` names optional settings that are read if it does."""
    values, queues = section.values, section.queues
    watchdog, mtu_bytes, trust = (values[key] for key in ("pfc_watchdog", "mtu_bytes", "trust"))
    plain = {
        key: values[key]
        for key in (
            *("admin_up", "speed", "fec", "access_vlan", "trunk_vlans", "pfc"),
            *("edge_port", "bpdu_guard"),
        )
    }
    times = _TIMES.match(watchdog.get("timer", "")) if wanted.pfc_watchdog_ms else None
    shares = {
        queue: int(line.removeprefix("bandwidth percent "))
        for queue, lines in queues.items()
        for line in lines
        if re.fullmatch(r"bandwidth percent \d+", line)
    }
    state: dict[str, Any] = plain | {
        "mode": section.mode,
        "mtu_bytes": FACTORY_MTU_BYTES if mtu_bytes is None else mtu_bytes,
        "native_vlan": None if wanted.native_vlan is None else values["native_vlan"],
        # Arista's manual: a switch port trusts CoS by default, a routed one DSCP.
        "trust": trust or ("L3" if section.mode == "routed" else "L2"),
        "ecn": {queue: _read_ecn(queues.get(queue, ())) for queue in QUEUES},
        "pfc_priorities": values["pfc_priorities"],
        # Every queue is strict unless `no priority` puts it into the round.
        "strict_classes": tuple(q for q in QUEUES if "no priority" not in queues.get(q, ())),
        "class_shares": dict.fromkeys(wanted.class_shares, 0) | shares,
        # All three lines: without one of them a default of the whole switch would decide.
        "pfc_watchdog": {"enable", "timer"} <= {*watchdog}
        and watchdog.get("action") == WATCHDOG_ACTION,
        "pfc_watchdog_ms": tuple(round(float(each) * 1000) for each in times.groups())
        if times
        else None,
        "native": sources(
            mtu_bytes=mtu_bytes is not None,
            trust=trust is not None,
            mode=values["mode"] == "trunk",
        )
        | ({"pfc_watchdog": write_fields(watchdog)} if watchdog else {}),
    }
    return PortState(**state)


def _read_ecn(lines: Lines) -> EcnState | None:
    line = next((each for each in lines if each.startswith(f"{_ECN_HEAD}minimum-threshold ")), None)
    if line is None:
        return None
    found = _ECN.fullmatch(line)
    if (
        found is None
        or {found["low_unit"], found["high_unit"]} != {"kbytes"}
        # A weight that is not written is taken to be ours: a guess.
        or int(found["weight"] or ECN_WEIGHT) != ECN_WEIGHT
    ):
        return EcnState(min_kib=0, max_kib=0, native=line.removeprefix(_ECN_HEAD))
    percent = int(found["percent"] or MAX_MARK_PERCENT)
    return EcnState(min_kib=int(found["low"]), max_kib=int(found["high"]), percent=percent)


def port_lines(was: PortState, port: PortState) -> tuple[str, ...]:
    """The lines inside `interface X` from one state of a port to another."""
    plain = (line for row in ROWS for line in row.lines(was, port))
    return (*plain, *_queue_lines(was, port))


def _queue_lines(was: PortState, port: PortState) -> Iterator[str]:
    moved = {*(was.strict_classes or ())} ^ {*(port.strict_classes or ())}
    moved = set[int]() if port.strict_classes is None else moved
    for queue in sorted({*port.ecn, *moved, *port.class_shares}):
        lines = [*_ecn_lines(was, port, queue)]
        if queue in moved:
            lines.append(
                "priority strict" if queue in (port.strict_classes or ()) else "no priority"
            )
        share = port.class_shares.get(queue)
        if share not in {None, was.class_shares.get(queue, 0)}:
            lines.append(f"bandwidth percent {share}" if share else "no bandwidth percent")
        if lines:
            yield from (f"uc-tx-queue {queue}", *lines, "exit")


def _ecn_lines(was: PortState, port: PortState, queue: int) -> Lines:
    wanted = port.ecn.get(queue)
    if queue not in port.ecn or wanted == was.ecn.get(queue):
        return ()
    return (f"no {_ECN_HEAD}minimum-threshold" if wanted is None else _ECN_HEAD + _words(wanted),)


def _words(ecn: EcnState) -> str:
    """The thresholds in the vendor's words; the unit is always written."""
    return ecn.native or (
        f"minimum-threshold {ecn.min_kib} kbytes maximum-threshold {ecn.max_kib} kbytes "
        f"max-mark-probability {ecn.percent} weight {ECN_WEIGHT}"
    )
