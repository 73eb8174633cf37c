"""Counters of every hop, read before and after a probe, and what they grew by."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from components.acceptance.evidence import Hop, HopRole, RoutingSeen, as_routing, diff_counters
from components.acceptance.plan import ADAPTERS, CounterSource, HopPlan
from components.core.beside import LostWay
from components.core.errors import DeviceError
from components.fabric.cabling import find_lost
from components.fabric.device import read_counted, read_counters
from components.fabric.systems.base import CounterWay, PortCounters, Unread
from components.remote.host_session import run_on_host

READ_DEADLINE_S: Final = 20.0
_ETHTOOL: Final = re.compile(r"^\s*([a-z0-9_]+): (\d+)\s*$", re.MULTILINE)

_READ: Final = """echo '=== {name}'
sudo -n ethtool -S {name}
for file in /sys/class/net/{name}/device/infiniband/*/ports/1/hw_counters/out_of_sequence; do
  if [ -r "$file" ]; then echo "out_of_sequence: $(cat "$file")"; fi
done
"""
"""`out_of_sequence` is an RDMA hardware counter; ethtool does not show it."""

READ_ADAPTERS: Final = """for device in /sys/class/infiniband/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  case $(cat "$port/state") in 4:*) ;; *) continue ;; esac
  echo "=== ${device##*/}"
  for name in port_xmit_data port_rcv_data port_rcv_errors port_xmit_discards; do
    echo "$name: $(cat "$port/counters/$name")"
  done
  echo "out_of_sequence: $(cat "$port/hw_counters/out_of_sequence" 2>/dev/null || echo 0)"
