"""Rules on the control plane: servers and their balancer, clusters that are there already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane

_VERSION: Final = re.compile(r"v?\d+\.\d+(\.\d+)?([+-][0-9A-Za-z.+-]+)?")
_PAIR: Final = 2
"""What a balancer is for begins here; two servers are refused by etcd-members."""
_LOWEST_NODE_PORT: Final = 30000
_HIGHEST_NODE_PORT: Final = 32767
_TAKEN: Final = {
    2379: "etcd's clients",
    2380: "etcd's members",
    6444: "K3s' own API server behind the port",
    10250: "the kubelet",
    10257: "the controller manager",
    10259: "the scheduler",
}
"""Ports of a K3s server and who has them (docs/explanation/sources.md#k3s)."""


def _with_role(spec: ClusterSpec, role: str) -> list[tuple[int, Host]]:
    return [(number, host) for number, host in enumerate(spec.hosts) if host.role == role]


def check_balancer(spec: ClusterSpec) -> Iterator[Finding]:
    """Several servers have exactly one balancer before them, and one server has none.

    Without it agents and users hold the address of one server, whose loss cuts them off from the
    two that live. A second one would need an address that moves between them. Of a cloud's
    instances cloud-balancer says the same.
    """
    balancers = _with_role(spec, "balancer")
    servers = _with_role(spec, "control_plane")
    places = tuple(at(("hosts", number, "role"), host.role) for number, host in balancers)
    if len(balancers) > 1 and spec.cloud is None:
        yield Finding(
            f"{len(balancers)} hosts are balancers; agents and users know one address.",
            places,
            "give one host the role balancer.",
        )
    if balancers and len(servers) < _PAIR and spec.k3s is not None:
        yield Finding(
            f"the balancer has {'one server' if servers else 'no server'} behind it, so it only "
            "adds one more machine that can fail.",
            places,
            "use three control-plane hosts, or take the balancer out.",
        )
    if len(servers) > _PAIR and not balancers and spec.cloud is None:
        yield Finding(
            f"{len(servers)} control-plane hosts have no balancer before them: agents and users "
            f"would hold the address of {servers[0][1].name} alone.",
            tuple(at(("hosts", number, "role"), host.role) for number, host in servers),
            "give one more host the role balancer, or use one control-plane host.",
        )


def check_existing_plane(spec: ClusterSpec) -> Iterator[Finding]:
    """Nothing is installed on a cluster that is there already, and its version can be compared."""
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return
    for number, host in enumerate(spec.hosts):
        if host.role != "worker":
            yield Finding(
                f'{host.name} is a {host.role}, but with "plane: existing" Railyard installs none.',
                (
                    at(("hosts", number, "role"), host.role),
                    at(("kubernetes", "plane"), plane.plane),
                ),
                "list only the workers that Railyard prepares, or use plane: k3s.",
            )
    if not _VERSION.fullmatch(plane.version):
        yield Finding(
            f'"{plane.version}" is no version of Kubernetes.',
            (at(("kubernetes", "version"), plane.version),),
            "write what `kubectl version` calls the server version, for example v1.36.3.",
        )


def check_api_port(spec: ClusterSpec) -> Iterator[Finding]:
    """The API's port is not one that K3s itself or node ports need."""
    if spec.k3s is None:
        return
    port = spec.k3s.api_port
    taken = _TAKEN.get(port)
    if taken is None and _LOWEST_NODE_PORT <= port <= _HIGHEST_NODE_PORT:
        taken = f"node ports ({_LOWEST_NODE_PORT} to {_HIGHEST_NODE_PORT})"
    if taken is not None:
        yield Finding(
            f"port {port} of a server belongs to {taken}.",
            (at(("kubernetes", "api_port"), port),),
            "use 6443, or another free port.",
        )
