"""The one address of two balancers: keepalived moves it to the one whose HAProxy answers.

Sources: keepalived.conf(5) of keepalived 2.2 and 2.3, RFC 9568 (VRRP version 3): see
docs/decisions/0028-two-balancers.md for what was chosen.
"""

from __future__ import annotations

from typing import Final

from components.core.key_values import HostState
from components.drift.watched import Watched
from components.hosts.scripts import through_proxy
from components.kubernetes.planes.haproxy import DEADLINE_S, HEALTH_SOCKET, unit_file
from components.kubernetes.planes.scripts import kubernetes_call, numbered_lines
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import VirtualAddress
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

CHECK: Final = f"/usr/bin/curl -sf --max-time 1 --unix-socket {HEALTH_SOCKET} http://localhost/"
HEALTH_CHECK: Final = (
    "vrrp_script haproxy {",
    f'    script "{CHECK}"',
    "    interval 1",
    "    timeout 2",
    "    fall 2",
    "    rise 2",
    "}",
)
"""Two failed checks, a second apart, take the address away; two good ones let it come back."""
PRIORITY: Final = 150
"""Of the first balancer, out of 1 to 254, and ten less of the next: who begins with the address.
The one that has it keeps it when the other comes back: each move ends all connections."""
_PARAMETERS: Final = frozenset({"address", "virtual_address"})


def plan_keepalived(spec: ClusterSpec, host: Host, shared: VirtualAddress, stack: str) -> Watched:
    """Plan keepalived on one of two balancers."""
    settings = {
        "interface": "of-address",
        "service.active": "active",
        "service.enabled": "enabled",
        **numbered_lines("keepalived.conf", render_keepalived(spec, host, shared)),
        **numbered_lines("unit", unit_file("railyard-keepalived.service")),
    }
    own = {"address": host.address, "virtual_address": str(shared.address), "stack": stack}
    step = RemoteStep(
        name=f"{host.name}-keepalived",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState({**settings, **own}).render(),
        apply=through_proxy(spec, kubernetes_call("keepalived")),
        undo=kubernetes_call("keepalived_undo"),
        deadline_s=DEADLINE_S,
    )
    return Watched(
        f"{host.name} keepalived",
        step,
        HostState(settings),
        kubernetes_call("keepalived_observe"),
        _PARAMETERS,
        looks=f"address={host.address}\nvirtual_address={shared.address}\n",
    )


def render_keepalived(spec: ClusterSpec, host: Host, shared: VirtualAddress) -> str:
    """The configuration of keepalived; the interface is in a file beside it, found on the host.

    The balancers speak to each other alone (unicast), and neither listens to anybody else. VRRP 3
    has no password: that of version 2 went over the wire in clear text.
    """
    peers = [each.address for each in spec.balancers if each != host]
    lines = [
        "include /etc/railyard/keepalived/interface.conf",
        "global_defs {",
        f"    router_id {host.name}",
        "    vrrp_version 3",
        "    vrrp_check_unicast_src",
        "    enable_script_security",
        "    script_user root",
        "}",
        *HEALTH_CHECK,
        "vrrp_instance api {",
        "    state BACKUP",
        "    nopreempt",
        "    interface $INTERFACE",
        f"    virtual_router_id {shared.router_id}",
        f"    priority {PRIORITY - 10 * spec.balancers.index(host)}",
        "    advert_int 1",
        f"    unicast_src_ip {host.address}",
        "    unicast_peer {",
        *(f"        {peer}" for peer in peers),
        "    }",
        "    virtual_ipaddress {",
        f"        {shared.address}/32 dev $INTERFACE",
        "    }",
        "    track_script {",
        "        haproxy",
        "    }",
        "}",
    ]
    return "".join(f"{line}\n" for line in lines)
