"""Where a cluster is found at the moment of use: names and addresses, never a secret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from components.core.placeholder import Facts, fill_known
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.remote.step import Endpoint

DEFAULT_API_PORT: Final = 6443


@dataclass(frozen=True, slots=True)
class Server:
    """A server of our own K3s: where its kubeconfig is read, and where its API answers."""

    endpoint: Endpoint
    url: str


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """How a cluster is found. It holds names of secrets, never their values."""

    name: str
    servers: tuple[Server, ...] = ()
    """Of a K3s that we install; the kubeconfig is read from one of them at the moment of use."""
    kubeconfig_secret: str = ""
    """Of an existing cluster."""
    context: str | None = None

    def known(self, facts: Facts) -> ClusterRef:
        """The same with what is known of the instances, and without servers that are not made."""
        servers = (
            Server(each.endpoint.known(facts), fill_known(each.url, facts)) for each in self.servers
        )
        return replace(self, servers=tuple(each for each in servers if each.endpoint.reachable))


def refer_to(spec: ClusterSpec, kubernetes: KubernetesPlan | None) -> ClusterRef | None:
    """How the cluster of a site is found, or None for a site without one."""
    if kubernetes is None:
        return None
    if kubernetes.existing is not None:
        secret, context = kubernetes.existing.kubeconfig_secret, kubernetes.existing.context
        return ClusterRef(kubernetes.cluster, (), secret, context)
    port = spec.k3s.api_port if spec.k3s else DEFAULT_API_PORT
    addresses = {host.name: host.address for host in spec.servers}
    servers = tuple(
        Server(
            step.endpoint,
            kubernetes.server_url
            if len(kubernetes.servers) == 1
            else f"https://{addresses[step.endpoint.device]}:{port}",
        )
        for step in kubernetes.servers
    )
    return ClusterRef(kubernetes.cluster, servers)
