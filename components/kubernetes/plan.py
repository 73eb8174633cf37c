"""The plan of the control plane, whichever way it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.kubernetes.kubeconfig import render_kubeconfig, renewal_note
from components.kubernetes.planes.base import ControlPlane, KubernetesPlan
from components.kubernetes.planes.existing import Existing
from components.kubernetes.planes.k3s import K3s
from components.kubernetes.planes.kubespray import Kubespray
from components.model.cluster import ClusterSpec

__all__ = ["PLANES", "KubernetesPlan", "plan_kubernetes", "render_kubeconfig", "renewal_note"]

PLANES: Final[Mapping[str, ControlPlane]] = {
    "existing": Existing(),
    "k3s": K3s(),
    "kubespray": Kubespray(),
}
"""`kubernetes.plane` to its planner."""


def plan_kubernetes(spec: ClusterSpec, stack: str | None = None) -> KubernetesPlan | None:
    """Plan the control plane of the site; None for a site without Kubernetes.

    Args:
        spec: The checked site.
        stack: Names the folder on the hosts that says what this stack installed; default the
            cluster's name.
    """
    if spec.kubernetes is None:
        return None
    return PLANES[spec.kubernetes.plane].plan(spec, stack or spec.name)
