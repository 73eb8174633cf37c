"""Read the counters of every hop before and after a probe, by their names, and subtract."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from components.acceptance.acceptance_plan import ADAPTERS, CounterSource, HopPlan
from components.acceptance.evidence import Hop, HopRole, RoutingSeen, diff_counters
from components.acceptance.probes.ib_look import host_script
from components.core.difference import RoutingFault
from components.core.errors import DeviceError
from components.core.record import record
from components.core.templates import read_table
from components.fabric.cabling import find_routing_faults
from components.fabric.device import read_counted
from components.fabric.systems.base import CounterWay, PortCounters, Unread
from components.remote.host_session import run_on_host

_TABLES: Final[Mapping[str, Any]] = read_table(__file__, "counters")
_KINDS: Final[Mapping[str, Sequence[str]]] = _TABLES["kinds"]
_ENDS: Final[Mapping[str, int]] = _TABLES["ends"]
_OF_WAY: Final[Mapping[CounterWay, str]] = _TABLES["of_way"]
HIDDEN: Final = "vfs_hidden"
"""The number of VFs whose RDMA device is in a pod; it is not a sum."""
WAYS: Final = {"sender_nic": "tx", "receiver_nic": "rx"}
PAUSES: Final = r"{0}_prio(\d)_pause|{0}_pfc_ena_frames_pri(\d)|{0}_priority_(\d)_xoff\.nic"
DATA_NAMES: Final = {"sender_nic": "port_xmit_data", "receiver_nic": "port_rcv_data"}
NAMES: Final = "|".join(
    pattern.format("[rt]x") if "{" in pattern else pattern
    for pattern in (
        *(pattern for each in _KINDS.values() for pattern in each), *DATA_NAMES.values(),
        *_OF_WAY.values(), HIDDEN, PAUSES,
        *(pattern for _, *both in _TABLES["drivers"] for pattern in both),
    )
)  # fmt: skip
"""The counters that acceptance judges."""
READ_DEADLINE_S: Final = 20.0
_ETHTOOL: Final = re.compile(r"^\s*([a-zA-Z0-9_.]+): (\d+)\s*$", re.MULTILINE)

_DATA_UNIT_BYTES: Final = 4
"""`port_xmit_data` and `port_rcv_data` count words of four bytes (InfiniBand's PortCounters)."""

Counters = Mapping[str, int]
KeyT = TypeVar("KeyT", int, str)
_BETWEEN: Final = ("uplink_egress", "spine_ingress", "spine_egress", "downlink_ingress")
"""The ports of a way between two leaves, without its ends."""
_VF: Final = re.compile(r"vf\.[^.]+\.")
_KEPT: Final = 1500
"""Characters of an answer that go into the evidence: a table of one port has fewer."""


@record
class Snapshot:
    """Counters of all devices at one time."""

    counters: Mapping[tuple[str, str], Counters]
    """(device, interface) to counter name to value."""
    unreachable: Mapping[str, str] = field(default_factory=dict[str, str])
    """Device to the reason why it could not be read."""
    unread: Mapping[tuple[str, str], tuple[Unread, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Unread, ...]]
    )
    """(device, interface) to the answers in an unknown form."""
    lost: Mapping[str, tuple[RoutingFault, ...]] = field(
        default_factory=dict[str, tuple[RoutingFault, ...]]
    )
    """Switch to its routed links that carry no routes."""


async def read_snapshot(sources: Sequence[CounterSource], secrets: Mapping[str, str]) -> Snapshot:
    """Read every device once, together; one that fails does not hide the others."""
    answers = await asyncio.gather(
        *(_read(source, secrets) for source in sources), return_exceptions=True
    )
    counters: dict[tuple[str, str], Counters] = {}
    unreachable: dict[str, str] = {}
    unread: dict[tuple[str, str], tuple[Unread, ...]] = {}
    lost: dict[str, tuple[RoutingFault, ...]] = {}
    for source, answer in zip(sources, answers, strict=True):
        device = source.endpoint.device
        if isinstance(answer, DeviceError):
            unreachable[device] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found, lost[device] = answer
            counters |= {(device, name): counted for name, (counted, _) in found.items()}
            unread |= {(device, name): odd for name, (_, odd) in found.items() if odd}
    return Snapshot(counters, unreachable, unread, lost)


