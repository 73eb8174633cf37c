"""The driver of Arista EOS: which commands, in which order, read how.

Changes come as a configuration session that is committed with a timer: unless it is confirmed after
the second reading, the switch takes it back by itself (docs/explanation/sources.md#eos).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from components.fabric.effects import ByTable
from components.fabric.native import write_list
from components.fabric.parts import Session, Sessions, why_unread
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import (
    CANDIDATE_PREFIX,
    Change,
    CounterWay,
    Guard,
    LinkForm,
    Occupied,
    PauseCounters,
    PortCounters,
    PriorityCounters,
    Reading,
    SoftReader,
    Unread,
    Unreadable,
    Unsettable,
)
from components.fabric.systems.eos import routing
from components.fabric.systems.eos.rows import (
    FACTORY_VLAN,
    MAP_ROWS,
    QUEUES,
    Section,
    parse_sections,
    port_lines,
    read_port,
)
from components.fabric.systems.membership import holders_of, others_of
from components.fabric.systems.ranges import port_key
from components.fabric.systems.rows import (
    Values,
    add_vlans,
    factory_values,
    remove_vlans,
    take_lines,
    write_rows,
    write_steps,
)

VLANS: Final = "show vlan | json"
STATUS: Final = "show interfaces status | json"
INTERFACES: Final = "show running-config sanitized | section ^interface"
"""`sanitized`: no key of a routing protocol may come into an error message of ours."""
MAPS: Final = "show running-config sanitized | include ^qos"
NEIGHBOURS: Final = "show lldp neighbors detail | json"
SESSIONS: Final = "show configuration sessions detail | json"
SUMMARY: Final = "show ip bgp summary | json"
BFD: Final = "show bfd peers | json"
ROUTES: Final = "show ip route | json"
WAITING: Final = "pendingCommitTimer"
"""State of a session that is in force and not confirmed, before release 4.32."""
COUNTERS: Final[Mapping[CounterWay, str]] = {
    "rx": "show interfaces {port} counters | json",
    "discards": "show interfaces {port} counters discards | json",
    "tx": "show interfaces {port} counters queue detail | json",
    "marked": "show qos interfaces {port} ecn counters queue | json",
    "pauses": "show priority-flow-control counters detail | json",
    "storms": "show priority-flow-control counters watchdog | json",
}
"""The last two are about all ports."""
ROLLBACK_S: Final = 300
"""Of `commit timer 00:05:00`: a second reading of 64 ports takes seconds, a person some minutes."""
_REFUSAL = re.compile(r"^\r?((?:%|Error|Cannot|Unable to).*)", re.MULTILINE)
"""EOS prints `% ` before an error; the other words are a precaution."""
_NO_PORT: Final = re.compile(r"(?:Vlan|Loopback|Management|Vxlan)\d+")
"""Interfaces that are no ports of a bridge."""
_TIMER: Final = f"{ROLLBACK_S // 3600:02}:{ROLLBACK_S // 60 % 60:02}:{ROLLBACK_S % 60:02}"
_CLASS_NAME: Final = re.compile(r"TC(\d)(?:-(\d))?")
_ON_PORT: Final = re.compile(r"^fe80:[0-9a-f:]*%(?:Et|Ethernet)(\S+)$", re.IGNORECASE)
"""A neighbour of BGP on a port, which is in the answer only once it was heard."""


class _FarPort(BaseModel):
    name: str = Field(default="", alias="interfaceId_v2")
    quoted: str = Field(default="", alias="interfaceId")
    """The same between quotation marks, in releases that have no other."""
    description: str = Field(default="", alias="interfaceDescription")


class _Heard(BaseModel):
    system: str = Field(default="", alias="systemName")
    port: _FarPort = Field(default=_FarPort(), alias="neighborInterfaceInfo")


class _ConfigSession(BaseModel):
    state: str
    instances: dict[str, JsonValue] = {}
    """Logins that are in it now."""


class _ConfigSessions(BaseModel):
    sessions: dict[str, _ConfigSession]
    waiting: str = Field(default="", alias="commitTimerSessionName")
    """The session that is in force and not confirmed, from release 4.32 on."""


class _Queue(BaseModel):
    enqueued_bytes: int | None = Field(default=None, alias="enqueuedBytes")
    """No recording has this name: it is assumed, and without it the bytes are not known."""
    dropped: int | None = Field(default=None, alias="droppedPackets")


class _Class(BaseModel):
    precedences: dict[str, _Queue] = Field(alias="dropPrecedences")


class _Pauses(BaseModel):
    rx: int = Field(alias="rxFrames")
    tx: int = Field(alias="txFrames")


class _Peer(BaseModel):
    state: str = Field(alias="peerState")
    networks: int | None = Field(default=None, alias="prefixReceived")


class _Via(BaseModel):
    interface: str


class _Route(BaseModel):
    vias: list[_Via] = []


_INT, _TEXT = TypeAdapter(int), TypeAdapter(str)
_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_ENTRY: Final = TypeAdapter(dict[str, JsonValue])
_COUNT: Final = TypeAdapter(int | str)


def parse_vlans(answer: Answer) -> tuple[int, ...]:
    """The VLANs; those that EOS made for routed ports are not configured."""
    found = answer.each(_ENTRY, "vlans", "*")
    return tuple(sorted(int(vlan) for vlan, entry in found if not entry.get("dynamic")))


def parse_links(command: str, text: str) -> dict[str, bool]:
    """Front panel ports by number, each with whether it has a link (goeapi, `interfaces.go`)."""
    found = dict(Answer(command, text).each(_ENTRY, "interfaceStatuses", "*"))
    ports = sorted((name for name in found if name.startswith("Ethernet")), key=port_key)
    return {name: found[name].get("linkStatus") == "connected" for name in ports}


def parse_neighbours(answer: Answer) -> dict[str, Neighbour]:
    """What LLDP heard; of several on one port the last one is taken."""
    return {
        name: Neighbour(
            system=heard.system,
            port=heard.port.name or heard.port.quoted.strip('"'),
            description=heard.port.description,
        )
        for name, heard in answer.each(
            TypeAdapter(_Heard), "lldpNeighbors", "*", "lldpNeighborInfo", "*"
        )
    }


def find_stale(text: str) -> tuple[str, ...]:
    """Our sessions of killed runs, in force or not.

    Raises:
        Unreadable: The answer is no list of sessions.
        Occupied: One of ours is in use, or another user's session awaits confirmation:
            when that is taken back, the whole configuration is, with what we changed since.
    """
    try:
        found = _ConfigSessions.model_validate_json(text.strip())
    except ValidationError as error:
        raise Unreadable(SESSIONS, text, "it is no list of sessions") from error
    stale: list[str] = []
    for name, session in found.sessions.items():
        waits = session.state == WAITING or name == found.waiting
        is_ours = name.startswith(CANDIDATE_PREFIX)
        end = f"wait for it, or end it with `configure session {name} abort`"
        if waits and not is_ours:
            raise Occupied(
                f"the configuration session {name} awaits confirmation and is not Railyard's; {end}"
            )
        if is_ours and session.instances:
            raise Occupied(f"another run is in the configuration session {name}; {end}")
        if is_ours and (waits or session.state == "pending"):
            stale.append(name)
    return tuple(stale)


def parse_sent(answer: Answer) -> dict[int, PriorityCounters]:
    """Bytes and drops by class of a port."""
    table = ("interfaces", answer.port, "ucastQueues", "trafficClasses")
    sent = dict.fromkeys(QUEUES, PriorityCounters(None, 0))
    kind = TypeAdapter(dict[str, _Class])
    for name, entry in answer.find(kind, "egressQueueCounters", *table).items():
        found = _CLASS_NAME.fullmatch(name)
        classes = range(int(found[1]), int(found[2] or found[1]) + 1) if found else ()
        queues = entry.precedences.values()
        counts = [each.enqueued_bytes for each in queues if each.enqueued_bytes is not None]
        drops = [each.dropped for each in queues if each.dropped is not None]
        # `TC0-2` counts several classes together, so that no class of them is known.
        known = len(classes) == 1
        total = sum(counts) if known and len(counts) == len(queues) else None
        one = PriorityCounters(None, total, sum(drops) if known and drops else None)
        sent |= {number: one for number in classes if number in sent}
    return sent


def parse_marked(answer: Answer) -> int | None:
    """Marked packets of a port.

    A port without `random-detect ecn count` is not in it, or has a dash: then the number is not
    known, which is not 0.
    """
    counts = answer.each(_COUNT, "intfQueueCounters", answer.port, "queueCounters", "*")
    known = [int(count) for _, count in counts if not re.fullmatch(r"-|[nN]/?[aA]", str(count))]
    return sum(known) if known else None


def parse_pauses(answer: Answer) -> dict[int, PauseCounters]:
    """PFC frames by priority; of a port that is not in it, nothing is counted."""
    found = answer.each(TypeAdapter(_Pauses), "interfaces", answer.port, "priorities", "*")
    return {int(number): PauseCounters(each.rx, each.tx) for number, each in found}


def parse_storms(answer: Answer) -> dict[int, int]:
    """Stuck queues; a port is in it from its first one on."""
    path = (answer.port, "txQueues", "*", "stuckCount")
    counts = answer.each(_INT, "interfaces", *path)
    return dict.fromkeys(QUEUES, 0) | {int(number): count for number, count in counts}


def port_counters(port: str, answers: Mapping[str, str]) -> PortCounters:
    """One port, as far as its answers can be read; received bytes are of all priorities together.

    Args:
        port: Its name.
        answers: The answer to each of `counter_commands`.
    """
    soft = SoftReader()
    commands = {way: command.format(port=port) for way, command in COUNTERS.items()}
    ask = {way: Answer(command, answers[command], port) for way, command in commands.items()}
    sent = soft.read("tx", lambda: parse_sent(ask["tx"])) or {}
    if any(each.tx_bytes is None for each in sent.values()):
        why = "it does not have the bytes of each class"
        soft.unread.append(Unread("tx", commands["tx"], ask["tx"].text, why))
    return PortCounters(
        sent,
        soft.read("marked", lambda: parse_marked(ask["marked"])),
        soft.read("discards", lambda: ask["discards"].find(_INT, "interfaces", port, "inDiscards")),
        rx_bytes=soft.read("rx", lambda: ask["rx"].find(_INT, "interfaces", port, "inOctets")),
        pauses=soft.read("pauses", lambda: parse_pauses(ask["pauses"])) or {},
        storms=soft.read("storms", lambda: parse_storms(ask["storms"])) or {},
        unread=soft.found,
    )


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """Neighbours of BGP by port or address.

    Raises:
        Unreadable: The summary has another form; of BFD and routes, that they are not known.
    """
    summary = Answer(SUMMARY, answers[SUMMARY])
    peers = summary.each(TypeAdapter(_Peer), "vrfs", "default", "peers", "*")
    found = {
        f"Ethernet{on_port[1]}" if (on_port := _ON_PORT.match(address)) else address: Session(
            state=peer.state, networks=peer.networks
        )
        for address, peer in peers
    }
    update: dict[str, object] = {}
    try:
        states = dict(_bfd_states(Answer(BFD, answers[BFD]))) if BFD in answers else None
    except Unreadable:
        states, update["bfd_unread"] = None, why_unread(answers[BFD])
    if states is not None:
        bfd = {name: {"bfd": states.get(name, "down")} for name in found}
        found = {name: each.model_copy(update=bfd[name]) for name, each in found.items()}
    try:
        kind, path = TypeAdapter(_Route), ("vrfs", "default", "routes", "*")
        routes = Answer(ROUTES, answers[ROUTES]).each(kind, *path)
        update["routes"] = {
            network: tuple(sorted({via.interface for via in route.vias}))
            for network, route in routes
        }
    except Unreadable:  # a way without a port is no form that we know
        update["routes_unread"] = why_unread(answers[ROUTES])
    return Sessions(neighbors=found).model_copy(update=update)


def _bfd_states(answer: Answer) -> Iterator[tuple[str, str]]:
    """Address and port of each session to its state."""
    for family in ("ipv4Neighbors", "ipv6Neighbors"):
        for address, held in answer.each(_ANY, "vrfs", "default", family, "*"):
            for port, status in _statuses(held):
                yield address, status
                yield f"Ethernet{re.sub('^(Ethernet|Et)', '', port)}" if port else address, status


def _statuses(held: object, port: str = "") -> Iterator[tuple[str, str]]:
    """Port and state of each session of an address.

    Releases differ in what is between the address and the session (`peerStats`, or `peers` by
    port and `types`): each has `status` and, on one hop, `l3intf`.
    """
    table = cast("dict[str, object]", held) if isinstance(held, dict) else {}
    if isinstance(status := table.get("status"), str):
        yield str(table.get("l3intf") or port), status
        return
    for key, inner in table.items():
        yield from _statuses(inner, key if key.startswith("Et") else port)


class EosDriver(ByTable):
    """See `components.fabric.systems.base.Driver`."""

    system = "eos"
    title = "EOS"
    links = LinkForm(STATUS, parse_links)
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
        list_command=SESSIONS,
        find_stale=find_stale,
    )
    save = "write memory"
    parse_sessions = staticmethod(parse_sessions)

    def list_ports_commands(self) -> tuple[str, ...]:
        """The status table names every port that there is, split ones too."""
        return (STATUS,)

    def parse_port_names(self, answers: Mapping[str, str]) -> tuple[str, ...]:
        """Every front panel port, by number."""
        return tuple(parse_links(STATUS, answers[STATUS]))

    def read_commands(self, wanted: SwitchState) -> tuple[str, ...]:
        """VLANs, every interface as configured, and the maps if any of QoS is ours."""
        asks_maps = any(port.ecn or port.strict_classes for port in wanted.ports.values())
        asks_maps |= wanted.dscp_classes is not None or wanted.rewrite_dscp is not None
        routes = (routing.ROUTING, routing.ROUTER) if _routes(wanted) else ()
        return (VLANS, INTERFACES, *((MAPS,) if asks_maps else ()), *routes)

    def parse(self, answers: Mapping[str, str], wanted: SwitchState) -> Reading:
        """Read what `read_commands` asked for."""
        sections = parse_sections(INTERFACES, answers[INTERFACES])
        routes: dict[str, Any] = {}
        if routing.ROUTER in answers:
            plain, router = answers[routing.ROUTING], answers[routing.ROUTER]
            routes = routing.parse_routing(sections, plain, router)
        state = SwitchState(
            vlans=parse_vlans(Answer(VLANS, answers[VLANS])),
            **(_maps(answers[MAPS], wanted) if MAPS in answers else {}),
            **routes,
            ports={
                name: read_port(sections[name], port)
                for name, port in wanted.ports.items()
                if name in sections and not sections[name].values["is_odd"]
            },
        )
        rest = {name: each for name, each in sections.items() if name not in wanted.ports}
        named = {name: _vlans_of(name, section) for name, section in rest.items()}
        carrying = {
            name: read_port(each, PortState())
            for name, each in rest.items()
            if not _NO_PORT.match(name)
        }
        return Reading(state, holders_of(named), others_of(carrying))

    def plan_changes(self, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
        """The lines from `actual` to `target`; empty when they agree.

        Raises:
            Unsettable: A port is missing, or is no plain switch port.
        """
        missing = [name for name in target.ports if name not in actual.ports]
        if missing:
            raise Unsettable(
                f"{', '.join(missing)}: there is no such port, or it is part of a bundle, a tunnel "
                "or a tap; look at `show running-config interfaces`"
            )
        return write_steps(_STEPS, actual, target)

    def find_refusal(self, output: str) -> str | None:
        """EOS reports by lines that start with `%`; a terminal session has no exit status."""
        found = _REFUSAL.search(output)
        return found[1].strip() if found else None

    def factory_state(self, ports: Sequence[str]) -> SwitchState:
        """VLAN 1 on access ports, which are up; trust CoS, no ECN, no PFC, every queue strict."""
        port = read_port(Section(), PortState()).model_copy(update={"ecn": {}})
        return SwitchState(
            vlans=(FACTORY_VLAN,),
            dscp_classes=factory_values(MAP_ROWS)["dscp_classes"],
            addresses={},
            bgp=BgpState(),
            native={routing.WORDS: write_list((routing.MODEL,))},
            ports=dict.fromkeys(ports, port),
        )

    def neighbour_commands(self) -> tuple[str, ...]:
        """What every port heard; LLDP is on by default."""
        return (NEIGHBOURS,)

    def parse_neighbours(self, answers: Mapping[str, str]) -> dict[str, Neighbour]:
        """Read what `neighbour_commands` asked for."""
        return parse_neighbours(Answer(NEIGHBOURS, answers[NEIGHBOURS]))

    def session_commands(self, *, bfd: bool) -> tuple[str, ...]:
        """The summary, the routes, and BFD's peers where any neighbour has it."""
        return (SUMMARY, ROUTES, BFD) if bfd else (SUMMARY, ROUTES)

    def counter_commands(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Received in all, sent per class, marked and discarded packets; pauses of all ports."""
        of_port = [each for each in COUNTERS.values() if "{port}" in each]
        of_all = [each for each in COUNTERS.values() if each not in of_port]
        return (*(each.format(port=port) for port in ports for each in of_port), *of_all)

    def parse_counters(
        self, answers: Mapping[str, str], ports: Sequence[str]
    ) -> dict[str, PortCounters]:
        """Read what `counter_commands` asked for."""
        return {port: port_counters(port, answers) for port in ports}


def _routes(wanted: SwitchState) -> bool:
    return wanted.addresses is not None or wanted.bgp is not None


def _maps(text: str, wanted: SwitchState) -> Values:
    """The maps of the whole switch, as far as they are asked for."""
    maps = parse_maps(text)
    asked = (
        tc for port in wanted.ports.values() for tc in (*port.ecn, *(port.strict_classes or ()))
    )
    for tc in sorted({*asked} - {0}):
        if (queue := maps["class_queues"].get(tc, tc)) != tc:
            why = (
                f"traffic class {tc} is mapped to queue {queue}, but its ECN and schedule "
                f"are set on queue {tc}; remove that line"
            )
            raise Unreadable(MAPS, text, why)
    classes = maps["dscp_classes"]
    return {
        "dscp_classes": wanted.dscp_classes
        and {dscp: classes[dscp] for dscp in wanted.dscp_classes},
        "rewrite_dscp": None if wanted.rewrite_dscp is None else maps["rewrite_dscp"],
    }


def parse_maps(text: str) -> Values:
    """Every DSCP to its class, and every class to its queue; defaults if no line says it."""
    values, found = (
        factory_values(MAP_ROWS),
        take_lines(MAP_ROWS, map(str.strip, text.splitlines())),
    )
    for key in ("dscp_classes", "class_queues"):
        values[key] = values[key] | found.get(key, {})
    return values | {"rewrite_dscp": "rewrite_dscp" in found}


def _vlans_of(name: str, section: Section) -> set[int]:
    """The VLANs that a port, a bundle or the routed interface of a VLAN names."""
    routed = name.removeprefix("Vlan")
    return {int(routed)} if routed.isdigit() else {*section.named_vlans()}


def _map_lines(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, ...]]:
    return ((line,) for line in write_rows(MAP_ROWS, actual, target))


def _blocks(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, ...]]:
    """A block for each port: how a range of split ports is written differs between platforms."""
    for name, port in target.ports.items():
        if lines := [*port_lines(actual.ports[name], port)]:
            yield (f"interface {name}", *lines, "exit")


_STEPS: Final = (
    add_vlans,
    _map_lines,
    routing.leaving_lines,
    _blocks,
    routing.coming_lines,
    routing.forwarding_lines,
    routing.router_lines,
    remove_vlans,
)
