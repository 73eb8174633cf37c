"""The common result of all ways to install Kubernetes: steps in order, and access at the end.

Access consists of names and addresses, never a secret: it says how to reach the cluster when it is
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from components.core.key_values import parse_state
from components.core.plain_text import Facts, fill_known
from components.core.record import record
from components.core.to_json import OMIT_EMPTY
from components.drift.device_drift import Watched
from components.kubernetes.manifest import RegistryAccount
from components.model.cluster import ClusterSpec
from components.model.once import once
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint, RemoteStep, bracketed

LOGIN_SUFFIX: Final = "-registry-login"
REMOVAL_SUFFIX: Final = "-member-removal"
NODE_SUFFIX: Final = "-node"
TOKEN_SUFFIX: Final = "-k3s-token"  # noqa: S105 - the end of a name, no secret
AGENT_TOKEN_SUFFIX: Final = "-k3s-agent-token"  # noqa: S105 - the end of a name, no secret
FILTER_SUFFIX: Final = "-api-filter"
SECRETS: Final = "k3s-secrets"
"""Prefix of a node's settings that compare the file of a secret with its written form."""
AGAIN: Final = "repair="
"""The argument of a call with a secret that makes the engine run it again."""
DEFAULT_API_PORT: Final = 6443
KUBEADM_KUBECONFIG: Final = "/etc/kubernetes/admin.conf"
"""kubeadm's path, which kubespray keeps."""


@record
class ExistingAccess:
    """How to reach an existing cluster."""

    kubeconfig_secret: str
    """Name of the secret with the text of a kubeconfig."""
    context: str | None
    """Context to use; None for the current one."""


