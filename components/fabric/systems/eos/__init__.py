"""Arista EOS: its JSON output, read into plain values; lab/sources.md#eos."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import AliasPath, BaseModel, Field, JsonValue, TypeAdapter

from components.fabric.parts import Session, Sessions, why_unread
from components.fabric.state import Neighbour
from components.fabric.systems import base
from components.fabric.systems.base import Answer
from components.fabric.systems.ranges import port_key

QUEUES: Final = range(8)
"""Unicast transmit queues of a port; traffic class n is in queue n."""
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


_INT: Final = TypeAdapter(int)
_NUMBERED: Final = TypeAdapter(dict[int, dict[str, JsonValue]])
_ENTRY: Final = TypeAdapter(dict[str, JsonValue])


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
        name: Neighbour(
            system=each.system, port=each.port or each.quoted.strip('"'), description=each.about
        )
        for name, each in found
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
            raise base.Occupied(
                f"the configuration session {name} awaits confirmation and is not Railyard's; {end}"
            )
        if is_ours and session.instances:
            raise base.Occupied(f"another run is in the configuration session {name}; {end}")
        if is_ours and (waits or session.state == "pending"):
            stale.append(name)
    return tuple(stale)


def parse_sent(answer: Answer) -> dict[int, base.PriorityCounters]:
    """Bytes and drops by class of a port."""
    table = ("egressQueueCounters", "interfaces", answer.port, "ucastQueues", "trafficClasses")
    sent = dict.fromkeys(QUEUES, base.PriorityCounters(None, 0))
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
        sent |= {number: one for number in QUEUES if first <= number <= last}
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
    return {
        n: base.PauseCounters(each.rx, each.tx) for _, table in tables for n, each in table.items()
    }


def parse_storms(answer: Answer) -> dict[int, int]:
    """Stuck queues; the answer names a port only after its first one."""
    kind = TypeAdapter(dict[int, dict[str, int]])
    tables = answer.each(kind, "interfaces", answer.port, "txQueues")
    counts = {n: each.get("stuckCount", 0) for _, table in tables for n, each in table.items()}
    return dict.fromkeys(QUEUES, 0) | counts


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