done
"""
_DATA_UNIT_BYTES: Final = 4
"""`port_xmit_data` and `port_rcv_data` count words of four bytes (InfiniBand's PortCounters)."""

Counters = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters of all devices at one time."""

    counters: Mapping[tuple[str, str], Counters]
    """(device, interface) to counter name to value."""
    unreachable: Mapping[str, str] = field(default_factory=dict[str, str])
    """Device to why it could not be read."""
    unread: Mapping[tuple[str, str], tuple[Unread, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Unread, ...]]
    )
    """(device, interface) to the answers that are of an unknown form."""
    lost: Mapping[str, tuple[LostWay, ...]] = field(default_factory=dict[str, tuple[LostWay, ...]])
    """Switch to its routed links that carry no routes."""


async def read_snapshot(sources: Sequence[CounterSource], secrets: Mapping[str, str]) -> Snapshot:
    """Read every device once, together; one that fails does not hide the others."""
    answers = await asyncio.gather(
        *(_read(source, secrets) for source in sources), return_exceptions=True
    )
    counters: dict[tuple[str, str], Counters] = {}
    unreachable: dict[str, str] = {}
    unread: dict[tuple[str, str], tuple[Unread, ...]] = {}
    lost: dict[str, tuple[LostWay, ...]] = {}
    for source, answer in zip(sources, answers, strict=True):
        device = source.endpoint.device
        if isinstance(answer, DeviceError):
            unreachable[device] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found, lost[device] = answer
            counters |= {(device, name): each.counted for name, each in found.items()}
            unread |= {(device, name): each.unread for name, each in found.items() if each.unread}
    return Snapshot(counters, unreachable, unread, lost)


@dataclass(frozen=True, slots=True)
class _Interface:
    """What one interface counted, and what of it could not be read."""

    counted: Counters
    unread: tuple[Unread, ...] = ()


_Read = tuple[Mapping[str, _Interface], tuple[LostWay, ...]]


async def _read(source: CounterSource, secrets: Mapping[str, str]) -> _Read:
    endpoint = source.endpoint
    on_fabric = source.os == "infiniband"
    if source.os != "linux" and not on_fabric:
        ports, lost = await asyncio.to_thread(_read_switch, source, secrets)
        counted = {n: _Interface(flatten_port(port), port.unread) for n, port in ports.items()}
        return counted, lost
    each = (_READ.format(name=name) for name in source.interfaces)
    command = READ_ADAPTERS if on_fabric else "".join(each)
    answer = await run_on_host(endpoint, secrets, command, deadline_s=READ_DEADLINE_S)
    found = parse_ethtool(answer.stdout, source)
    return {name: _Interface(counted) for name, counted in found.items()}, ()


def _read_switch(
    source: CounterSource, secrets: Mapping[str, str]
) -> tuple[Mapping[str, PortCounters], tuple[LostWay, ...]]:
    """A switch's counters, and its routed links where it has any, over one connection."""
    asked = (source.endpoint, source.os, source.interfaces, secrets)
    if source.links is None:
        return read_counters(*asked), ()
    ports, sessions = read_counted(*asked, bfd=bool(source.links.bfd))
    return ports, find_lost(source.links, sessions)


def flatten_port(port: PortCounters) -> dict[str, int]:
    """A switch port's counters by name: received by priority, sent by traffic class.

    What a system does not count, or in a form that its driver does not know, is left out.
    """
    flat: dict[str, int] = {}
    if port.rx_discards is not None:
        flat["rx_discards"] = port.rx_discards
    if port.ecn_marked is not None:
        flat["ecn_marked"] = port.ecn_marked
    if port.rx_bytes is not None:
        flat["rx_bytes"] = port.rx_bytes
    for number, counted in port.by_priority.items():
        if counted.rx_bytes is not None:
            flat[f"rx_prio{number}_bytes"] = counted.rx_bytes
        if counted.tx_bytes is not None:
            flat[f"tx_tc{number}_bytes"] = counted.tx_bytes
        if counted.tx_drops is not None:
            flat[f"tx_tc{number}_drops"] = counted.tx_drops
    return flat | _flatten_pauses(port)


def _flatten_pauses(port: PortCounters) -> dict[str, int]:
    """PFC frames as ethtool (mlx5) names them, and stuck queues."""
    received = {f"rx_prio{number}_pause": each.received for number, each in port.pauses.items()}
    sent = {f"tx_prio{number}_pause": each.sent for number, each in port.pauses.items()}
    return received | sent | {f"tx_tc{number}_storms": n for number, n in port.storms.items()}


def parse_ethtool(text: str, source: CounterSource) -> dict[str, Counters]:
    """Split the answers of `ethtool -S` by interface.

    Raises:
        DeviceError: An interface is missing or printed no counter.
    """
    found: dict[str, Counters] = {}
    for block in text.split("=== ")[1:]:
        name, _, body = block.partition("\n")
        found[name.strip()] = {key: int(value) for key, value in _ETHTOOL.findall(body)}
    if source.os == "infiniband":
        if not found:
            raise DeviceError(f"{source.endpoint.where}: no active InfiniBand adapter")
        return found
    lacking = [name for name in source.interfaces if not found.get(name)]
    if lacking:
        raise DeviceError(f"{source.endpoint.where}: `ethtool -S {lacking[0]}` printed no counters")
    return found


def lost_on_way(hops: Sequence[HopPlan], after: Snapshot) -> tuple[RoutingSeen, ...]:
    """The routed links on a probe's way that carried no routes when it was over."""
    places = {(hop.device, f"port {hop.interface}") for hop in hops}
    switches = dict.fromkeys(hop.device for hop in hops if hop.role in _BETWEEN)
    return tuple(
        as_routing(device, lost)
        for device in switches
        for lost in after.lost.get(device, ())
        if (device, lost.where) in places or lost.kind == "unread"
    )


_BETWEEN: Final = ("uplink_egress", "spine_ingress", "spine_egress", "downlink_ingress")
"""What a way between two leaves has beside its ends."""


def measure_hops(hop: HopPlan, before: Snapshot, after: Snapshot) -> tuple[Hop, ...]:
    """What an interface counted, or each of a host's adapters where the plan names none."""
    if hop.interface != ADAPTERS or hop.is_dark:
        return (measure_hop(hop, before, after),)
    names = sorted(name for device, name in after.counters if device == hop.device)
    return tuple(
        measure_hop(replace(hop, interface=name), before, after) for name in names or [ADAPTERS]
    )


def measure_hop(hop: HopPlan, before: Snapshot, after: Snapshot) -> Hop:
    """What one hop counted of a probe, or why that is not known."""
    place = (hop.device, hop.interface)
    base = Hop(
        rail=hop.rail,
        direction=hop.direction,
        role=hop.role,
        device=hop.device,
        interface=hop.interface,
    )
    if hop.is_dark:
        return base.model_copy(update={"status": "no_login"})
    for snapshot in (before, after):
        if hop.device in snapshot.unreachable:
            detail = snapshot.unreachable[hop.device].splitlines()[0]
            return base.model_copy(update={"status": "unreachable", "detail": detail})
        for unread in snapshot.unread.get(place, ()):
            if unread.way == _NEEDED.get(hop.role):
                return base.model_copy(
                    update={"status": "not_observed", "detail": describe_unread(unread)}
                )
    # Without a reading before, the one after is a sum since the start, and says nothing.
    first, last = before.counters.get(place), after.counters.get(place)
    grown = diff_counters(first, last) if first and last else {}
    if not grown:
        return base.model_copy(update={"status": "not_observed", "detail": "no counters"})
    fields = _fields(hop, grown)
    if _NEEDED.get(hop.role) == "rx" and not fields.get("bytes_by_class"):
        fields |= {
            "status": "uncounted",
            "detail": "the system counts no received priorities",
            # EOS counts how many bytes came, SONiC nothing of a probe's.
            "total_bytes": grown.get("rx_bytes"),
        }
    return base.model_copy(update=fields)


_NEEDED: Final[Mapping[HopRole, CounterWay]] = {
    "switch_ingress": "rx",
    "uplink_egress": "tx",
    "spine_ingress": "rx",
    "spine_egress": "tx",
    "downlink_ingress": "rx",
    "switch_egress": "tx",
}
"""What a hop of a switch cannot be judged without."""
_KEPT: Final = 1500
"""Characters of an answer that go into the evidence: a table of one port has fewer."""


def describe_unread(unread: Unread) -> str:
    """Which answer is of an unknown form, and the answer itself, as one line."""
    lines = (" ".join(line.split()) for line in unread.text.splitlines())
    text = " | ".join(line for line in lines if line)
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:_KEPT])
    return f"`{unread.command}`: {unread.why}; it answered: {shown or 'nothing'}"


