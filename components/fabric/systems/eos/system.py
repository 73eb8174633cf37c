"""The driver of Arista EOS, and EOS as the rest of the house knows it.

Changes come as a configuration session that is committed with a timer: the switch itself takes it
back unless it is confirmed after the second reading (lab/sources.md#eos).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import AliasPath, BaseModel, Field, JsonValue, TypeAdapter

from components.core.templates import fault_text
from components.fabric.parts import Session, Sessions, why_unread, write_text
from components.fabric.ports import marking_of
from components.fabric.state import BgpState, Neighbour, PortState, SwitchState
from components.fabric.systems import base, switch_system
from components.fabric.systems import rows as table
from components.fabric.systems.base import Answer
from components.fabric.systems.eos import routing, rows
from components.fabric.systems.eos.rows import DEFAULT_CLASSES, ROWS
from components.fabric.systems.ranges import holders_of, others_of, port_key
from components.model.fabric import Rdma
from components.model.switch_models import LinkSettings

SESSIONS: Final = "show configuration sessions detail | json"
SUMMARY: Final = "show ip bgp summary | json"
BFD: Final = "show bfd peers | json"
ROUTES: Final = "show ip route | json"
WAITING: Final = "pendingCommitTimer"
"""State of an unconfirmed session in force, before release 4.32."""
_WAITING: Final = re.compile(r'"commitTimerSessionName": *"([^"]+)"')
"""A session that awaits confirmation, from release 4.32 on."""
COUNTERS: Final[Mapping[base.CounterWay, str]] = {
    "rx": "show interfaces {port} counters | json",
    "discards": "show interfaces {port} counters discards | json",
    "errors": "show interfaces {port} counters errors | json",
    "tx": "show interfaces {port} counters queue detail | json",
    "marked": "show qos interfaces {port} ecn counters queue | json",
    "pauses": "show priority-flow-control counters detail | json",
    "storms": "show priority-flow-control counters watchdog | json",
}
"""The last two cover all ports."""
_CLASS_NAME: Final = re.compile(r"TC(\d)(?:-(\d))?")
_ON_PORT: Final = re.compile(r"^fe80:[0-9a-f:]*%(?:Et|Ethernet)(\S+)$", re.IGNORECASE)
"""A neighbour of BGP on a port, which is in the answer only once it was heard."""
_FAR: Final = "neighborInterfaceInfo"
_INT: Final = TypeAdapter(int)
_NUMBERED: Final = TypeAdapter(dict[int, dict[str, JsonValue]])
_ENTRY: Final = TypeAdapter(dict[str, JsonValue])
VLANS: Final = "show vlan | json"
STATUS: Final = "show interfaces status | json"
INTERFACES: Final = "show running-config sanitized | section ^interface"
"""`sanitized` keeps the keys of routing protocols out of our error messages."""
MAPS: Final = "show running-config sanitized | include ^qos"
NEIGHBOURS: Final = "show lldp neighbors detail | json"
_REFUSAL = re.compile(r"^\r?((?:%|Error|Cannot|Unable to).*)", re.MULTILINE)
"""EOS prints `% ` before an error; the other words are a precaution."""
_NO_PORT: Final = re.compile(r"(?:Vlan|Loopback|Management|Vxlan)\d+")
"""Interfaces that cannot be ports of a bridge."""
_STEPS: Final[tuple[table.Step, ...]] = (
    table.add_vlans,
    lambda was, now: ((line,) for line in table.write_rows(rows.MAP_ROWS, was, now)),
    routing.leaving_lines,
    # A block for each port: how a range of split ports is written differs between platforms.
    lambda was, now: (
        (f"interface {name}", *lines, "exit")
        for name, port in now.ports.items()
        if (lines := [*rows.port_lines(was.ports[name], port)])
    ),
    routing.coming_lines,
    routing.forwarding_lines,
    routing.router_lines,
    table.remove_vlans,
)
_OLD_LANE: Final = 25
"""The fastest lane speed that can be written without a number of lanes."""


class _Heard(BaseModel):
    system: str = Field(default="", alias="systemName")
    port: str = Field(default="", validation_alias=AliasPath(_FAR, "interfaceId_v2"))
    quoted: str = Field(default="", validation_alias=AliasPath(_FAR, "interfaceId"))
    """The name in quotation marks; older releases print only this one."""
    about: str = Field(default="", validation_alias=AliasPath(_FAR, "interfaceDescription"))


class _ConfigSession(BaseModel):
    state: str
    instances: dict[str, JsonValue] = {}
    """The logins in the session now."""


class _Queue(BaseModel):
    sent: int | None = Field(default=None, alias="enqueuedBytes")
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


def parse_vlans(answer: Answer) -> tuple[int, ...]:
    """The VLANs; those that EOS made for routed ports are not configured."""
    found = answer.find(_NUMBERED, "vlans")
    return tuple(sorted(vlan for vlan, entry in found.items() if not entry.get("dynamic")))


def parse_ports(answer: Answer) -> dict[str, object]:
    """Front panel ports by number, to the word for their link (goeapi, `interfaces.go`)."""
    found = dict(answer.each(_ENTRY, "interfaceStatuses", "*"))
    ports = sorted((name for name in found if name.startswith("Ethernet")), key=port_key)
    return {name: found[name].get("linkStatus") for name in ports}


def parse_neighbours(answer: Answer) -> dict[str, Neighbour]:
    """What LLDP heard; of several on one port the last one is taken."""
    found = answer.each(TypeAdapter(_Heard), "lldpNeighbors", "*", "lldpNeighborInfo", "*")
    return {
        name: Neighbour(system=x.system, port=x.port or x.quoted.strip('"'), description=x.about)
        for name, x in found
    }


def find_stale(text: str) -> tuple[str, ...]:
    """Our sessions of killed runs, in force or not; Unreadable if it is no list of sessions.

    Occupied: our session is in use, or another user's session awaits confirmation: if the switch
    takes that back, it takes back our later changes too.
    """
    stale: list[str] = []
    waiting = _WAITING.findall(text)
    for name, session in Answer(SESSIONS, text).each(TypeAdapter(_ConfigSession), "sessions", "*"):
        waits = session.state == WAITING or name in waiting
        is_ours = name.startswith(base.CANDIDATE_PREFIX)
        end = f"wait for it, or end it with `configure session {name} abort`"
        if waits and not is_ours:
            why = "awaits confirmation and is not Railyard's"
            raise base.Occupied(f"the configuration session {name} {why}; {end}")
        if is_ours and session.instances:
            raise base.Occupied(f"another run is in the configuration session {name}; {end}")
        if is_ours and (waits or session.state == "pending"):
            stale.append(name)
    return tuple(stale)


def parse_sent(answer: Answer) -> dict[int, base.PriorityCounters]:
    """Bytes and drops by class of a port."""
    table = ("egressQueueCounters", "interfaces", answer.port, "ucastQueues", "trafficClasses")
    sent = dict.fromkeys(rows.QUEUES, base.PriorityCounters(None, 0))
    for name, entry in answer.find(TypeAdapter(dict[str, _Class]), *table).items():
        if not (found := _CLASS_NAME.fullmatch(name)):
            continue
        first, last = int(found[1]), int(found[2] or found[1])
        queues = [*entry.precedences.values()]
        counts = [each.sent for each in queues if each.sent is not None]
        drops = [each.dropped for each in queues if each.dropped is not None]
        # `TC0-2` counts several classes together, so none of their numbers is known.
        known = first == last
        total = sum(counts) if known and len(counts) == len(queues) else None
        one = base.PriorityCounters(None, total, sum(drops) if known and drops else None)
        sent |= {number: one for number in rows.QUEUES if first <= number <= last}
    return sent


def parse_marked(answer: Answer) -> int | None:
    """Marked packets of a port; None: a port without `random-detect ecn count` counts none."""
    path = ("intfQueueCounters", answer.port, "queueCounters", "*")
    counts = answer.each(TypeAdapter[int | str](int | str), *path)
    known = [each for _, each in counts if not re.fullmatch(r"-|[nN]/?[aA]", str(each))]
    return sum(answer.typed(_INT, each) for each in known) if known else None


def parse_pauses(answer: Answer) -> dict[int, base.PauseCounters]:
    """PFC frames by priority; empty if the answer lacks the port."""
    tables = answer.each(TypeAdapter(dict[int, _Pauses]), "interfaces", answer.port, "priorities")
    return {n: base.PauseCounters(x.rx, x.tx) for _, table in tables for n, x in table.items()}


def parse_storms(answer: Answer) -> dict[int, int]:
    """Stuck queues; the answer names a port only after its first one."""
    kind = TypeAdapter(dict[int, dict[str, int]])
    tables = answer.each(kind, "interfaces", answer.port, "txQueues")
    counts = {n: each.get("stuckCount", 0) for _, table in tables for n, each in table.items()}
    return dict.fromkeys(rows.QUEUES, 0) | counts


def parse_errors(answer: Answer) -> dict[str, int]:
    """Broken frames that a port received; overlong ones do not count, as no cable causes them."""
    path = ("interfaceErrorCounters", answer.port)
    return {kind: answer.find(_INT, *path, kind) for kind in ("fcsErrors", "symbolErrors")}


def port_counters(port: str, answers: Mapping[str, str]) -> base.PortCounters:
    """One port, as far as its answers can be read; received bytes are those of all priorities."""
    soft = base.SoftReader()
    commands = {way: command.format(port=port) for way, command in COUNTERS.items()}
    ask = {way: Answer(command, answers[command], port) for way, command in commands.items()}
    sent = soft.read("tx", lambda: parse_sent(ask["tx"])) or {}
    if any(each.tx_bytes is None for each in sent.values()):
        why = "it does not have the bytes of each class"
        soft.unread.append(base.Unread("tx", commands["tx"], ask["tx"].text, why))
    return base.PortCounters(
        sent,
        soft.read("marked", lambda: parse_marked(ask["marked"])),
        soft.read("discards", lambda: ask["discards"].find(_INT, "interfaces", port, "inDiscards")),
        rx_bytes=soft.read("rx", lambda: ask["rx"].find(_INT, "interfaces", port, "inOctets")),
        pauses=soft.read("pauses", lambda: parse_pauses(ask["pauses"])) or {},
        storms=soft.read("storms", lambda: parse_storms(ask["storms"])) or {},
        errors=soft.read("errors", lambda: parse_errors(ask["errors"])) or {},
        unread=soft.found,
    )


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """Neighbours of BGP by port or address, with BFD and routes, or why those are not known."""
    found: dict[str, Session] = {}
    summary = Answer(SUMMARY, answers[SUMMARY])
    for address, peer in summary.each(TypeAdapter(_Peer), "vrfs", "default", "peers", "*"):
        name = f"Ethernet{port[1]}" if (port := _ON_PORT.match(address)) else address
        found[name] = Session(state=peer.state, networks=peer.networks)
    read, unread = dict[str, dict[str, Any]](), dict[str, str]()
    for command, parse in ((BFD, _bfd_states), (ROUTES, _routes)):
        try:
            if command in answers:
                read[command] = parse(Answer(command, answers[command]))
        except base.Unreadable:
            unread[command] = why_unread(answers[command])
    if BFD in read:
        states = {name: {"bfd": read[BFD].get(name, "down")} for name in found}
        found = {name: each.model_copy(update=states[name]) for name, each in found.items()}
    return Sessions(
        neighbors=found,
        bfd_unread=unread.get(BFD, ""),
        routes=read.get(ROUTES),
        routes_unread=unread.get(ROUTES, ""),
    )


def _routes(answer: Answer) -> dict[str, tuple[str, ...]]:
    """Ports of next hops by network; we do not know a form of a way without a port."""
    found = answer.each(TypeAdapter(_Route), "vrfs", "default", "routes", "*")
    return {network: tuple(sorted({via.interface for via in each.vias})) for network, each in found}


def _bfd_states(answer: Answer) -> dict[str, str]:
    found: dict[str, str] = {}
    for family in ("ipv4Neighbors", "ipv6Neighbors"):
        for address, held in answer.each(_ENTRY, "vrfs", "default", family, "*"):
            for port, status in _statuses(held, ""):
                name = f"Ethernet{re.sub('^(Ethernet|Et)', '', port)}" if port else address
                found |= {address: status, name: status}
    return found


def _statuses(held: JsonValue, port: str) -> Iterator[tuple[str, str]]:
    """Port and state of each session of an address.

    Releases differ in the levels between the address and the session (`peerStats`, or `peers` by
    port and `types`): each has `status` and, on one hop, `l3intf`.
    """
    table = held if isinstance(held, dict) else {}
    if isinstance(status := table.get("status"), str):
        yield str(table.get("l3intf") or port), status
        return
    for key, inner in table.items():
        yield from _statuses(inner, key if key.startswith("Et") else port)


def _read_commands(wanted: SwitchState) -> tuple[str, ...]:
    asks_maps = any(port.ecn or port.strict_classes for port in wanted.ports.values())
    asks_maps |= wanted.dscp_classes is not None or wanted.rewrite_dscp is not None
    is_routed = wanted.addresses is not None or wanted.bgp is not None
    routes = (routing.ROUTING, routing.ROUTER) if is_routed else ()
    return (VLANS, INTERFACES, *((MAPS,) if asks_maps else ()), *routes)


def _parse(answers: Mapping[str, str], wanted: SwitchState) -> base.Reading:
    parts: dict[str, Any] = {}
    with Answer(INTERFACES, answers[INTERFACES]).reading():
        sections = rows.parse_sections(INTERFACES, answers[INTERFACES])
    if routing.ROUTER in answers:
        plain, router = answers[routing.ROUTING], answers[routing.ROUTER]
        with Answer(routing.ROUTER, router).reading():
            parts |= routing.parse_routing(sections, plain, router)
    if MAPS in answers:
        with Answer(MAPS, answers[MAPS]).reading():
            maps = table.take_lines(rows.MAP_ROWS, map(str.strip, answers[MAPS].splitlines()))
        queues, asked = maps.get("class_queues", {}), wanted.dscp_classes
        classes = rows.DEFAULT_CLASSES | maps.get("dscp_classes", {})
        used = (each for p in wanted.ports.values() for each in (*p.ecn, *(p.strict_classes or ())))
        for tc in (each for each in used if each and queues.get(each, each) != each):
            why = fault_text(__file__, "moved-class", tc=tc, queue=queues[tc])
            raise base.Unreadable(MAPS, answers[MAPS], why)
        if asked is not None:
            parts["dscp_classes"] = {dscp: classes[dscp] for dscp in asked}
        if wanted.rewrite_dscp is not None:
            parts["rewrite_dscp"] = "rewrite_dscp" in maps
    state = SwitchState(
        vlans=parse_vlans(Answer(VLANS, answers[VLANS])),
        **parts,
        ports={
            name: rows.read_port(sections[name], port)
            for name, port in wanted.ports.items()
            if name in sections and not sections[name].values["is_odd"]
        },
    )
    rest = {name: each for name, each in sections.items() if name not in wanted.ports}
    named = {name: section.named_vlans(name) for name, section in rest.items()}
    carrying = {n: rows.read_port(x, PortState()) for n, x in rest.items() if not _NO_PORT.match(n)}
    return base.Reading(state, holders_of(named), others_of(carrying))


def _plan_changes(actual: SwitchState, target: SwitchState) -> tuple[base.Change, ...]:
    missing = [name for name in target.ports if name not in actual.ports]
    if missing:
        raise base.Unsettable(fault_text(__file__, "not-plain", ports=", ".join(missing)))
    return table.write_steps(_STEPS, actual, target)


def _factory_state(ports: Sequence[str]) -> SwitchState:
    """VLAN 1 on access ports, which are up; trust CoS, no ECN, no PFC, every queue strict."""
    port = rows.read_port(rows.Section(), PortState()).model_copy(update={"ecn": {}})
    return SwitchState(
        vlans=(rows.FACTORY_VLAN,),
        dscp_classes=rows.DEFAULT_CLASSES,
        addresses={},
        bgp=BgpState(),
        native={routing.WORDS: write_text((routing.MODEL,))},
        ports=dict.fromkeys(ports, port),
    )


def _counters(ports: Sequence[str]) -> base.Question[dict[str, base.PortCounters]]:
    of_port = [each for each in COUNTERS.values() if "{port}" in each]
    of_all = [each for each in COUNTERS.values() if each not in of_port]
    return base.Question(
        (*(each.format(port=port) for port in ports for each in of_port), *of_all),
        lambda answers: {port: port_counters(port, answers) for port in ports},
    )


def plan_intent(rdma: Rdma) -> tuple[SwitchState, PortState]:
    """Every setting is set separately, PFC by port."""
    lossless = rdma.mode == "lossless"
    return (
        # Anybody can change the map from DSCP to class, so we watch our DSCPs.
        SwitchState(dscp_classes={rdma.dscp: rdma.traffic_class, rdma.cnp_dscp: rdma.cnp_priority}),
        PortState(
            trust="L3",
            ecn={rdma.traffic_class: marking_of(rdma, "eos")},
            pfc=True if lossless else None,
            pfc_priorities=(rdma.priority,) if lossless else None,
            strict_classes=(rdma.cnp_priority,),
        ),
    )


def _link_words(wish: LinkSettings, lanes: int | None) -> dict[str, str]:
    """`400g-4`, or `auto 400g-4`; that one lane of 25 Gbit/s is just `25g` is a guess."""
    words = {"fec": str(wish.fec)} if wish.fec else {}
    speed = wish.speed_gbit_s
    if speed is None or lanes is None:
        return words
    said = f"{speed}g-{lanes}" if lanes > 1 or speed > _OLD_LANE else f"{speed}g"
    return {**words, "speed": f"auto {said}" if wish.autoneg else said}


SYSTEM: Final = switch_system.SwitchSystem(
    **switch_system.load_facts("eos", guard={"list_command": SESSIONS, "find_stale": find_stale}),
    read_commands=_read_commands,
    parse=_parse,
    plan_changes=_plan_changes,
    find_refusal=base.refusals(_REFUSAL),
    factory_state=_factory_state,
    ports=base.ask_once(STATUS, lambda answer: tuple(parse_ports(answer))),
    neighbours=base.ask_once(NEIGHBOURS, parse_neighbours),
    link_states=base.ask_once(
        STATUS,
        lambda a: {
            n: word == "connected" for n, word in parse_ports(a).items() if word is not None
        },
    ),
    sessions=(
        base.Question((SUMMARY, ROUTES), parse_sessions),
        base.Question((SUMMARY, ROUTES, BFD), parse_sessions),
    ),
    counters=_counters,
    intent=plan_intent,
    rows=dict.fromkeys((row.name for row in ROWS), (4, 28, 0)),
    links=switch_system.LinkForm(_link_words, by_lanes=True),
    class_of_dscp=DEFAULT_CLASSES.__getitem__,
)
