"""EOS' answers, read into plain values; docs/explanation/sources.md#eos.

A neighbour of BGP on a port is named by its link-local address and the port, `fe80::1%Et49/1`, and
is in the answer only once it was heard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from components.fabric.parts import Session, Sessions, why_unread
from components.fabric.state import Neighbour
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import (
    CANDIDATE_PREFIX,
    CounterWay,
    Occupied,
    PauseCounters,
    PortCounters,
    PriorityCounters,
    SoftReader,
    Unread,
    Unreadable,
)
from components.fabric.systems.eos.facts import QUEUES
from components.fabric.systems.ranges import port_key

ValueT = TypeVar("ValueT")
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
_INT: Final = TypeAdapter(int)
_TABLE: Final = TypeAdapter(dict[str, dict[str, JsonValue]])
_NUMBERED: Final = TypeAdapter(dict[int, dict[str, JsonValue]])
_COUNTS: Final = TypeAdapter(dict[str, int | str])
_BY_NUMBER: Final = TypeAdapter(dict[int, dict[str, int]])
_UNCOUNTED: Final = re.compile(r"-|n/?a", re.IGNORECASE)
_CLASS_NAME: Final = re.compile(r"TC(\d)(?:-(\d))?")
_ON_PORT: Final = re.compile(r"^fe80:[0-9a-f:]*%(?:Et|Ethernet)(\S+)$", re.IGNORECASE)


class _Queue(BaseModel):
    enqueued_bytes: int | None = Field(default=None, alias="enqueuedBytes")
    """No recording has this name: it is assumed, and without it the bytes are not known."""
    dropped: int | None = Field(default=None, alias="droppedPackets")


class _Class(BaseModel):
    precedences: dict[str, _Queue] = Field(alias="dropPrecedences")


_CLASSES: Final = TypeAdapter(dict[str, _Class])


class _FarPort(BaseModel):
    name: str = Field(default="", alias="interfaceId_v2")
    quoted: str = Field(default="", alias="interfaceId")
    """The same between quotation marks, in releases that have no other."""
    description: str = Field(default="", alias="interfaceDescription")


class _Heard(BaseModel):
    system: str = Field(default="", alias="systemName")
    port: _FarPort = Field(default=_FarPort(), alias="neighborInterfaceInfo")


class _HeardOnPort(BaseModel):
    heard: tuple[_Heard, ...] = Field(default=(), alias="lldpNeighborInfo")


_LLDP: Final = TypeAdapter(dict[str, _HeardOnPort])


class _ConfigSession(BaseModel):
    state: str
    instances: dict[str, JsonValue] = {}
    """Logins that are in it now."""


class _ConfigSessions(BaseModel):
    sessions: dict[str, _ConfigSession]
    waiting: str = Field(default="", alias="commitTimerSessionName")
    """The session that is in force and not confirmed, from release 4.32 on."""


def _find(kind: TypeAdapter[ValueT], command: str, text: str, *path: str) -> ValueT:
    """The value at a path of a JSON answer."""
    return Answer(command, text).find(kind, *path)


def _of_port(
    kind: TypeAdapter[ValueT], command: str, text: str, path: tuple[str, str, str]
) -> ValueT | None:
    """The value at a path of a table, a port and a key; None if only the port is missing."""
    table, port, key = path
    found = _find(_TABLE, command, text, table).get(port, {}).get(key)
    return None if found is None else Answer(command, text).typed(kind, found)


def parse_vlans(command: str, text: str) -> tuple[int, ...]:
    """`show vlan | json`; those that EOS made for routed ports are not configured."""
    found = _find(_NUMBERED, command, text, "vlans")
    return tuple(sorted(vlan for vlan, entry in found.items() if not entry.get("dynamic")))


def parse_port_names(command: str, text: str) -> tuple[str, ...]:
    """`show interfaces status | json`, front panel ports only."""
    found = _find(_TABLE, command, text, "interfaceStatuses")
    return tuple(sorted((name for name in found if name.startswith("Ethernet")), key=port_key))


def parse_links(command: str, text: str) -> dict[str, bool]:
    """The same table: port to whether it has a link (goeapi, `module/interfaces.go`)."""
    found = _find(_TABLE, command, text, "interfaceStatuses").items()
    return {
        name: port["linkStatus"] == "connected"
        for name, port in found
        if name.startswith("Ethernet") and "linkStatus" in port
    }


def parse_neighbours(command: str, text: str) -> dict[str, Neighbour]:
    """`show lldp neighbors detail | json`; of several on one port the last one is taken."""
    return {
        name: Neighbour(
            system=heard.system,
            port=heard.port.name or heard.port.quoted.strip('"'),
            description=heard.port.description,
        )
        for name, port in _find(_LLDP, command, text, "lldpNeighbors").items()
        for heard in port.heard
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
        if not name.startswith(CANDIDATE_PREFIX):
            if waits:
                raise Occupied(
                    f"the configuration session {name} awaits confirmation and is not Railyard's; "
                    f"wait for it, or end it with `configure session {name} abort`"
                )
            continue
        if session.instances:
            raise Occupied(
                f"another run is in the configuration session {name}; wait for it, or end it "
                f"with `configure session {name} abort`"
            )
        if waits or session.state == "pending":
            stale.append(name)
    return tuple(stale)


def parse_sent(command: str, text: str, port: str) -> dict[int, PriorityCounters]:
    """Bytes and drops by class in `show interfaces X counters queue detail | json`."""
    path = ("egressQueueCounters", "interfaces", port, "ucastQueues", "trafficClasses")
    sent = dict.fromkeys(QUEUES, PriorityCounters(None, 0))
    for name, entry in _find(_CLASSES, command, text, *path).items():
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


def parse_marked(command: str, text: str, port: str) -> int | None:
    """Marked packets in `show qos interfaces X ecn counters queue | json`.

    A port without `random-detect ecn count` is not in it, or has a dash: then the number is not
    known, which is not 0.
    """
    found = _of_port(_COUNTS, command, text, ("intfQueueCounters", port, "queueCounters"))
    counts = map(str, (found or {}).values())
    known = [int(count) for count in counts if not _UNCOUNTED.fullmatch(count)]
    return sum(known) if known else None


def parse_pauses(command: str, text: str, port: str) -> dict[int, PauseCounters]:
    """PFC frames by priority in `show priority-flow-control counters detail | json`.

    Of a port that is not in it, nothing is counted.
    """
    found = _of_port(_BY_NUMBER, command, text, ("interfaces", port, "priorities")) or {}
    try:
        return {
            number: PauseCounters(each["rxFrames"], each["txFrames"])
            for number, each in found.items()
        }
    except KeyError as error:
        raise Unreadable(command, text, f"{error.args[0]} is not in the answer") from error


def parse_storms(command: str, text: str, port: str) -> dict[int, int]:
    """Stuck queues in `show priority-flow-control counters watchdog | json`.

    A port is in it from its first one on.
    """
    found = _of_port(_BY_NUMBER, command, text, ("interfaces", port, "txQueues")) or {}
    return {number: found.get(number, {}).get("stuckCount", 0) for number in QUEUES}


def counter_commands(ports: Sequence[str]) -> tuple[str, ...]:
    """What to ask for the counters of some ports; each command once."""
    each = (template.format(port=port) for port in ports for template in COUNTERS.values())
    commands = [*dict.fromkeys(each)]
    shared = [command for command in commands if command in COUNTERS.values()]
    return (*(command for command in commands if command not in shared), *shared)


def port_counters(port: str, answers: Mapping[str, str]) -> PortCounters:
    """One port, as far as its answers can be read; received bytes are of all priorities together.

    Args:
        port: Its name.
        answers: The answer to each of `counter_commands`.
    """
    soft = SoftReader()
    rx, discards, tx, marked, pauses, storms = (
        (command := template.format(port=port), answers[command]) for template in COUNTERS.values()
    )
    sent = soft.read("tx", lambda: parse_sent(*tx, port)) or {}
    if any(each.tx_bytes is None for each in sent.values()):
        soft.unread.append(Unread("tx", *tx, "it does not have the bytes of each class"))
    return PortCounters(
        sent,
        soft.read("marked", lambda: parse_marked(*marked, port)),
        soft.read("discards", lambda: _find(_INT, *discards, "interfaces", port, "inDiscards")),
        rx_bytes=soft.read("rx", lambda: _find(_INT, *rx, "interfaces", port, "inOctets")),
        pauses=soft.read("pauses", lambda: parse_pauses(*pauses, port)) or {},
        storms=soft.read("storms", lambda: parse_storms(*storms, port)) or {},
        unread=soft.found,
    )


class _Peer(BaseModel):
    state: str = Field(alias="peerState")
    networks: int | None = Field(default=None, alias="prefixReceived")


class _Vrf(BaseModel):
    peers: dict[str, _Peer] = {}


class _Summary(BaseModel):
    vrfs: dict[str, _Vrf]


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """Neighbours by port or address.

    Raises:
        Unreadable: The summary has another form; of BFD, that it alone is not known.
    """
    text = answers[SUMMARY]
    try:
        vrf = _Summary.model_validate_json(text).vrfs.get("default", _Vrf())
    except ValidationError as error:
        raise Unreadable(SUMMARY, text, "it is no summary of BGP") from error
    found = {
        _name(address): Session(state=peer.state, networks=peer.networks)
        for address, peer in vrf.peers.items()
    }
    sessions = _with_bfd(found, answers[BFD]) if BFD in answers else Sessions(neighbors=found)
    return _with_routes(sessions, answers[ROUTES])


def _name(address: str) -> str:
    on_port = _ON_PORT.match(address)
    return f"Ethernet{on_port[1]}" if on_port else address


class _Via(BaseModel):
    interface: str


class _Route(BaseModel):
    vias: list[_Via] = []


class _Table(BaseModel):
    routes: dict[str, _Route] = {}


class _Tables(BaseModel):
    vrfs: dict[str, _Table]


def _with_routes(sessions: Sessions, text: str) -> Sessions:
    """The same with the ports of all next hops; a way without a port is no form that we know."""
    try:
        table = _Tables.model_validate_json(text).vrfs.get("default", _Table())
    except ValidationError:
        return sessions.model_copy(update={"routes_unread": why_unread(text)})
    routes = {
        network: tuple(sorted({via.interface for via in route.vias}))
        for network, route in table.routes.items()
    }
    return sessions.model_copy(update={"routes": routes})


class _BfdPeers(BaseModel):
    vrfs: dict[str, dict[str, Any]]


def _with_bfd(sessions: dict[str, Session], text: str) -> Sessions:
    try:
        vrf = _BfdPeers.model_validate_json(text).vrfs.get("default", {})
    except ValidationError:
        return Sessions(neighbors=sessions, bfd_unread=" ".join(text.split()) or "no answer")
    families = (vrf.get(family, {}) for family in ("ipv4Neighbors", "ipv6Neighbors"))
    states = {
        name: status
        for family in families
        for address, held in cast("dict[str, object]", family).items()
        for port, status in _statuses(held)
        for name in (address, f"Ethernet{re.sub('^(Ethernet|Et)', '', port)}" if port else address)
    }
    return Sessions(
        neighbors={
            name: session.model_copy(update={"bfd": states.get(name, "down")})
            for name, session in sessions.items()
        }
    )


def _statuses(held: object, port: str = "") -> Iterator[tuple[str, str]]:
    """Port and state of each session of an address.

    Releases differ in what is between the address and the session (`peerStats`, or `peers` by
    port and `types`): each has `status` and, on one hop, `l3intf`.
    """
    if not isinstance(held, dict):
        return
    table = cast("dict[str, object]", held)
    status = table.get("status")
    if isinstance(status, str):
        yield str(table.get("l3intf") or port), status
        return
    for key, inner in table.items():
        yield from _statuses(inner, key if key.startswith("Et") else port)