_NIC_NAMES: Final = {"sender_nic": r"tx_prio(\d)_bytes", "receiver_nic": r"rx_prio(\d)_bytes"}
_PORT_NAMES: Final = {"rx": r"rx_prio(\d)_bytes", "tx": r"tx_tc(\d)_bytes"}
"""Counter of each class as ethtool (mlx5) and the switch drivers name it."""


_LOST: Final = r"(rx_out_of_buffer|rx_discards_phy|rx_discards|tx_tc\d_drops)"
"""On arrival, and by a full queue of any class."""
_DATA_NAMES: Final = {"sender_nic": "port_xmit_data", "receiver_nic": "port_rcv_data"}


def _fields(hop: HopPlan, grown: Counters) -> dict[str, object]:
    data = grown.get(_DATA_NAMES.get(hop.role, ""))
    if data is not None:
        return {
            "total_bytes": data * _DATA_UNIT_BYTES,
            "discards": _sum(grown, r"(port_rcv_errors|port_xmit_discards)"),
            "out_of_sequence": _sum(grown, r"out_of_sequence"),
        }
    name = _NIC_NAMES.get(hop.role) or _PORT_NAMES[_NEEDED[hop.role]]
    classes = _by_number(grown, name)
    return {
        "bytes_by_class": classes,
        "total_bytes": sum(classes.values()),
        "pause_frames": _sum(grown, r"[rt]x_prio\d_pause"),
        "pauses_received": _grown_by_number(grown, r"rx_prio(\d)_pause"),
        "pauses_sent": _grown_by_number(grown, r"tx_prio(\d)_pause"),
        "storms": _grown_by_number(grown, r"tx_tc(\d)_storms"),
        "discards": _sum(grown, _LOST),
        "out_of_sequence": _sum(grown, r"out_of_sequence"),
        "ecn_marked": _sum(grown, "ecn_marked"),
    }


def _by_number(grown: Counters, pattern: str) -> dict[int, int]:
    """The counters whose name has a priority or class in it, by that."""
    found = ((re.fullmatch(pattern, name), value) for name, value in grown.items())
    return {int(match[1]): value for match, value in found if match is not None}


def _grown_by_number(grown: Counters, pattern: str) -> dict[int, int]:
    return {number: value for number, value in _by_number(grown, pattern).items() if value}


def _sum(grown: Counters, pattern: str) -> int | None:
    values = [value for name, value in grown.items() if re.fullmatch(pattern, name)]
    return sum(values) if values else None