async def _read(
    source: CounterSource, secrets: Mapping[str, str]
) -> tuple[Mapping[str, tuple[Counters, tuple[Unread, ...]]], tuple[RoutingFault, ...]]:
    """Each interface's counters and the answers that could not be read; then lost routes."""
    endpoint = source.endpoint
    on_fabric = source.os == "infiniband"
    if source.os != "linux" and not on_fabric:
        links, asked = source.links, (endpoint, source.os, source.interfaces, secrets)
        bfd = bool(links.bfd) if links else None
        ports, sessions = await asyncio.to_thread(read_counted, *asked, bfd=bfd)
        lost = find_routing_faults(links, sessions) if links else ()
        counted = {name: (flatten_port(port), port.unread) for name, port in ports.items()}
        return counted, lost
    command = counters_script(() if on_fabric else source.interfaces)
    answer = await run_on_host(endpoint, secrets, command, deadline_s=READ_DEADLINE_S)
    found = parse_ethtool(answer.stdout, source)
    return {name: (counted, ()) for name, counted in found.items()}, ()


def counters_script(interfaces: Sequence[str]) -> str:
    """The text that reads the counters of some interfaces, or of all InfiniBand adapters."""
    head = f"nics='{' '.join(interfaces)}'\nrdma='{_TABLES['rdma']}'\nports='{' '.join(_ENDS)}'\n"
    return head + host_script("read_counters")


def flatten_port(port: PortCounters) -> dict[str, int]:
    """Name a switch port's known counters: received by priority, sent by traffic class."""
    found: dict[str, int | None] = {
        "rx_discards": port.rx_discards, "ecn_marked": port.ecn_marked, "rx_bytes": port.rx_bytes
    }  # fmt: skip
    for n, counted in port.by_priority.items():
        found |= {f"rx_prio{n}_bytes": counted.rx_bytes, f"tx_tc{n}_bytes": counted.tx_bytes}
        found[f"tx_tc{n}_drops"] = counted.tx_drops
    for n, each in port.pauses.items():  # as ethtool (mlx5) names them
        found |= {f"rx_prio{n}_pause": each.received, f"tx_prio{n}_pause": each.sent}
    found |= {f"tx_tc{n}_storms": count for n, count in port.storms.items()}
    return {name: value for name, value in (found | {**port.errors}).items() if value is not None}


def parse_ethtool(text: str, source: CounterSource) -> dict[str, Counters]:
    """Split the answers of `ethtool -S` by interface; DeviceError if one printed no counter."""
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


def routing_faults_on_path(hops: Sequence[HopPlan], after: Snapshot) -> tuple[RoutingSeen, ...]:
    """The routed links on a probe's way that carried no routes when it was over."""
    places = {(hop.device, f"port {hop.interface}") for hop in hops}
    switches = dict.fromkeys(hop.device for hop in hops if hop.role in _BETWEEN)
    return tuple(
        RoutingSeen(device=device, **asdict(lost))
        for device in switches
        for lost in after.lost.get(device, ())
        if (device, lost.where) in places or lost.kind == "unread"
    )


def measure_hops(hop: HopPlan, before: Snapshot, after: Snapshot) -> tuple[Hop, ...]:
    """Measure an interface, or each of a host's adapters if the plan names none."""
    if hop.interface != ADAPTERS or hop.is_dark:
        return (measure_hop(hop, before, after),)
    names = sorted(name for device, name in after.counters if device == hop.device)
    return tuple(
        measure_hop(replace(hop, interface=name), before, after) for name in names or [ADAPTERS]
    )


def measure_hop(hop: HopPlan, before: Snapshot, after: Snapshot) -> Hop:
    """The bytes and losses of one hop during a probe, or why they are unknown."""
    place = (hop.device, hop.interface)
    base = Hop(
        rail=hop.rail, direction=hop.direction, role=hop.role, device=hop.device,
        interface=hop.interface,
    )  # fmt: skip
    needed = "rx" if hop.role.endswith("_ingress") else "tx"
    if hop.is_dark:
        return base.model_copy(update={"status": "no_login"})
    for snapshot in (before, after):
        if hop.device in snapshot.unreachable:
            detail = snapshot.unreachable[hop.device].splitlines()[0]
            return base.model_copy(update={"status": "unreachable", "detail": detail})
        for unread in snapshot.unread.get(place, ()):
            if unread.way == needed and hop.role not in WAYS:
                return base.model_copy(
                    update={"status": "not_observed", "detail": describe_unread(unread)}
                )
    # Without a reading before, the one after is a sum since the start and useless.
    first, last = before.counters.get(place), after.counters.get(place)
    if not first or not last:
        return base.model_copy(update={"status": "not_observed", "detail": "no counters"})
    unread = "|".join(
        _OF_WAY[each.way] for seen in (before, after) for each in seen.unread.get(place, ())
    )
    first, last = (
        {key: n for key, n in each.items() if _is_judged(key) and not re.fullmatch(unread, key)}
        for each in (first, last)
    )
    if lost := _find_reset(first, last):
        return base.model_copy(update={"status": "not_counted", "detail": lost})
    return base.model_copy(update=_fields(hop.role, first, last))


