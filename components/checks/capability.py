"""Rules on what a switch model can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from components.checks.problem import SpecPath
from components.checks.rule import Finding, at
from components.checks.topology import list_cables, list_ports
from components.model.cluster import ClusterSpec
from components.model.wording import did_you_mean

_PORT: Final = re.compile(r"1/([1-9][0-9]*)(?:/([1-4]))?")


@dataclass(frozen=True, slots=True)
class _Capability:
    ports: int
    speed_gbit_s: int
    min_mtu_bytes: int
    max_mtu_bytes: int
    source: str

    def has_port(self, name: str) -> bool:
        match = _PORT.fullmatch(name)
        return match is not None and 1 <= int(match[1]) <= self.ports


_CAPABILITIES: Final = {
    "SN2700": _Capability(
        ports=32,
        speed_gbit_s=100,
        min_mtu_bytes=1500,
        max_mtu_bytes=9612,
        source="SN2700 data sheet; MTU range of the mellanox.onyx collection, onyx.py",
    ),
}


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


def check_port_capability(spec: ClusterSpec) -> Iterator[Finding]:
    """Each port exists on its switch model, and can have the MTU and the NIC's speed.

    A port that is split is gone as a whole: 1/1 and 1/1/1 cannot both be there.
    """
    for port in list_ports(spec):
        model = _CAPABILITIES.get(port.switch.model)
        if model is None:
            continue
        if not model.has_port(port.name):
            yield Finding(
                f"an {port.switch.model} has no port {port.name}.",
                (at(port.path, port.port.to),),
                f"its ports are 1/1 to 1/{model.ports}, split ones 1/1/1 and so on.",
            )
        own = port.port.mtu_bytes
        path: SpecPath = (*port.path, "mtu_bytes") if own else ("rdma", "port_mtu_bytes")
        mtu_bytes = own or spec.rdma.port_mtu_bytes
        if not model.min_mtu_bytes <= mtu_bytes <= model.max_mtu_bytes:
            yield Finding(
                f"a port of an {port.switch.model} cannot have MTU {mtu_bytes}.",
                (at(path, mtu_bytes),),
                f"choose {model.min_mtu_bytes} to {model.max_mtu_bytes}; 9216 is usual. "
                f"Source: {model.source}.",
            )
    yield from _find_split(spec)
    yield from _find_too_fast(spec)


def _find_split(spec: ClusterSpec) -> Iterator[Finding]:
    whole = {(port.switch.name, port.name): port for port in list_ports(spec)}
    for port in list_ports(spec):
        parent = whole.get((port.switch.name, port.name.rpartition("/")[0]))
        if parent is not None:
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
                f"an {cable.port.switch.model} has {model.speed_gbit_s}.",
                (
                    at((*cable.nic.path, "speed_gbit_s"), nic.speed_gbit_s),
                    at(cable.port.path, cable.port.port.to),
                ),
                "write the speed at which the link really runs: bandwidth is judged by it.",
            )
