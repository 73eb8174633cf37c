"""Where a cluster is found at the moment of use: names and addresses, never a secret."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from components.core.plain_text import Facts, fill_known
from components.core.to_json import OMIT_EMPTY
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint, bracketed

DEFAULT_API_PORT: Final = 6443
KUBEADM_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
"""Where kubeadm writes it, and kubespray leaves it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of our own cluster: where its kubeconfig is read, and where its API answers."""

    endpoint: Endpoint
    url: str
    kubeconfig: str = field(default="", metadata=OMIT_EMPTY)
    """Path on it of the administrator's kubeconfig, where it is not that of K3s."""
    node: str = field(default="", metadata=OMIT_EMPTY)
    """Name of its node, if it is not that of the host."""

    @property
    def node_name(self) -> str:
        """Name of its node in the cluster."""
        return self.node or self.endpoint.device


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """How a cluster is found. It holds names of secrets, never their values."""

    name: str
    servers: tuple[Server, ...] = ()
    """Of a cluster that we install: its kubeconfig is read from one of them when it is used."""
    kubeconfig_secret: str = ""
    """Of an existing cluster."""
    context: str | None = None

    def known(self, facts: Facts) -> ClusterRef:
        """The same with what is known of the instances, and without servers that are not made."""
        servers = (
            replace(each, endpoint=each.endpoint.known(facts), url=fill_known(each.url, facts))
            for each in self.servers
        )
        return replace(self, servers=tuple(each for each in servers if each.endpoint.reachable))


def refer_to(spec: ClusterSpec, kubernetes: KubernetesPlan | None) -> ClusterRef | None:
    """How the cluster of a site is found, or None for a site without one."""
    if kubernetes is None:
        return None
    if kubernetes.existing is not None:
        secret, context = kubernetes.existing.kubeconfig_secret, kubernetes.existing.context
        return ClusterRef(kubernetes.cluster, (), secret, context)
    nodes = {host.name: host.node_name or "" for host in spec.servers}
    if (plane := spec.kubespray) is not None:
        made = tuple(
            Server(
                host_endpoint(host),
                f"https://{bracketed(host.way.address)}:{plane.api_port}",
                KUBEADM_KUBECONFIG,
                nodes[host.name],
            )
            for host in spec.servers
        )
        return ClusterRef(kubernetes.cluster, made)
    port = spec.k3s.api_port if spec.k3s else DEFAULT_API_PORT
    addresses = {host.name: host.address for host in spec.servers}
    servers = tuple(
        Server(
            step.endpoint,
            kubernetes.server_url
            if len(kubernetes.servers) == 1
            else f"https://{addresses[step.endpoint.device]}:{port}",
            node=nodes[step.endpoint.device],
        )
        for step in kubernetes.servers
    )
    return ClusterRef(kubernetes.cluster, servers)
