"""Who belongs to a cluster: machines that were replaced, nodes that go.

K3s keeps a node's password and its etcd member when the machine is gone: a new machine of that
name is refused, and the dead member counts for the quorum. So, of several servers, one that is
there forgets the old machine before the new one joins; and the first server takes each node out
before its machine goes (docs/explanation/sources.md#k3s).
"""

from __future__ import annotations

from typing import Final

from components.core.errors import Bug
from components.core.key_values import HostState
from components.core.plain_text import placeholder
from components.kubernetes.planes.base import NODE_SUFFIX, REMOVAL_SUFFIX
from components.kubernetes.planes.scripts import kubernetes_call
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

REMOVAL_DEADLINE_S: Final = 420.0
"""Seconds: 60 for the API, 120 until a lost node counts as lost, 180 for its etcd member."""
NODE_DEADLINE_S: Final = 420.0
"""Seconds: 300 until the node is Ready; to take it out, 120 to drain and 180 for its member."""
FOUND_CLUSTER: Final = placeholder("cluster-found", "state")
"""In the first server's stdin, the place of what the step before it found: `none` or `running`."""
CLUSTER_FOUND: Final = "cluster-found"


def has_several_servers(spec: ClusterSpec) -> bool:
    """Whether a server can be lost and replaced while the cluster lives on."""
    return len(spec.servers) > 1


def removal_steps(spec: ClusterSpec, stack: str) -> tuple[RemoteStep, ...]:
    """For each node the step that forgets the machine which had its name before.

    It runs again only when the machine is another one: its host key is in the stdin.
    """
    if not has_several_servers(spec):
        return ()
    return tuple(_removal(spec, host, stack) for host in (*spec.servers, *spec.workers))


def node_steps(spec: ClusterSpec, stack: str) -> tuple[RemoteStep, ...]:
    """For each node the step that waits for it, and whose undo takes it out of the cluster.

    An only server has none: it goes last, and the cluster with it.
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
        why_no_undo="what it forgets is a machine that is gone",
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
        raise Bug(f"{host.name} has no host key, which the check host-key refuses")
    role = "server" if host.role == "control_plane" else "agent"
    lines = {"machine": host.way.host_key, "node": host.node, "role": role, "stack": stack}
    return HostState(lines).render()
