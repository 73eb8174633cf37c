"""The way to the API: HAProxy, the one address that keepalived moves, and the packet filter.

A hung API fails HAProxy's check. keepalived moves the address of two balancers to the one whose
HAProxy answers. Sources: the configuration manual of HAProxy 2.6; K3s' documentation on cluster
load balancers; why the check is HTTPS on /readyz: lab/sources.md#k3s; keepalived.conf(5) of
keepalived 2.2 and 2.3, RFC 9568 (VRRP version 3). Decision 28 in docs/decisions.md gives the
choice.

K3s serves its API, its agents and its servers on one port of all addresses of a host, and neither
it nor kube-apiserver can restrict clients by address. So each server and balancer gets an nftables
table for that port alone (decision 27 in docs/decisions.md).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network, collapse_addresses
from typing import Final

from components.core.key_values import HostState
from components.core.plain_text import placeholder
from components.drift.device_drift import Watched
from components.hosts.scripts import through_proxy
from components.kubernetes.planes.node_files import (
    READS,
    file_text,
    kubernetes_call,
    numbered_lines,
    script_step,
)
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import K3sPlane, VirtualAddress
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall

DEADLINE_S: Final = 600.0
"""Seconds: it may have to fetch and install the package."""
CA_DEADLINE_S: Final = 60.0
CLUSTER_CA: Final = "cluster-ca"
CA_FILE: Final = "/etc/railyard/haproxy/ca.crt"
CHECK: Final = "inter 3s downinter 1s fall 2 rise 1 verify required"
"""Two failed checks, 3 s apart, take a server out; one good check brings it back."""
RUN_FOLDER: Final = "railyard-haproxy"
HEALTH_SOCKET: Final = f"/run/{RUN_FOLDER}/health.sock"
PRIORITY: Final = 150
"""Priority of the first balancer, out of 1 to 254, and ten less for the next: the higher one starts
with the address. The holder keeps it when the other comes back: each move ends all connections."""
FILTER_DEADLINE_S: Final = 180.0
"""Seconds, 120 of which are for the lock of another run."""
FILTER_PRIORITY: Final = -10
"""Before the filters of the host's own firewalls, which use 0 (nft(8), standard priorities)."""


def plan_balancers(spec: ClusterSpec, plane: K3sPlane, stack: str) -> tuple[Watched, ...]:
    """Plan HAProxy of each balancer, and keepalived of two: one host after the other.

    HAProxy serves the API on the host's address in the cluster, and also on its SSH address if the
    host itself has that address (a cloud's public address is translated by the cloud).
    """
    shared, found = plane.virtual_address, list[Watched]()
    unit = file_text("railyard-haproxy.service")
    if shared is not None:
        unit = unit.replace("[Service]\n", f"[Service]\nRuntimeDirectory={RUN_FOLDER}\n")
    for host in spec.balancers:
        settings = {"ca": "as-installed"}
        if host.way.address != host.address:
            settings["also_listen"] = f"{host.way.address}:{plane.api_port}"
        settings |= numbered_lines("haproxy.cfg", render_haproxy(spec, host, plane))
        settings |= numbered_lines("unit", unit)
        own = {"stack": stack, "ca_base64": placeholder(CLUSTER_CA, "pem_one_line")}
        apply = through_proxy(spec, kubernetes_call("haproxy"))
        found.append(_watched_service(host, "haproxy", settings, own, apply, DEADLINE_S))
        if shared is None:
            continue
        settings = {
            "interface": "of-address",
            **numbered_lines("keepalived.conf", render_keepalived(spec, host, shared)),
            **numbered_lines("unit", file_text("railyard-keepalived.service")),
        }
        own = {"address": host.address, "virtual_address": str(shared.address), "stack": stack}
        apply = through_proxy(spec, kubernetes_call("keepalived"))
        watched = _watched_service(host, "keepalived", settings, own, apply, DEADLINE_S)
        looks = f"address={host.address}\nvirtual_address={shared.address}\n"
        found.append(replace(watched, looks=looks))
    return tuple(found)


def ca_step(spec: ClusterSpec) -> RemoteStep:
    """Read the cluster's CA from the first server's disk over SSH, and never over TLS."""
    stdin, call = {"cluster": spec.name}, kubernetes_call("k3s_ca")
    return script_step(spec.servers[0], "-cluster-ca", stdin, call, READS, CA_DEADLINE_S)


