"""Which ports of others a machine must reach, and which of its own must be free. Pure.

All pairs of hosts would grow with the square of the site. So each node asks every server, of which
there are a few, and the node after it in the file, the last one the first: a firewall
before one machine, or between two groups of them, is met on that ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from components.core.placeholder import has_placeholder
from components.model.cluster import ClusterSpec
from components.model.hosts import Host

ETCD_PORTS: Final = (2379, 2380)
KUBELET_PORT: Final = 10250
"""Ports of the parts that K3s starts (K3s' page "Requirements", networking), and kubeadm's."""
CONTROLLER_PORTS: Final = (10257, 10259)
"""The controller manager and the scheduler, which kubeadm runs as pods of their own."""
Peer = tuple[str, int]
"""Address and port."""


def ports_of(spec: ClusterSpec, host: Host) -> Iterator[int]:
    """Ports of the host that nothing may listen on before Kubernetes does."""
    plane = spec.k3s or spec.kubespray
    if plane is None:
        return
    if host.role in {"control_plane", "balancer"}:
        yield plane.api_port
    elif host.role == "worker" and spec.kubespray is not None:
        yield plane.api_port  # its own proxy to the servers
    if host.role != "balancer":
        yield KUBELET_PORT
    if _has_etcd(spec, host):
        yield from ETCD_PORTS
    if spec.kubespray is not None and host.role == "control_plane":
        yield from CONTROLLER_PORTS


def _has_etcd(spec: ClusterSpec, host: Host) -> bool:
    """Whether etcd listens to others here: K3s' does among several servers, kubespray's always."""
    return joins_servers(spec, host) or (
        spec.kubespray is not None and host.role == "control_plane"
    )


def joins_servers(spec: ClusterSpec, host: Host) -> bool:
    """Whether the host is one of several servers."""
    return spec.k3s is not None and host.role == "control_plane" and len(spec.servers) > 1


def peers_of(spec: ClusterSpec, host: Host) -> tuple[Peer, ...]:
    """What the host must reach of others: the servers, and the next one of its kind."""
    found = (*_servers(spec, host), *_next(spec, host))
    return tuple(dict.fromkeys(each for each in found if not has_placeholder(each[0])))


def _servers(spec: ClusterSpec, host: Host) -> Iterator[Peer]:
    plane = spec.k3s or spec.kubespray
    if plane is None or host.role not in {"control_plane", "worker"} or not spec.servers:
        return
    if host.role == "worker":  # an address that two share has no one before their first update
        yield from ((each.address, plane.api_port) for each in spec.balancers)
    for server in spec.servers:
        if server != host:
            yield server.address, plane.api_port
            if _has_etcd(spec, host):
                yield from ((server.address, port) for port in ETCD_PORTS)


def _next(spec: ClusterSpec, host: Host) -> Iterator[Peer]:
    ring: Sequence[Host] = ()
    if spec.kubernetes is not None:
        ring = tuple(each for each in spec.reached if each.role in {"control_plane", "worker"})
    elif spec.containers is not None:
        ring = spec.workers
    if host not in ring or len(ring) == 1:
        return
    after = ring[(ring.index(host) + 1) % len(ring)]
    port = (spec.containers.ssh_port if spec.containers else None) or after.way.port
    yield after.address, port if spec.kubernetes is None else KUBELET_PORT
