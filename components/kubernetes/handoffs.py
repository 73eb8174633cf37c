"""The handoffs from the stages before Kubernetes: a gate, and how to reach the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from components.kubernetes.manifest import AGAIN, HELD
from components.kubernetes.planes.base import KubernetesPlan


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Kubernetes answers; `kubeconfig` contains the address that reaches it from here."""

    gate: pulumi.Resource
    plan: KubernetesPlan
    kubeconfig: pulumi.Output[str]
    provider: pulumi.ProviderResource
    login: pulumi.Output[str] | None = None
    """The value of the Secrets with which pods pull; None if the registry wants no login."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Repair notes of this run; those for objects use the names of their resources."""

    def options(self, name: str, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        """The options of an object or a chart, changed by the repair notes of this run."""
        own = pulumi.ResourceOptions(provider=self.provider)
        if HELD in self.notes:
            own.ignore_changes = ["*"]
        elif name + AGAIN in self.notes:
            own.replace_on_changes, own.delete_before_replace = ["metadata"], True
        return pulumi.ResourceOptions.merge(opts, own)


@dataclass(frozen=True, slots=True)
class GpuReady:
    """The GPUs are resources of the cluster."""

    gate: pulumi.Resource
    access: ClusterAccess


@dataclass(frozen=True, slots=True)
class PodNetworkReady:
    """Pods can be attached to the rails."""

    gate: pulumi.Resource
    access: ClusterAccess


@dataclass(frozen=True, slots=True)
class JobsReady:
    """MPI jobs run."""

    gate: pulumi.Resource
    access: ClusterAccess