def ca_facts(pem: str) -> str:
    """Turn the CA step's output into the facts for which the balancer's step waits."""
    return json.dumps({"pem_one_line": base64.b64encode(pem.encode()).decode()})


def render_haproxy(spec: ClusterSpec, host: Host, plane: K3sPlane) -> str:
    """HAProxy's configuration: plain TCP, and a server gets connections only while its API answers.

    Each of two balancers also listens at their common address, even without holding it
    (`transparent`), and answers keepalived at a separate socket.

    200 or 401 means that the API answers (K3s asks for a certificate), 503 that it is not ready; a
    hung API does not answer. All servers are listed from the start: the check keeps out those that
    have not joined. Until it finds a lost server, a failed connection is retried at another.
    """
    shared, port = plane.virtual_address, plane.api_port
    servers = (f"    server {each.name} {each.address}:{port} check" for each in spec.servers)
    return file_text(
        "haproxy.cfg",
        address=host.address,
        port=port,
        shared=f"    bind {shared.address}:{port} transparent" if shared else "",
        # A hung HAProxy does not answer keepalived there, though its socket accepts.
        health=file_text("haproxy_health.cfg", socket=HEALTH_SOCKET) if shared else "",
        check=CHECK,
        ca=CA_FILE,
        servers="\n".join(servers),
    )


def render_keepalived(spec: ClusterSpec, host: Host, shared: VirtualAddress) -> str:
    """The configuration of keepalived; it includes a file that names the host's interface.

    The balancers speak only to each other (unicast), and ignore other hosts. VRRP 3 dropped the
    password: that of version 2 went over the wire in clear text. Two failed checks of HAProxy, a
    second apart, take the address away; two good ones let it come back.
    """
    peers = (f"        {each.address}" for each in spec.balancers if each != host)
    return file_text(
        "keepalived.conf",
        router=host.name,
        socket=HEALTH_SOCKET,
        router_id=shared.router_id,
        priority=PRIORITY - 10 * spec.balancers.index(host),
        address=host.address,
        peers="\n".join(peers),
        shared=shared.address,
    )


def plan_filters(spec: ClusterSpec, plane: K3sPlane, stack: str) -> tuple[Watched, ...]:
    """One filter for each host that serves the API; empty if the file does not name networks."""
    if not plane.api_from:
        return ()
    settings = {
        "table": "as-installed",
        **numbered_lines("rules", render_rules(plane)),
        **numbered_lines("unit", file_text("railyard-api-filter.service")),
    }
    allowed, call = " ".join(map(str, _allowed_networks(plane))), kubernetes_call("api_filter")
    found: list[Watched] = []
    for host in (each for each in spec.hosts if each.role in {"control_plane", "balancer"}):
        # Behind a jump host the server sees the jump host, and not the API's client.
        way = "jump" if host_endpoint(host).jump else "direct"
        own = {"allowed": allowed, "stack": stack, "way": way}
        found.append(_watched_service(host, "api_filter", settings, own, call, FILTER_DEADLINE_S))
    return tuple(found)


def _allowed_networks(plane: K3sPlane) -> tuple[IPv4Network, ...]:
    """The networks in the file, and that of the pods, which call from their own address."""
    return tuple(collapse_addresses((*plane.api_from, plane.pod_cidr)))


def render_rules(plane: K3sPlane) -> str:
    """The table, which replaces the earlier one in one transaction of the kernel.

    A packet from elsewhere is dropped without an answer: a joining server would take a refused
    connection for a host without an API, and begin a second cluster. A node reaches its own API
    over the loopback device. Nodes have IPv4 addresses, so the API gets no IPv6 traffic.
    """
    allowed, port = ", ".join(map(str, _allowed_networks(plane))), plane.api_port
    return file_text("api_filter.nft", allowed=allowed, priority=FILTER_PRIORITY, port=port)


def _watched_service(
    host: Host,
    verb: str,
    settings: Mapping[str, str],
    parameters: Mapping[str, str],
    apply: ToolCall,
    deadline_s: float,
) -> Watched:
    """A service on a host for the API: `verb` names the scripts, and the step."""
    name = verb.replace("_", "-")
    settings = {"service.active": "active", "service.enabled": "enabled", **settings}
    undo, stdin = kubernetes_call(f"{verb}_undo"), {**settings, **parameters}
    return Watched(
        f"{host.name} {name}",
        script_step(host, f"-{name}", stdin, apply, undo, deadline_s),
        HostState(settings),
        kubernetes_call(f"{verb}_observe"),
        frozenset(parameters) - {"stack"},
    )
