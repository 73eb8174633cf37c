"""What every way of installing Kubernetes gives: steps in order, and access at the end.

Access is names and addresses, never a secret: where the cluster is found at the moment of use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from components.core.key_values import parse_state
from components.core.plain_text import Facts, fill_known
from components.core.to_json import OMIT_EMPTY
from components.drift.device_drift import Watched
from components.kubernetes.manifest import (
    RegistryAccount,
)
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
"""How the settings of a node begin that say whether the file of a secret is as it was written."""
AGAIN: Final = "repair="
"""The word of a call with a secret that makes the engine run it again."""


@dataclass(frozen=True, slots=True)
class ExistingAccess:
    """How an existing cluster is reached."""

    kubeconfig_secret: str
    """Name of the secret with the text of a kubeconfig."""
    context: str | None
    """Context to use; None for the current one."""


@dataclass(frozen=True, slots=True)
class Playbooks:
    """The one step of a plane that playbooks install."""

    step: RemoteStep
    endpoints: tuple[Endpoint, ...]
    """Every node: the step logs in to each of them by itself."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KubernetesPlan:
    """The steps of one control plane; none for an existing cluster.

    Order: before a node joins, the machine that had its name before is forgotten; a node's token
    before its install; the first server, then the balancers, then the other servers one after
    another (two that join together are refused by etcd), then all agents at once, then access.
    """

    plane: str
    cluster: str
    """Name of the cluster, and the stable identifier of its Kubernetes provider."""
    server_url: str
    """Address of the API for its users; empty where the secret kubeconfig says it."""
    version: str
    """The release that is installed, or that an existing cluster must run."""
    tokens: tuple[RemoteStep, ...]
    """One per node, in the order of servers and agents."""
    servers: tuple[RemoteStep, ...]
    """In the order in which they join."""
    agents: tuple[RemoteStep, ...]
    access: RemoteStep | None
    """Read-only; prints the administrator's kubeconfig as the first server wrote it."""
    removals: tuple[RemoteStep, ...] = ()
    """One per node of a cluster with several servers: forgets the machine before this one."""
    nodes: tuple[RemoteStep, ...] = ()
    """One per node but an only server: takes the node out before its machine goes."""
    ca: RemoteStep | None = None
    """Read-only; prints the cluster's CA, which the balancer checks the servers by."""
    balancers: tuple[Watched, ...] = field(default=(), metadata=OMIT_EMPTY)
    """HAProxy of each balancer, and what moves the address of two: one after another, so that an
    edit never takes both at once."""
    existing: ExistingAccess | None = None
    logins: tuple[RemoteStep, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per node where the site's registry wants a login."""
    registry: RegistryAccount | None = field(default=None, metadata=OMIT_EMPTY)
    """The account that nodes and pods pull with."""
    agent_tokens: tuple[RemoteStep, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per server where agents have a token of their own."""
    filters: tuple[Watched, ...] = field(default=(), metadata=OMIT_EMPTY)
    """One per host that serves the API, where the file says who reaches it."""
    watched_nodes: tuple[Watched, ...] = ()
    """One per server and agent: its install step, and what that left on the host."""
    playbooks: Playbooks | None = field(default=None, metadata=OMIT_EMPTY)
    """In place of the steps of servers and agents, where a plane has one step for all nodes."""

    @property
    def own_nodes(self) -> tuple[str, ...]:
        """The names of all nodes that this plan makes; none of an existing cluster."""
        if self.playbooks is not None:
            return tuple(end.device for end in self.playbooks.endpoints)
        return tuple(map(node_in, (*self.servers, *self.agents)))

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The steps whose devices are looked at for drift."""
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
        """The steps of the balancers in order: of each, who reaches it, then what it serves."""
        found: dict[str, RemoteStep] = {}
        for each in self.balancers:
            before = self.filter_of(each.step)
            found |= {step.name: step for step in (before, each.step) if step is not None}
        return tuple(found.values())

    def token_of(self, step: RemoteStep) -> RemoteStep | None:
        """The token step of the node that an install step is for."""
        return _by_name(self).get(step.endpoint.device + TOKEN_SUFFIX)

    def removal_of(self, step: RemoteStep) -> RemoteStep | None:
        """The step that forgets the machine which the node of an install step was before."""
        return _by_name(self).get(step.endpoint.device + REMOVAL_SUFFIX)

    def node_of(self, step: RemoteStep) -> RemoteStep | None:
        """The step that keeps the node of an install step in the cluster, and takes it out."""
        return _by_name(self).get(step.endpoint.device + NODE_SUFFIX)

    def filter_of(self, step: RemoteStep) -> RemoteStep | None:
        """The step that says who reaches the API on the host of a step."""
        return _by_name(self).get(step.endpoint.device + FILTER_SUFFIX)

    def chain_of(self, step: RemoteStep) -> tuple[RemoteStep, ...]:
        """All steps of the node of an install step, in order."""
        host, named = step.endpoint.device, _by_name(self)
        chain = (
            self.removal_of(step),
            self.token_of(step),
            named.get(host + AGENT_TOKEN_SUFFIX),
            named.get(host + LOGIN_SUFFIX),
            self.filter_of(step),
            step,
            self.node_of(step),
        )
        return tuple(each for each in chain if each is not None)


def secret_again(step: RemoteStep, note: str) -> RemoteStep:
    """A step with a secret, to be run again if the note of its node says that a secret is lost.

    The number of the note is a word of the call: stdin holds the secret and nothing beside it.
    """
    if step.secret_stdin is None or SECRETS not in note or isinstance(step.apply, str):
        return step
    again = f"{AGAIN}{note.partition(':')[0]}"
    return replace(step, apply=replace(step.apply, arguments=(*step.apply.arguments, again)))


@once
def _by_name(plan: KubernetesPlan) -> Mapping[str, RemoteStep]:
    """The steps beside those that install: each node of a large site has some."""
    beside = (*plan.removals, *plan.tokens, *plan.agent_tokens, *plan.logins, *plan.nodes)
    return {step.name: step for step in (*beside, *(each.step for each in plan.filters))}


def node_in(step: RemoteStep) -> str:
    """The name of the node that an install step of K3s is for."""
    return parse_state(step.desired).values["node"]


class ControlPlane(Protocol):
    """One way of installing Kubernetes; a later one is a module here and a line in `plan.py`."""

    def plan(self, spec: ClusterSpec, stack: str) -> KubernetesPlan:
        """Plan the control plane and its nodes.

        Args:
            spec: The checked site.
            stack: Names the folder on the hosts that says what this stack installed.
        """
        ...


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