@lru_cache(maxsize=8192)
def _is_judged(name: str) -> bool:
    """NICs have a thousand counters, and those of a site have the same names."""
    return re.fullmatch(NAMES, _VF.sub("", name)) is not None


def _find_reset(first: Counters, last: Counters) -> str:
    """Why an interface's growth is unknown: a counter went back, or cannot go on."""
    for name, was in first.items():
        if name in last and last[name] < was and name != HIDDEN:
            return (
                f"{name} went back from {was} to {last[name]}: it was cleared (driver loaded "
                "again, reboot, clear counters), or it wrapped"
            )
        if was == _ENDS.get(name):
            return f"{name} is at its end, {was}: clear it with perfquery -R"
    return ""


def describe_unread(unread: Unread) -> str:
    """Describe an answer of an unknown form in one line, with its text."""
    lines = (" ".join(line.split()) for line in unread.text.splitlines())
    text = " | ".join(line for line in lines if line)
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:_KEPT])
    return f"`{unread.command}`: {unread.why}; it answered: {shown or 'nothing'}"


def _fields(role: HopRole, first: Counters, last: Counters) -> dict[str, object]:
    grown: Counter[str] = Counter()
    # Only of the VFs that both readings show.
    ends = {name: n for name, n in last.items() if name in first or not _VF.match(name)}
    for name, value in diff_counters(first, ends).items():
        grown[_VF.sub("", name)] += value
    hidden = max(first.get(HIDDEN, 0), last.get(HIDDEN, 0))
    # Lost, repeated and marked packets; None for a kind without counters.
    kinds = {
        kind: {name: n for each in own for name, n in grown.items() if re.fullmatch(each, name)}
        for kind, own in _KINDS.items()
    }
    sums = {kind: sum(each.values()) if each else None for kind, each in kinds.items()}
    known = [n for n in (sums.pop("of_priority"), sums["discards"]) if n is not None]
    found: dict[str, object] = {**sums, "discards": max(known, default=None)}
    found |= {"errors": _positive(kinds["errors"]), "noted": _positive(kinds["noted"])}
    data = grown.get(DATA_NAMES.get(role, ""))
    if data is not None:
        return found | {"total_bytes": data * _DATA_UNIT_BYTES}
    if way := WAYS.get(role):
        if hidden:
            found["detail"] = f"{hidden} VFs are in pods: what their RDMA devices lost is not known"
        elif found["out_of_sequence"] is None:
            found["detail"] = "its RDMA device lacks the counter out_of_sequence"
        found |= _nic_bytes(way, grown)
    else:
        enters = role.endswith("_ingress")
        classes = _by_number(grown, r"rx_prio(\d)_bytes" if enters else r"tx_tc(\d)_bytes")
        found |= {"bytes_by_class": classes, "total_bytes": sum(classes.values())}
        if not classes:
            # EOS counts received bytes without priority, SONiC does not count a probe's bytes.
            whole = grown.get("rx_bytes") if enters else None
            way = "received priorities" if enters else "classes that it sends"
            found |= _uncounted(f"the system counts no {way}", whole)
    received, sent = (_by_number(grown, PAUSES.format(way)) for way in ("rx", "tx"))
    return found | {
        "pause_frames": sum((*received.values(), *sent.values())) if received or sent else None,
        "pauses_received": _positive(received),
        "pauses_sent": _positive(sent),
        "storms": _positive(_by_number(grown, r"tx_tc(\d)_storms")),
    }


def _uncounted(why: str, whole: int | None) -> dict[str, object]:
    return {"status": "uncounted", "detail": why, "total_bytes": whole}


def _nic_bytes(way: str, grown: Counters) -> dict[str, object]:
    """The bytes of a NIC by priority, or why its driver does not tell them."""
    for driver, each, total in _TABLES["drivers"]:
        classes = _by_number(grown, each.format(way))
        sums = [value for name, value in grown.items() if re.fullmatch(total.format(way), name)]
        whole = sum(sums) if sums else None
        used = _positive(classes).values()
        if classes and (total == "-" or len({*used}) == len(used)):
            whole = sum(classes.values()) if whole is None else whole
            return {"bytes_by_class": classes, "total_bytes": whole}
        if classes or (each == "-" and whole is not None):
            return _uncounted(f"the driver {driver} does not count each priority separately", whole)
    return _uncounted("the driver counts bytes by priority under no name that we know", None)


def _by_number(grown: Counters, pattern: str) -> dict[int, int]:
    """The counters with a priority or class in their name, by that number."""
    found = ((re.fullmatch(pattern, name), value) for name, value in grown.items())
    return {int(match[match.lastindex or 0]): n for match, n in found if match is not None}


def _positive(grown: Mapping[KeyT, int]) -> dict[KeyT, int]:
    return {key: value for key, value in grown.items() if value}
