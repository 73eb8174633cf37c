"""The plan of the control plane, whichever way it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.core.errors import Bug
from components.kubernetes.kubeconfig import render_kubeconfig, renewal_note
from components.kubernetes.login import registry_account
from components.kubernetes.planes.base import ControlPlane, ExistingAccess, KubernetesPlan
from components.kubernetes.planes.k3s import K3s
from components.kubernetes.planes.kubespray import Kubespray
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane


class Existing:
    """A plan without a step: the kubeconfig of the secret is the access."""

    def plan(self, spec: ClusterSpec, stack: str) -> KubernetesPlan:
        """Plan access to the cluster.

        Raises:
            Bug: The site installs its own control plane.
        """
        del stack
        plane = spec.kubernetes
        if not isinstance(plane, ExistingPlane):
            raise Bug("a plan of an existing cluster needs kubernetes.plane: existing")
        return KubernetesPlan(
            plane="existing",
            cluster=spec.name,
            server_url="",
            version=plane.version,
            tokens=(),
            servers=(),
            agents=(),
            access=None,
            registry=registry_account(spec),
            existing=ExistingAccess(plane.kubeconfig.name, plane.context),
        )


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
