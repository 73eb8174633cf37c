"""EOS' running configuration, read into plain values; docs/explanation/sources.md#eos.

It holds only what differs from the defaults. Lines that no driver writes are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from components.fabric.state import EcnState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.eos.facts import (
    ECN_WEIGHT,
    FACTORY_VLAN,
    MAX_MARK_PERCENT,
    QUEUES,
    default_class,
)
from components.fabric.systems.ranges import parse_vlan_ranges

Trust = Literal["L2", "L3", "port"]
Mode = Literal["access", "trunk", "routed"]
_PORT_INDENT: Final = 3
"""EOS indents each level by three blanks."""
_QUEUE = re.compile(r"(?:uc-)?tx-queue (\d+)")
_BANDWIDTH = re.compile(r"^bandwidth percent (\d+)$", re.MULTILINE)
_ECN = re.compile(
    r"random-detect ecn minimum-threshold (?P<low>\d+) (?P<low_unit>\w+) "
    r"maximum-threshold (?P<high>\d+) (?P<high_unit>\w+)"
    r"(?: max-mark-probability (?P<percent>\d+))?(?: weight (?P<weight>\d+))?"
)
_PFC = re.compile(r"priority-flow-control (?:mode )?on")
_NO_DROP = re.compile(r"priority-flow-control priority (\d) no-drop")
_WATCHDOG = re.compile(
    r"priority-flow-control pause watchdog(?: port (?P<part>timer|action) (?P<words>.+))?"
)
_TIMES = re.compile(r"timeout ([\d.]+) polling-interval \S+ recovery-time ([\d.]+)")
_DSCP_MAP = re.compile(r"qos map dscp ([\d ,-]+) to traffic-class (\d)")
_QUEUE_MAP = re.compile(r"qos map traffic-class ([\d ,-]+) to (?:uc-)?tx-queue (\d)")
_ODD = re.compile(r"switchport mode (?!trunk$|access$)|switchport monitor")
"""What makes a port something other than a plain switch port: tunnel, tap."""
_MEMBER = re.compile(r"channel-group (\d+)")
FEC_HEAD: Final = "error-correction encoding"
FEC_LINES: Final = {
    f"{FEC_HEAD} reed-solomon": "rs",
    f"{FEC_HEAD} fire-code": "fc",
    f"no {FEC_HEAD}": "none",
    f"no {FEC_HEAD} reed-solomon": "no-rs",
    f"no {FEC_HEAD} fire-code": "no-fc",
}
"""A port may have several of them (AVD's template of an Ethernet interface)."""
_TRUST: Final[Mapping[str, Trust]] = {
    "qos trust cos": "L2",
    "qos trust dscp": "L3",
    "no qos trust": "port",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One interface of the configuration."""

    lines: tuple[str, ...]
    queues: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    @property
    def is_odd(self) -> bool:
        """Not a plain port: what we would set would not be in force, or break what is."""
        return any(_ODD.match(line) for line in self.lines)

    @property
    def bundle(self) -> str | None:
        """The bundle that a port is in."""
        found = (match for line in self.lines if (match := _MEMBER.match(line)))
        return next((f"Port-Channel{match[1]}" for match in found), None)

    @property
    def mode(self) -> Mode:
        """A port is a switch port in access mode unless a line says otherwise."""
        if "no switchport" in self.lines:
            return "routed"
        return "trunk" if "switchport mode trunk" in self.lines else "access"

    @property
    def has_mode(self) -> bool:
        """Whether a mode is written, be it in force or hidden by `no switchport`."""
        return "switchport mode trunk" in self.lines

    @property
    def access_vlan(self) -> int:
        """It stays while the port is a trunk."""
        found = self._value("switchport access vlan ")
        return int(found) if found else FACTORY_VLAN

    @property
    def trunk_vlans(self) -> Literal["all"] | tuple[int, ...]:
        """They stay while the port is an access port."""
        found = self._value("switchport trunk allowed vlan ")
        return "all" if found in {None, "all"} else parse_vlan_ranges(found or "")

    @property
    def native_vlan(self) -> int:
        """VLAN of frames without a tag on a trunk; 0: they are dropped (`tag`)."""
        found = self._value("switchport trunk native vlan ") or str(FACTORY_VLAN)
        return int(found) if found.isdigit() else 0

    @property
    def mtu_bytes(self) -> int | None:
        """`l2 mtu`; the plain `mtu` is that of routed packets."""
        found = self._value("l2 mtu ")
        return int(found) if found else None

    @property
    def speed(self) -> str:
        """Speed and lanes as they are written, `400g-4`; blank: nothing is."""
        return self._value("speed ") or ""

    @property
    def fec(self) -> str:
        """The port's lines on error correction in words of ours, `rs`; blank: there is none."""
        return " ".join(FEC_LINES[line] for line in self.lines if line in FEC_LINES)

    @property
    def trust(self) -> Trust | None:
        """None: nothing is written."""
        return next((_TRUST[line] for line in self.lines if line in _TRUST), None)

    @property
    def admin_up(self) -> bool:
        """A port is up unless it is shut."""
        return "shutdown" not in self.lines

    @property
    def pfc(self) -> bool:
        """Priority flow control, whatever priorities it has."""
        return any(_PFC.fullmatch(line) for line in self.lines)

    @property
    def no_drop(self) -> tuple[int, ...]:
        """Priorities that are not dropped."""
        found = (_NO_DROP.fullmatch(line) for line in self.lines)
        return tuple(sorted(int(match[1]) for match in found if match))

    @property
    def watchdog(self) -> dict[str, str]:
        """The port's own lines on its PFC watchdog: `enable`, `timer` and `action` to their words.

        Where one is missing, defaults of the whole switch are in force, which are not ours.
        """
        found = (_WATCHDOG.fullmatch(line) for line in self.lines)
        return {match["part"] or "enable": match["words"] or "" for match in found if match}

    @property
    def watchdog_ms(self) -> tuple[int, int] | None:
        """Timeout and recovery of the port's own timer; None: it has none."""
        found = _TIMES.match(self.watchdog.get("timer", ""))
        return (_ms(found[1]), _ms(found[2])) if found else None

    @property
    def ecn(self) -> dict[int, EcnState | None]:
        """Marking by queue; None: off."""
        return {queue: _ecn(self.queues.get(queue, ())) for queue in QUEUES}

    @property
    def strict_classes(self) -> tuple[int, ...]:
        """Every queue is strict unless `no priority` puts it into the round."""
        return tuple(q for q in QUEUES if "no priority" not in self.queues.get(q, ()))

    @property
    def shares(self) -> dict[int, int]:
        """`bandwidth percent` of the queues that have one."""
        found = {
            queue: _BANDWIDTH.search("\n".join(self.queues.get(queue, ()))) for queue in QUEUES
        }
        return {queue: int(match[1]) for queue, match in found.items() if match}

    def named_vlans(self) -> Iterator[int]:
        """VLANs that are written here, in force or not; a trunk that allows all names none."""
        for head in ("switchport access vlan ", "switchport trunk native vlan "):
            found = self._value(head)
            if found is not None and found.isdigit():
                yield int(found)
        if self.trunk_vlans != "all":
            yield from self.trunk_vlans

    def _value(self, head: str) -> str | None:
        found = (line.removeprefix(head) for line in self.lines if line.startswith(head))
        return next(found, None)


def _ms(seconds: str) -> int:
    return round(float(seconds) * 1000)


def _ecn(lines: tuple[str, ...]) -> EcnState | None:
    for line in lines:
        if not line.startswith("random-detect ecn minimum-threshold "):
            continue
        found = _ECN.fullmatch(line)
        percent, weight = (found["percent"], found["weight"]) if found else (None, None)
        plain = (
            found is not None
            and found["low_unit"] == found["high_unit"] == "kbytes"
            # What is not said is taken to be what we say: a guess.
            and int(weight or ECN_WEIGHT) == ECN_WEIGHT
        )
        if found is not None and plain:
            return EcnState(
                min_kib=int(found["low"]),
                max_kib=int(found["high"]),
                percent=int(percent or MAX_MARK_PERCENT),
            )
        return EcnState(min_kib=0, max_kib=0, native=line.removeprefix("random-detect ecn "))
    return None


def parse_sections(command: str, text: str) -> dict[str, Section]:
    """`show running-config … | section ^interface`, by interface.

    Raises:
        Unreadable: There is no interface in it.
    """
    blocks: dict[str, list[str]] = {}
    held: list[str] | None = None
    for line in text.replace("\r", "").splitlines():
        if line.strip() in {"", "!"}:
            continue
        if line[0] != " ":
            name = _interface(line.strip())
            held = blocks.setdefault(name, []) if name else None
        elif held is not None:
            held.append(line)
    if not blocks:
        raise Unreadable(command, text, "there is no interface in the answer")
    return {name: _section(lines) for name, lines in blocks.items()}


def _section(block: list[str]) -> Section:
    lines: list[str] = []
    queues: dict[int, tuple[str, ...]] = {}
    queue: int | None = None
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
    return Section(tuple(lines), queues)


def _interface(words: str) -> str:
    head, _, name = words.partition(" ")
    return name if head == "interface" else ""


@dataclass(frozen=True, slots=True)
class QosMaps:
    """The maps of the whole switch."""

    dscp_classes: Mapping[int, int]
    """Every DSCP to its traffic class."""
    queues: Mapping[int, int]
    """Traffic classes that are not in the queue of their own number, to their queue."""


def parse_maps(text: str) -> QosMaps:
    """`show running-config … | include ^qos`; without a line there are the defaults."""
    classes = {dscp: default_class(dscp) for dscp in range(64)}
    for numbers, tc in _DSCP_MAP.findall(text):
        classes |= dict.fromkeys(parse_vlan_ranges(numbers), int(tc))
    queues: dict[int, int] = {}
    for numbers, queue in _QUEUE_MAP.findall(text):
        queues |= {tc: int(queue) for tc in parse_vlan_ranges(numbers) if tc != int(queue)}
    return QosMaps(classes, queues)
