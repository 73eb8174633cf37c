"""EOS' answers in JSON, read into plain values; docs/explanation/sources.md#eos."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from components.fabric.state import Neighbour
from components.fabric.systems.base import (
    CANDIDATE_PREFIX,
    CounterWay,
    Occupied,
    PauseCounters,
    PortCounters,
    PriorityCounters,
    SoftReader,
    Unreadable,
)
from components.fabric.systems.eos.facts import QUEUES
from components.fabric.systems.ranges import port_key

ModelT = TypeVar("ModelT", bound=BaseModel)
SESSIONS: Final = "show configuration sessions detail | json"
WAITING: Final = "pendingCommitTimer"
"""State of a session that is in force and not confirmed, up to release 4.32."""
_UNCOUNTED = re.compile(r"-|n/?a", re.IGNORECASE)


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, defer_build=True)


class _Vlan(_Shape):
    dynamic: bool = False


class _Vlans(_Shape):
    vlans: dict[int, _Vlan]


class _Statuses(_Shape):
    interfaces: dict[str, dict[str, JsonValue]] = Field(alias="interfaceStatuses")


class _ConfigSession(_Shape):
    state: str
    instances: dict[str, JsonValue] = {}
    """Logins that are in it now."""


class _Sessions(_Shape):
    sessions: dict[str, _ConfigSession]
    waiting: str = Field(default="", alias="commitTimerSessionName")
    """The session that is in force and not confirmed, after release 4.32."""


class _Rates(_Shape):
    in_octets: int = Field(alias="inOctets")


class _Discards(_Shape):
    in_discards: int = Field(alias="inDiscards")


class _Totals(_Shape):
    interfaces: dict[str, _Rates]


class _Dropped(_Shape):
    interfaces: dict[str, _Discards]


class _Queue(_Shape):
    enqueued_bytes: int = Field(alias="enqueuedBytes")
    dropped: int | None = Field(default=None, alias="droppedPackets")


class _Class(_Shape):
    precedences: dict[str, _Queue] = Field(alias="dropPrecedences")


class _Unicast(_Shape):
    classes: dict[str, _Class] = Field(alias="trafficClasses")


class _QueuedPort(_Shape):
    unicast: _Unicast = Field(alias="ucastQueues")


class _QueuedPorts(_Shape):
    interfaces: dict[str, _QueuedPort]


class _Queued(_Shape):
    egress: _QueuedPorts = Field(alias="egressQueueCounters")


class _MarkedPort(_Shape):
    queues: dict[str, int | str] = Field(alias="queueCounters")


class _Marked(_Shape):
    ports: dict[str, _MarkedPort] = Field(alias="intfQueueCounters")


class _Pauses(_Shape):
    received: int = Field(alias="rxFrames")
    sent: int = Field(alias="txFrames")


class _PausedPort(_Shape):
    priorities: dict[int, _Pauses]


class _Paused(_Shape):
    interfaces: dict[str, _PausedPort]


class _StuckQueue(_Shape):
    stuck: int = Field(alias="stuckCount")


class _WatchedPort(_Shape):
    queues: dict[int, _StuckQueue] = Field(alias="txQueues")


class _Watched(_Shape):
    interfaces: dict[str, _WatchedPort]


class _FarPort(_Shape):
    name: str = Field(default="", alias="interfaceId_v2")
    quoted: str = Field(default="", alias="interfaceId")
    """The same between quotation marks, in releases that have no other."""
    description: str = Field(default="", alias="interfaceDescription")


class _Heard(_Shape):
    system: str = Field(default="", alias="systemName")
    port: _FarPort = Field(default=_FarPort(), alias="neighborInterfaceInfo")


class _HeardOnPort(_Shape):
    heard: tuple[_Heard, ...] = Field(default=(), alias="lldpNeighborInfo")


class _Lldp(_Shape):
    ports: dict[str, _HeardOnPort] = Field(alias="lldpNeighbors")


def _read(shape: type[ModelT], command: str, text: str) -> ModelT:
    try:
        return shape.model_validate_json(text.strip())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Unreadable(command, text, f"{where}: {first['msg']}".removeprefix(": ")) from error


def parse_vlans(command: str, text: str) -> tuple[int, ...]:
    """`show vlan | json`; those that EOS made for routed ports are not configured."""
    found = _read(_Vlans, command, text).vlans
    return tuple(sorted(vlan for vlan, entry in found.items() if not entry.dynamic))


def parse_port_names(command: str, text: str) -> tuple[str, ...]:
    """`show interfaces status | json`, front panel ports only."""
    found = _read(_Statuses, command, text).interfaces
    return tuple(sorted((name for name in found if name.startswith("Ethernet")), key=port_key))


def parse_links(command: str, text: str) -> dict[str, bool]:
    """The same table: port to whether it has a link (goeapi, `module/interfaces.go`)."""
    found = _read(_Statuses, command, text).interfaces.items()
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
        for name, port in _read(_Lldp, command, text).ports.items()
        for heard in port.heard
    }


def find_stale(text: str) -> tuple[str, ...]:
    """Our sessions of killed runs, in force or not.

    Raises:
        Unreadable: The answer is no list of sessions.
        Occupied: One of ours is in use, or another user's session awaits confirmation:
            when that is taken back, the whole configuration is, with what we changed since.
    """
    found = _read(_Sessions, SESSIONS, text)
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


def parse_total(command: str, text: str, port: str) -> int:
    """Received bytes in `show interfaces X counters | json`."""
    return _of(_read(_Totals, command, text).interfaces, port, command, text).in_octets


def parse_discards(command: str, text: str, port: str) -> int:
    """Received and thrown away, in `show interfaces X counters discards | json`."""
    return _of(_read(_Dropped, command, text).interfaces, port, command, text).in_discards


def parse_sent(command: str, text: str, port: str) -> dict[int, PriorityCounters]:
    """Bytes and drops by class in `show interfaces X counters queue detail | json`."""
    found = _of(_read(_Queued, command, text).egress.interfaces, port, command, text)
    sent = dict.fromkeys(QUEUES, PriorityCounters(None, 0))
    for name, entry in found.unicast.classes.items():
        number = name.removeprefix("TC")
        if number.isdigit() and int(number) in sent:
            queues = entry.precedences.values()
            drops = [each.dropped for each in queues if each.dropped is not None]
            total = sum(each.enqueued_bytes for each in queues)
            sent[int(number)] = PriorityCounters(None, total, sum(drops) if drops else None)
    return sent


def parse_marked(command: str, text: str, port: str) -> int | None:
    """Marked packets in `show qos interfaces X ecn counters queue | json`.

    A port that counts none (`random-detect ecn count`) is not in it, or has a dash: that is not
    known, and no 0.
    """
    found = _read(_Marked, command, text).ports.get(port)
    counts = map(str, found.queues.values() if found else ())
    known = [int(count) for count in counts if not _UNCOUNTED.fullmatch(count)]
    return sum(known) if known else None


def parse_pauses(command: str, text: str, port: str) -> dict[int, PauseCounters]:
    """PFC frames by priority in `show priority-flow-control counters detail | json`.

    Of a port that is not in it, nothing is counted.
    """
    found = _read(_Paused, command, text).interfaces.get(port)
    counted = found.priorities if found else {}
    return {number: PauseCounters(each.received, each.sent) for number, each in counted.items()}


def parse_storms(command: str, text: str, port: str) -> dict[int, int]:
    """Stuck queues in `show priority-flow-control counters watchdog | json`.

    A port is in it from its first one on.
    """
    found = _read(_Watched, command, text).interfaces.get(port)
    stuck = {number: each.stuck for number, each in found.queues.items()} if found else {}
    return {number: stuck.get(number, 0) for number in QUEUES}


def _of(table: dict[str, ModelT], port: str, command: str, text: str) -> ModelT:
    if port not in table:
        raise Unreadable(command, text, f"{port} is not in the answer")
    return table[port]


def port_counters(port: str, answers: Mapping[CounterWay, tuple[str, str]]) -> PortCounters:
    """One port, as far as its answers can be read; received bytes are of all priorities together.

    Args:
        port: Its name.
        answers: The command and its answer, by what they count.
    """
    soft = SoftReader()
    sent = soft.read("tx", lambda: parse_sent(*answers["tx"], port)) or {}
    return PortCounters(
        sent,
        soft.read("marked", lambda: parse_marked(*answers["marked"], port)),
        soft.read("discards", lambda: parse_discards(*answers["discards"], port)),
        rx_bytes=soft.read("rx", lambda: parse_total(*answers["rx"], port)),
        pauses=soft.read("pauses", lambda: parse_pauses(*answers["pauses"], port)) or {},
        storms=soft.read("storms", lambda: parse_storms(*answers["storms"], port)) or {},
        unread=soft.found,
    )
