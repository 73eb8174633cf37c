"""Who reaches the Kubernetes API: a table of nftables on each server and balancer.

K3s has its API, its agents and its servers on one port of all addresses of a host, and neither it
nor kube-apiserver has a list of clients. So the host's kernel has one, for that port alone
(docs/decisions/0027-who-reaches-the-api.md).
"""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses
from typing import Final

from components.core.key_values import HostState
from components.drift.device_drift import Watched
from components.kubernetes.planes.base import FILTER_SUFFIX
from components.kubernetes.planes.scripts import kubernetes_call, numbered_lines, unit_text
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import K3sPlane
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

DEADLINE_S: Final = 180.0
"""Seconds: 120 of them are for the lock of another run."""
PRIORITY: Final = -10
"""Before the filters of the host's own firewalls, which have 0 (nft(8), standard priorities)."""
_PARAMETERS: Final = frozenset({"allowed", "way"})


def plan_filters(spec: ClusterSpec, plane: K3sPlane, stack: str) -> tuple[Watched, ...]:
    """One filter for each host that serves the API; none where the file names no networks.

    Args:
        spec: The checked site.
        plane: Its K3s.
        stack: Names the folder on the hosts that says what this stack installed.
    """
    if not plane.api_from:
        return ()
    return tuple(
        _filter(host, plane, stack)
        for host in spec.hosts
        if host.role in {"control_plane", "balancer"}
    )


def allowed_networks(plane: K3sPlane) -> tuple[IPv4Network, ...]:
    """What the file names, and the pods, which ask from their own addresses on a server itself."""
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
        # Through a jump host the server sees that one, and not where the API is asked from.
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
    """The table, which replaces the one before it in one transaction of the kernel.

    What is not allowed is dropped and gets no answer: a server that joins takes a refused
    connection for a host on which no API runs, and would begin a second cluster. A node's own way
    to its API is the loopback device. Nodes have IPv4 addresses, so that nothing comes by IPv6.
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
