"""Plans of sites that have Kubernetes."""

from __future__ import annotations

from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import with_instances


def planned(spec: ClusterSpec, stack: str | None = None) -> KubernetesPlan:
    plan = plan_kubernetes(with_instances(spec), stack)
    assert plan is not None
    return plan
