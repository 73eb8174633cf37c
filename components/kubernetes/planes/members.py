"""Who may reach the Kubernetes API, and which machines belong to a cluster of K3s.

K3s serves its API, its agents and its servers on one port of all addresses of a host, and neither
it nor kube-apiserver can restrict clients by address. So each server and balancer gets an nftables
table for that port alone (decision 27 in docs/decisions.md).

K3s keeps a node's password and its etcd member after the machine is gone: it refuses a new machine
of that name, and the dead member counts for the quorum. So, with several servers, a running one
forgets the old machine before the new one joins; and the first server removes each node before its
machine is uninstalled (lab/sources.md#k3s).
"""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses
from typing import Final

from components.core.errors import Bug
from components.core.key_values import HostState
from components.core.plain_text import placeholder
from components.drift.device_drift import Watched
from components.kubernetes.planes.base import FILTER_SUFFIX, NODE_SUFFIX, REMOVAL_SUFFIX
from components.kubernetes.planes.node_files import kubernetes_call, numbered_lines, unit_text
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import K3sPlane
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

DEADLINE_S: Final = 180.0
"""Seconds, 120 of which are for the lock of another run."""
PRIORITY: Final = -10
"""Before the filters of the host's own firewalls, which use 0 (nft(8), standard priorities)."""
_PARAMETERS: Final = frozenset({"allowed", "way"})


def plan_filters(spec: ClusterSpec, plane: K3sPlane, stack: str) -> tuple[Watched, ...]:
    """One filter for each host that serves the API; empty if the file does not name networks."""
    if not plane.api_from:
        return ()
    return tuple(
        _filter(host, plane, stack)
        for host in spec.hosts
        if host.role in {"control_plane", "balancer"}
    )


def allowed_networks(plane: K3sPlane) -> tuple[IPv4Network, ...]:
    """The networks in the file, and that of the pods, which call from their own address."""
    return tuple(collapse_addresses((*plane.api_from, plane.pod_cidr)))


def _filter(host: Host, plane: K3sPlane, stack: str) -> Watched:
    settings = {
        "service.active": "active",
        "service.enabled": "enabled",
        "table": "as-installed",
        **numbered_lines("rules", render_rules(plane)),
        **numbered_lines("unit", unit_text("railyard-api-filter")),
    }
    endpoint = host_endpoint(host)
    lines = {
        "allowed": " ".join(map(str, allowed_networks(plane))),
        "stack": stack,
        # Behind a jump host the server sees the jump host, and not the API's client.
        "way": "jump" if endpoint.jump else "direct",
    }
    step = RemoteStep(
        name=f"{host.name}{FILTER_SUFFIX}",
        endpoint=endpoint,
        dialect="sh",
        desired=HostState({**settings, **lines}).render(),
        apply=kubernetes_call("api_filter"),
        undo=kubernetes_call("api_filter_undo"),
        deadline_s=DEADLINE_S,
    )
    observe = kubernetes_call("api_filter_observe")
    return Watched(f"{host.name} api-filter", step, HostState(settings), observe, _PARAMETERS)


def render_rules(plane: K3sPlane) -> str:
    """The table, which replaces the earlier one in one transaction of the kernel.

    A packet from elsewhere is dropped without an answer: a joining server would take a refused
    connection for a host without an API, and begin a second cluster. A node reaches its own API
    over the loopback device. Nodes have IPv4 addresses, so the API gets no IPv6 traffic.
    """
    port = plane.api_port
    lines = (
        "table inet railyard_api",
        "delete table inet railyard_api",
        "table inet railyard_api {",
        "  set allowed {",
        "    type ipv4_addr",
        "    flags interval",
        f"    elements = {{ {', '.join(map(str, allowed_networks(plane)))} }}",
        "  }",
        "  chain input {",
        f"    type filter hook input priority {PRIORITY}; policy accept;",
        '    iifname "lo" accept',
        f"    meta nfproto ipv4 tcp dport {port} ip saddr != @allowed drop",
        f"    meta nfproto ipv6 tcp dport {port} drop",
        "  }",
        "}",
    )
    return "".join(f"{line}\n" for line in lines)


REMOVAL_DEADLINE_S: Final = 420.0
"""Seconds: 60 for the API, 120 until a lost node counts as lost, 180 for its etcd member."""
NODE_DEADLINE_S: Final = 420.0
"""Seconds: 300 until the node is Ready; to take it out, 120 to drain and 180 for its member."""
FOUND_CLUSTER: Final = placeholder("cluster-found", "state")
"""Placeholder in the first server's stdin for the earlier step's result: `none` or `running`."""
CLUSTER_FOUND: Final = "cluster-found"


def has_several_servers(spec: ClusterSpec) -> bool:
    """Whether the cluster survives the loss and replacement of a server."""
    return len(spec.servers) > 1


def removal_steps(spec: ClusterSpec, stack: str) -> tuple[RemoteStep, ...]:
    """One step for each node, which forgets the earlier machine of its name.

    It runs again only for a new machine: its host key is in the stdin.
    """
    if not has_several_servers(spec):
        return ()
    return tuple(_removal(spec, host, stack) for host in (*spec.servers, *spec.workers))


def node_steps(spec: ClusterSpec, stack: str) -> tuple[RemoteStep, ...]:
    """One step for each node, which waits for it, and whose undo removes it from the cluster.

    An only server gets no step: it is uninstalled last, and the cluster with it.
    """
    servers = spec.servers if has_several_servers(spec) else ()
    return tuple(_node(spec, host, stack) for host in (*servers, *spec.workers))


def _removal(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    first, second = spec.servers[:2]
    return RemoteStep(
        name=f"{host.name}{REMOVAL_SUFFIX}",
        endpoint=host_endpoint(second if host == first else first),
        dialect="sh",
        desired=_lines(host, stack),
        apply=kubernetes_call("k3s_removal"),
        why_no_undo="it forgets only a machine that no longer exists",
        deadline_s=REMOVAL_DEADLINE_S,
    )


def _node(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    first = spec.servers[0]
    goes_last = host == first
    return RemoteStep(
        name=f"{host.name}{NODE_SUFFIX}",
        endpoint=host_endpoint(first),
        dialect="sh",
        desired=_lines(host, stack),
        apply=kubernetes_call("k3s_node"),
        undo=None if goes_last else kubernetes_call("k3s_node_undo"),
        why_no_undo="the first server goes last, and the cluster with it" if goes_last else None,
        deadline_s=NODE_DEADLINE_S,
    )


def _lines(host: Host, stack: str) -> str:
    if not host.way.host_key:
        raise Bug(f"{host.name} lacks a host key, which the check host-key refuses")
    role = "server" if host.role == "control_plane" else "agent"
    lines = {"machine": host.way.host_key, "node": host.node, "role": role, "stack": stack}
    return HostState(lines).render()
