"""Where the API serves an object, by its kind."""

from __future__ import annotations

from typing import Final

from components.core.errors import Bug
from lab.cluster.document import Doc, name_of, text_at

_PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "Job": "jobs",
    "Namespace": "namespaces",
    "NetworkAttachmentDefinition": "network-attachment-definitions",
    "Pod": "pods",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
_OF_THE_CLUSTER: Final = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}
)


def place_of(body: Doc) -> str:
    """The path of an object.

    Raises:
        Bug: The plan has a kind that is not in the table.
    """
    kind, version = text_at(body, "kind"), text_at(body, "apiVersion")
    if kind not in _PLURALS:
        raise Bug(f"lab/pods/paths.py has no {kind}: add its plural to the table")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = text_at(body, "metadata", "namespace") or "default"
    inside = "" if kind in _OF_THE_CLUSTER else f"/namespaces/{space}"
    return f"{root}{inside}/{_PLURALS[kind]}/{name_of(body)}"
