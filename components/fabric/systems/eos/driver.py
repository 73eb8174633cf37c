"""The driver of Arista EOS: which commands, in which order, read how.

Changes come as a configuration session that is committed with a timer: unless it is confirmed after
the second reading, the switch takes it back by itself (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.fabric.effects import ByTable
from components.fabric.native import sources, write_list
from components.fabric.parts import Sessions
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems.base import (
    Change,
    Guard,
    LinkForm,
    PortCounters,
    Reading,
    Unreadable,
    Unsettable,
)
from components.fabric.systems.eos import read
from components.fabric.systems.eos.facts import (
    FACTORY_MTU_BYTES,
    FACTORY_VLAN,
    QUEUES,
    ROLLBACK_S,
    default_class,
)
from components.fabric.systems.eos.routing import (
    MODEL,
    ROUTER,
    ROUTING,
    WORDS,
    Routing,
    parse_routing,
)
from components.fabric.systems.eos.routing_lines import coming_changes, leaving_changes
from components.fabric.systems.eos.rows import Section, port_lines, read_port, read_section
from components.fabric.systems.membership import holders_of, others_of
from components.fabric.systems.ranges import parse_vlan_ranges

VLANS: Final = "show vlan | json"
STATUS: Final = "show interfaces status | json"
INTERFACES: Final = "show running-config sanitized | section ^interface"
"""`sanitized`: no key of a routing protocol may come into an error message of ours."""
MAPS: Final = "show running-config sanitized | include ^qos"
NEIGHBOURS: Final = "show lldp neighbors detail | json"
_REFUSAL = re.compile(r"^\r?((?:%|Error|Cannot|Unable to).*)", re.MULTILINE)
"""EOS prints `% ` before an error; the other words are a precaution."""
_SVI: Final = re.compile(r"(?:Vlan|Loopback|Management|Vxlan)\d+")
"""Interfaces that are no ports of a bridge."""
_DSCP_MAP: Final = re.compile(r"qos map dscp ([\d ,-]+) to traffic-class (\d)")
_QUEUE_MAP: Final = re.compile(r"qos map traffic-class ([\d ,-]+) to (?:uc-)?tx-queue (\d)")
_TIMER: Final = f"{ROLLBACK_S // 3600:02}:{ROLLBACK_S // 60 % 60:02}:{ROLLBACK_S % 60:02}"


class EosDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "eos"
    title = "EOS"
    links = LinkForm(STATUS, read.parse_links)
    enter: Sequence[str] = ("enable",)
    configure: Sequence[str] = ()
    discard: Sequence[str] = ()
    guard: Guard | None = Guard(
        open="configure session {name}",
        # The diff changes nothing: it puts what is about to happen into the session's record.
        force=("show session-config diffs", f"commit timer {_TIMER}"),
        confirm="configure session {name} commit",
        abandon="abort",
        revert="configure session {name} abort",
        rollback_s=ROLLBACK_S,
        list_command=read.SESSIONS,
        find_stale=read.find_stale,
    )
    save = "write memory"

    def list_ports_commands(self) -> tuple[str, ...]:
        """The status table names every port that there is, split ones too."""
        return (STATUS,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return read.parse_port_names(STATUS, answers[STATUS])

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """VLANs, every interface as configured, and the maps if any of QoS is ours."""
        asks_classes = any(port.ecn or port.strict_classes for port in wanted.ports.values())
        asks_maps = wanted.dscp_classes is not None or wanted.rewrite_dscp is not None
        asks_maps = asks_maps or asks_classes
        routes = (ROUTING, ROUTER) if _wants_routing(wanted) else ()
        return (VLANS, INTERFACES, *((MAPS,) if asks_maps else ()), *routes)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        sections = parse_sections(INTERFACES, answers[INTERFACES])
        routing = _routing(sections, answers)
        state = SwitchState(
            vlans=read.parse_vlans(VLANS, answers[VLANS]),
            dscp_classes=_classes(answers, wanted),
            rewrite_dscp=_rewrites(answers) if wanted.rewrite_dscp is not None else None,
            addresses=routing.addresses if routing else None,
            bgp=routing.bgp if routing else None,
            native={WORDS: write_list(routing.words)} if routing else {},
            ports={
                name: read_port(sections[name], port)
                for name, port in wanted.ports.items()
                if name in sections and not sections[name].values["is_odd"]
            },
        )
        rest = {name: each for name, each in sections.items() if name not in wanted.ports}
        others = {name: _vlans_of(name, section) for name, section in rest.items()}
        unread = PortState()
        carrying = {
            name: read_port(each, unread) for name, each in rest.items() if not _SVI.match(name)
        }
        return Reading(state, holders_of(others), others_of(carrying))

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        """The lines of one session; see `plan_changes`."""
        return plan_changes(actual, target)

    def find_refusal(self, output: str) -> str | None:
        """EOS reports by lines that start with `%`; a terminal session has no exit status."""
        found = _REFUSAL.search(output)
        return found[1].strip() if found else None

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """VLAN 1 on access ports, which are up; trust CoS, no ECN, no PFC, every queue strict."""
        port = PortState(
            admin_up=True,
            mtu_bytes=FACTORY_MTU_BYTES,
            mode="access",
            access_vlan=FACTORY_VLAN,
            trunk_vlans="all",
            trust="L2",
            pfc=False,
            pfc_priorities=(),
            pfc_watchdog=False,
            strict_classes=tuple(QUEUES),
            speed="",
            fec="",
            edge_port="",
            bpdu_guard="",
            native=sources(mtu_bytes=False, trust=False, mode=False),
        )
        return SwitchState(
            vlans=(FACTORY_VLAN,),
            dscp_classes={dscp: default_class(dscp) for dscp in range(64)},
            addresses={},
            bgp=BgpState(),
            native={WORDS: write_list((MODEL,))},
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; LLDP is on by default."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return read.parse_neighbours(NEIGHBOURS, answers[NEIGHBOURS])

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The summary, the routes, and BFD's peers where any neighbour has it."""
        asked = (read.SUMMARY, read.ROUTES)
        return (*asked, read.BFD) if bfd else asked

    def parse_sessions(self, answers: Mapping[str, str]) -> Sessions:
        """Read what `session_commands` asked for."""
        return read.parse_sessions(answers)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received in all, sent per class, marked and discarded packets; pauses of all ports."""
        return read.counter_commands(ports)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        return {port: read.port_counters(port, answers) for port in ports}


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
    return {name: read_section(lines) for name, lines in blocks.items()}


def _interface(words: str) -> str:
    head, _, name = words.partition(" ")
    return name if head == "interface" else ""


def _wants_routing(wanted: SwitchState) -> bool:
    return wanted.addresses is not None or wanted.bgp is not None


def _routing(sections: Mapping[str, Section], answers: Mapping[str, str]) -> Routing | None:
    """What was asked for: addresses, BGP, and the lines as they are."""
    if ROUTER not in answers:
        return None
    return parse_routing(sections, answers[ROUTING], answers[ROUTER])


def _classes(answers: Mapping[str, str], wanted: SwitchState) -> dict[int, int] | None:
    if MAPS not in answers:
        return None
    classes, queues = parse_maps(answers[MAPS])
    ours = {
        tc for port in wanted.ports.values() for tc in (*port.ecn, *(port.strict_classes or ()))
    }
    for tc in sorted(ours & {*queues} - {0}):
        why = (
            f"traffic class {tc} is mapped to queue {queues[tc]}, but its ECN and schedule "
            f"are set on queue {tc}; remove that line"
        )
        raise Unreadable(MAPS, answers[MAPS], why)
    if wanted.dscp_classes is None:
        return None
    return {dscp: classes[dscp] for dscp in wanted.dscp_classes}


def parse_maps(text: str) -> tuple[dict[int, int], dict[int, int]]:
    """The maps of the whole switch; without a line there are the defaults.

    Returns:
        Every DSCP to its traffic class, and each class that is not in the queue of its own number
        to its queue.
    """
    classes = {dscp: default_class(dscp) for dscp in range(64)}
    for numbers, tc in _DSCP_MAP.findall(text):
        classes |= dict.fromkeys(parse_vlan_ranges(numbers), int(tc))
    queues: dict[int, int] = {}
    for numbers, queue in _QUEUE_MAP.findall(text):
        queues |= {tc: int(queue) for tc in parse_vlan_ranges(numbers) if tc != int(queue)}
    return classes, queues


def _rewrites(answers: Mapping[str, str]) -> bool:
    """`qos rewrite dscp` is one line for the whole switch (AVD's template of `qos`)."""
    return re.search(r"^qos rewrite dscp\b", answers.get(MAPS, ""), re.MULTILINE) is not None


def _vlans_of(name: str, section: Section) -> set[int]:
    """The VLANs that a port, a bundle or the routed interface of a VLAN names."""
    routed = name.removeprefix("Vlan")
    return {int(routed)} if routed.isdigit() else {*section.named_vlans()}


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The lines from `actual` to `target`; empty when they agree.

    Raises:
        Unsettable: A port is missing, or is no plain switch port.
    """
    missing = [name for name in target.ports if name not in actual.ports]
    if missing:
        raise Unsettable(
            f"{', '.join(missing)}: there is no such port, or it is part of a bundle, a tunnel or "
            "a tap; look at `show running-config interfaces`"
        )
    return (
        *(Change((f"vlan {vlan}", "exit")) for vlan in target.vlans if vlan not in actual.vlans),
        *_map_changes(actual, target),
        *leaving_changes(actual, target),
        *_port_changes(actual, target),
        *coming_changes(actual, target),
        *(Change((f"no vlan {vlan}",)) for vlan in actual.vlans if vlan not in target.vlans),
    )


def _map_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    held = actual.dscp_classes or {}
    for dscp, tc in sorted((target.dscp_classes or {}).items()):
        if held.get(dscp) != tc:
            yield Change((f"qos map dscp {dscp} to traffic-class {tc}",))


def _port_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """A block for each port: how a range of split ports is written differs between platforms."""
    for name, port in target.ports.items():
        lines = port_lines(actual.ports[name], port)
        if lines:
            yield Change((f"interface {name}", *lines, "exit"))
