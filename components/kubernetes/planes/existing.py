"""An existing cluster: nothing is installed, and nothing is removed."""

from __future__ import annotations

from components.core.errors import Bug
from components.kubernetes.login import registry_account
from components.kubernetes.planes.base import ExistingAccess, KubernetesPlan
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