@record
class Playbooks:
    """The one step of a plane that uses playbooks."""

    step: RemoteStep
    endpoints: tuple[Endpoint, ...]
    """Every node: the step opens its own SSH connection to each."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KubernetesPlan:
    """The steps of one control plane; empty for an existing cluster.

    Order: before a node joins, the cluster forgets the earlier machine of that name; a node's token
    before its install; the first server, then the balancers, then the other servers one after
    another (etcd refuses two that join together), then all agents at once, then access.
    """

    plane: str
    cluster: str
    """Name of the cluster, and the stable identifier of its Kubernetes provider."""
    server_url: str
    """Address of the API for its users; empty if the secret kubeconfig gives it."""
    version: str
    """The release to install, or the one that an existing cluster must run."""
    tokens: tuple[RemoteStep, ...] = ()
    """One per node, in the order of servers and agents."""
    servers: tuple[RemoteStep, ...] = ()
    """In the order in which servers join."""
    agents: tuple[RemoteStep, ...] = ()
    access: RemoteStep | None = None
    """Read-only; prints the administrator's kubeconfig as the first server wrote it."""
    removals: tuple[RemoteStep, ...] = ()
    """One per node of a cluster with several servers: forgets the earlier machine of that name."""
    nodes: tuple[RemoteStep, ...] = ()
    """One per node except an only server: removes the node before its machine is uninstalled."""
    ca: RemoteStep | None = None
    """Read-only; prints the cluster's CA, with which the balancer verifies the servers."""
    balancers: tuple[Watched, ...] = field(default=(), metadata=OMIT_EMPTY)
    """HAProxy of each balancer, and keepalived of two: one after another, to keep an edit from
    stopping both at once."""
    existing: ExistingAccess | None = None
    logins: tuple[RemoteStep, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per node if the site's registry wants a login."""
    registry: RegistryAccount | None = field(default=None, metadata=OMIT_EMPTY)
    """The account that nodes and pods pull with."""
    agent_tokens: tuple[RemoteStep, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per server if agents have a separate token."""
    filters: tuple[Watched, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per host that serves the API, if the file names the networks that may reach it."""
    watched_nodes: tuple[Watched, ...] = ()
    """One per server and agent: its install step, and the settings on the host."""
    playbooks: Playbooks | None = field(default=None, metadata=OMIT_EMPTY)
    """Replaces the steps of servers and agents if a plane has one step for all nodes."""

    @property
    def installs(self) -> tuple[RemoteStep, ...]:
        """The install steps of all nodes, servers first."""
        return (*self.servers, *self.agents)

    @property
    def own_nodes(self) -> tuple[str, ...]:
        """The names of all nodes that this plan makes; empty for an existing cluster."""
        if self.playbooks is not None:
            return tuple(end.device for end in self.playbooks.endpoints)
        return tuple(map(node_in, self.installs))

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The steps whose devices are checked for drift."""
        return (*self.balancers, *self.filters, *self.watched_nodes)

    @property
    def steps(self) -> tuple[RemoteStep, ...]:
        """All steps in an order in which they may run."""
        found: list[RemoteStep] = []
        for number, server in enumerate(self.servers):
            found += self.chain_of(server)
            if number == 0:
                found += [self.ca] if self.ca else []
                found += self.balancing
        for agent in self.agents:
            found += self.chain_of(agent)
        found += [self.playbooks.step] if self.playbooks else []
        return (*found, *([self.access] if self.access else []))

    @property
    def balancing(self) -> tuple[RemoteStep, ...]:
        """The steps of the balancers in order: for each, its packet filter, then HAProxy."""
        found: dict[str, RemoteStep] = {}
        for each in self.balancers:
            before = self.beside(each.step, FILTER_SUFFIX)
            found |= {step.name: step for step in (before, each.step) if step is not None}
        return tuple(found.values())

    def beside(self, step: RemoteStep, suffix: str) -> RemoteStep | None:
        """The step for the node of an install step whose name has this suffix."""
        return _by_name(self).get(step.endpoint.device + suffix)

    def chain_of(self, step: RemoteStep) -> tuple[RemoteStep, ...]:
        """All steps of the node of an install step, in order."""
        before = (REMOVAL_SUFFIX, TOKEN_SUFFIX, AGENT_TOKEN_SUFFIX, LOGIN_SUFFIX, FILTER_SUFFIX)
        chain = (*(self.beside(step, each) for each in before), step)
        return tuple(each for each in (*chain, self.beside(step, NODE_SUFFIX)) if each is not None)


def secret_again(step: RemoteStep, note: str) -> RemoteStep:
    """Make a step with a secret run again if its node's note says that a secret is lost.

    The number of the note is an argument of the call, because stdin holds only the secret.
    """
    if step.secret_stdin is None or SECRETS not in note or isinstance(step.apply, str):
        return step
    again = f"{AGAIN}{note.partition(':')[0]}"
    return replace(step, apply=replace(step.apply, arguments=(*step.apply.arguments, again)))


@once
def _by_name(plan: KubernetesPlan) -> Mapping[str, RemoteStep]:
    """The steps by name, without those that install: each node of a large site has some."""
    beside = (*plan.removals, *plan.tokens, *plan.agent_tokens, *plan.logins, *plan.nodes)
    return {step.name: step for step in (*beside, *(each.step for each in plan.filters))}


def node_in(step: RemoteStep) -> str:
    """The name of the node in an install step of K3s."""
    return parse_state(step.desired).values["node"]


@record
class Server:
    """A server of our own cluster: how to read its kubeconfig, and the URL of its API."""

    endpoint: Endpoint
    url: str
    kubeconfig: str = field(default="", metadata=OMIT_EMPTY)
    """Path of the administrator's kubeconfig on it; empty for the path of K3s."""
    node: str = field(default="", metadata=OMIT_EMPTY)
    """Name of its node, if it is not that of the host."""

    @property
    def node_name(self) -> str:
        """Name of its node in the cluster."""
        return self.node or self.endpoint.device


@record
class ClusterRef:
    """How to reach a cluster. It contains names of secrets, never their values."""

    name: str
    servers: tuple[Server, ...] = ()
    """The servers of a cluster that we install; its kubeconfig is read from one when it is used."""
    kubeconfig_secret: str = ""
    """Name of the secret of an existing cluster."""
    context: str | None = None

    def known(self, facts: Facts) -> ClusterRef:
        """Fill in the known facts of instances, and drop servers that do not exist yet."""
        servers = (
            replace(each, endpoint=each.endpoint.known(facts), url=fill_known(each.url, facts))
            for each in self.servers
        )
        return replace(self, servers=tuple(each for each in servers if each.endpoint.reachable))


def refer_to(spec: ClusterSpec, kubernetes: KubernetesPlan | None) -> ClusterRef | None:
    """How to reach the cluster of a site, or None for a site without one."""
    if kubernetes is None:
        return None
    if kubernetes.existing is not None:
        secret, context = kubernetes.existing.kubeconfig_secret, kubernetes.existing.context
        return ClusterRef(kubernetes.cluster, (), secret, context)
    port = spec.kubernetes.api_port if spec.kubernetes else DEFAULT_API_PORT
    by_kubespray, only = spec.kubespray is not None, len(spec.servers) == 1
    servers = tuple(
        Server(
            host_endpoint(host),
            kubernetes.server_url
            if only
            else f"https://{bracketed(host.way.address if by_kubespray else host.address)}:{port}",
            KUBEADM_KUBECONFIG if by_kubespray else "",
            host.node_name or "",
        )
        for host in spec.servers
    )
    return ClusterRef(kubernetes.cluster, servers)
