"""Rules on what a switch model can do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.checks.problem import SpecPath
from components.checks.rule import Finding, at
from components.checks.topology import list_cables, list_ports
from components.fabric.drivers.cumulus_profile import (
    BYTES_PER_KIB,
    CNP_PRIORITY,
    ECN_MAX_BYTES,
    ECN_MIN_BYTES,
    ECN_TOLERANCE,
    MTU_RANGE_BYTES,
    ROCE_PRIORITY,
)
from components.fabric.drivers.sonic_facts import MTU_RANGE_BYTES as SONIC_MTU_RANGE_BYTES
from components.model.cluster import ClusterSpec
from components.model.wording import did_you_mean

_PORTS: Final = {
    "onyx": re.compile(r"1/([1-9][0-9]*)(?:/([1-4]))?"),
    "cumulus": re.compile(r"swp([1-9][0-9]*)(?:s([0-3]))?"),
    "sonic": re.compile(r"Ethernet(0|[1-9][0-9]*)"),
}
_PORT_NAMES: Final = {
    "onyx": "1/1 to 1/{count}, split ones 1/1/1 and so on",
    "cumulus": "swp1 to swp{count}, split ones swp1s0 and so on",
    "sonic": "Ethernet0, Ethernet{lanes} and so on to Ethernet{last}; a part of a split one is "
    "called by its first lane",
}
_WHOLE: Final = re.compile(r"^(1/[0-9]+|swp[0-9]+)(?:/|s)[0-9]$")
"""The port of which another one, such as `1/1/2` or `swp1s0`, is a part. On SONiC the first part
has the name of the whole, so a file does not say which it means."""


@dataclass(frozen=True, slots=True)
class _Capability:
    ports: int
    speed_gbit_s: int
    mtu_range_bytes: Mapping[str, tuple[int, int]]
    """By switch system."""
    sources: Mapping[str, str]
    """By switch system."""
    lanes: int = 1
    """Lanes of a port, by which SONiC counts."""

    def has_port(self, system: str, name: str) -> bool:
        match = _PORTS[system].fullmatch(name)
        if match is None or system not in self.mtu_range_bytes:
            return False
        if system == "sonic":
            return int(match[1]) < self.ports * self.lanes
        return 1 <= int(match[1]) <= self.ports

    def name_ports(self, system: str) -> str:
        last = (self.ports - 1) * self.lanes
        return _PORT_NAMES[system].format(count=self.ports, lanes=self.lanes, last=last)


_CAPABILITIES: Final = {
    "SN2700": _Capability(
        ports=32,
        speed_gbit_s=100,
        mtu_range_bytes={"onyx": (1500, 9612), "cumulus": MTU_RANGE_BYTES},
        sources={
            "onyx": "SN2700 data sheet; MTU range of the mellanox.onyx collection, onyx.py",
            "cumulus": "SN2700 data sheet; MTU range of the NVUE reference",
        },
    ),
    "Z9332F": _Capability(
        ports=32,
        speed_gbit_s=400,
        mtu_range_bytes={"sonic": SONIC_MTU_RANGE_BYTES},
        sources={"sonic": "sonic-buildimage, port_config.ini; MTU range of sonic-utilities"},
        lanes=8,
    ),
}


def _article(model: str) -> str:
    """`an SN2700`, `a Z9332F`: by the name of the first letter."""
    return f"{'an' if model[:1] in 'AEFHILMNORSX' else 'a'} {model}"


def check_switch_model(spec: ClusterSpec) -> Iterator[Finding]:
    """Each switch is of a model that is known here, so that its ports can be checked."""
    for s, switch in enumerate(spec.switches):
        if switch.model not in _CAPABILITIES:
            known = sorted(_CAPABILITIES)
            yield Finding(
                f"nothing is known of the switch model {switch.model}."
                f"{did_you_mean(switch.model, known)}",
                (at(("switches", s, "model"), switch.model),),
                f"use one of: {', '.join(known)}.",
            )
            continue
        systems = sorted(_CAPABILITIES[switch.model].mtu_range_bytes)
        if switch.os not in systems:
            yield Finding(
                f"nothing is known of {_article(switch.model)} with {switch.os}.",
                (at(("switches", s, "os"), switch.os), at(("switches", s, "model"), switch.model)),
                f"with this model, use one of: {', '.join(systems)}.",
            )


def check_port_capability(spec: ClusterSpec) -> Iterator[Finding]:
    """Each port exists on its switch model, and can have the MTU and the NIC's speed.

    A port that is split is gone as a whole: 1/1 and 1/1/1 cannot both be there.
    """
    for port in list_ports(spec):
        model = _CAPABILITIES.get(port.switch.model)
        if model is None or port.switch.os not in model.mtu_range_bytes:
            continue
        system = port.switch.os
        if not model.has_port(system, port.name):
            yield Finding(
                f"{_article(port.switch.model)} has no port {port.name}.",
                (at(port.path, port.port.to),),
                f"its ports are {model.name_ports(system)}.",
            )
        own = port.port.mtu_bytes
        path: SpecPath = (*port.path, "mtu_bytes") if own else ("rdma", "port_mtu_bytes")
        mtu_bytes = own or spec.rdma.port_mtu_bytes
        low, high = model.mtu_range_bytes[system]
        if not low <= mtu_bytes <= high:
            yield Finding(
                f"a port of {_article(port.switch.model)} cannot have MTU {mtu_bytes}.",
                (at(path, mtu_bytes),),
                f"choose {low} to {high}; 9216 is usual. Source: {model.sources[system]}.",
            )
    yield from _find_split(spec)
    yield from _find_too_fast(spec)


def _find_split(spec: ClusterSpec) -> Iterator[Finding]:
    whole = {(port.switch.name, port.name): port for port in list_ports(spec)}
    for port in list_ports(spec):
        parent = whole.get((port.switch.name, _WHOLE.sub(r"\1", port.name)))
        if parent is not None and parent.name != port.name:
            yield Finding(
                f"port {port.name} of {port.switch.name} is a part of port {parent.name}, which is "
                "used as a whole.",
                (at(port.path, port.port.to), at(parent.path, parent.port.to)),
                "use the whole port, or its parts only.",
            )


def _find_too_fast(spec: ClusterSpec) -> Iterator[Finding]:
    for cable in list_cables(spec):
        model, nic = _CAPABILITIES.get(cable.port.switch.model), cable.nic.nic
        if model is not None and nic.speed_gbit_s > model.speed_gbit_s:
            yield Finding(
                f"{cable.nic.host.name} {nic.netdev} has {nic.speed_gbit_s} Gbit/s, and a port of "
                f"{_article(cable.port.switch.model)} has {model.speed_gbit_s}.",
                (
                    at((*cable.nic.path, "speed_gbit_s"), nic.speed_gbit_s),
                    at(cable.port.path, cable.port.port.to),
                ),
                "write the speed at which the link really runs: bandwidth is judged by it.",
            )


def check_cumulus_profile(spec: ClusterSpec) -> Iterator[Finding]:
    """The file asks a Cumulus switch for what its RoCE profile gives.

    The profile, `nv set qos roce`, is one for the whole switch: priority 3 for RoCE, priority 6 for
    its congestion notifications, and ECN from 150,000 to 1,500,000 bytes. The thresholds of the
    file are in KiB, and may miss those by 5 %, which 150 and 1500 do.
    """
    systems = [(s, switch) for s, switch in enumerate(spec.switches) if switch.os == "cumulus"]
    if not systems or spec.rdma.transport != "roce":
        return
    s, switch = systems[0]
    rdma, where = spec.rdma, at(("switches", s, "os"), switch.os)
    for name, value, given in (
        ("priority", rdma.priority, ROCE_PRIORITY),
        ("cnp_priority", rdma.cnp_priority, CNP_PRIORITY),
    ):
        if value != given:
            yield Finding(
                f"{name} is {value}, and the RoCE profile of {switch.name} has {given}.",
                (at(("rdma", name), value), where),
                f"set {name} to {given}: Cumulus has no other one.",
            )
    for name, kib, given in (
        ("ecn_min_kib", rdma.ecn_min_kib, ECN_MIN_BYTES),
        ("ecn_max_kib", rdma.ecn_max_kib, ECN_MAX_BYTES),
    ):
        if abs(kib * BYTES_PER_KIB - given) > ECN_TOLERANCE * given:
            yield Finding(
                f"{name} is {kib} KiB, {kib * BYTES_PER_KIB:,} bytes, and the RoCE profile of "
                f"{switch.name} has {given:,}.",
                (at(("rdma", name), kib), where),
                f"set {name} to {round(given / BYTES_PER_KIB)}, or remove it.",
            )
