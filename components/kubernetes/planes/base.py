"""What every way of installing Kubernetes gives: steps in order, and access at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from components.model.cluster import ClusterSpec
from components.remote.step import RemoteStep


@dataclass(frozen=True, slots=True)
class KubernetesPlan:
    """The steps of one control plane.

    Order: a node's token before its install; the first server, then the other servers one after
    another (two that join together are refused by etcd), then all agents at once, then access.
    """

    plane: str
    cluster: str
    """Name of the cluster, and the stable identifier of its Kubernetes provider."""
    server_url: str
    tokens: tuple[RemoteStep, ...]
    """One per node, in the order of servers and agents."""
    servers: tuple[RemoteStep, ...]
    """In the order in which they join."""
    agents: tuple[RemoteStep, ...]
    access: RemoteStep
    """Read-only; prints the administrator's kubeconfig as the first server wrote it."""

    @property
    def steps(self) -> tuple[RemoteStep, ...]:
        """All steps in an order in which they may run."""
        return (*self.tokens, *self.servers, *self.agents, self.access)

    def token_of(self, step: RemoteStep) -> RemoteStep | None:
        """The token step of the node that an install step is for."""
        name = step.endpoint.device
        return next((token for token in self.tokens if token.endpoint.device == name), None)


class ControlPlane(Protocol):
    """One way of installing Kubernetes; a later one is a module here and a line in `plan.py`."""

    def plan(self, spec: ClusterSpec, stack: str) -> KubernetesPlan:
        """Plan the control plane and its nodes.

        Args:
            spec: The checked site.
            stack: Names the folder on the hosts that says what this stack installed.
        """
        ...
