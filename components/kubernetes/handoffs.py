"""What the stages above Kubernetes hand on: a gate, and how the cluster is reached."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.kubernetes.planes.base import KubernetesPlan


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Kubernetes answers; `kubeconfig` has the address that reaches it from here."""

    gate: pulumi.Resource
    plan: KubernetesPlan
    kubeconfig: pulumi.Output[str]
    provider: pulumi.ProviderResource
    login: pulumi.Output[str] | None = None
    """The value of the Secrets by which pods pull; None where the registry wants no login."""


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
