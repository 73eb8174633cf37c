"""The rights that readings of a cluster, objects and charts need, as rules of RBAC. Pure.

Source: Kubernetes' documentation of RBAC ("Privilege escalation prevention": `escalate` on roles,
`bind` on the roles of bindings), and the requests of each room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from components.catalogue.cluster_parts import TABLE
from components.kubernetes.manifest import Body, map_at, name_of
from components.model.cluster import ClusterSpec
from components.model.owners import owners_of

READS: Final = ("get", "list", "watch")
MAKES: Final = (*READS, "create", "patch", "delete")
_NAMED: Final = ("get", "patch", "delete")
"""Verbs that RBAC can limit to names; `list` and `create` have none."""
RBAC: Final = "rbac.authorization.k8s.io"
_PLURALS: Final = {"NetworkAttachmentDefinition": "network-attachment-definitions"}
"""Kinds with an irregular plural."""
_LOOKS: Final = (
    *(("", each) for each in ("nodes", "namespaces", "pods", "events", "configmaps")),
    ("", "resourcequotas"),
    *(("apps", each) for each in ("daemonsets", "deployments", "replicasets")),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("networking.k8s.io", "networkpolicies"),
    ("node.k8s.io", "runtimeclasses"),
)
"""Resources that every reading of a cluster needs, for any site."""
_OF_CHARTS: Final = (
    *(("", each) for each in ("serviceaccounts", "secrets", "configmaps", "services", "pods")),
    *(("apps", each) for each in ("daemonsets", "deployments")),
    ("batch", "jobs"),
    *((RBAC, each) for each in ("roles", "rolebindings")),
)
"""Resources that Helm creates from operators' charts in their namespaces, and its own records."""
_OF_CHARTS_EVERYWHERE: Final = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    *((RBAC, each) for each in ("clusterroles", "clusterrolebindings")),
    ("nfd.k8s-sigs.io", "nodefeaturerules"),
    ("nvidia.com", "clusterpolicies"),
    ("mellanox.com", "nicclusterpolicies"),
)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Verbs on one resource."""

    namespace: str
    """Empty for the whole cluster."""
    group: str
    resource: str
    names: tuple[str, ...]
    """Allowed object names; empty for all."""
    verbs: tuple[str, ...]

    def words(self) -> str:
        """Describe the right: `create, patch daemonsets in kube-system`."""
        named = f" {', '.join(self.names)}" if self.names else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{', '.join(self.verbs)} {self.resource}{named}{place}"


def of_looks(*more: tuple[str, str]) -> Iterator[Right]:
    """Yield the rights for every reading of a cluster, and to read further groups' resources."""
    for group, resource in (*_LOOKS, *more):
        yield Right("", group, resource, (), READS)


def joined(rights: Iterable[Right]) -> Iterator[Right]:
    """Merge the verbs for the same resource and names."""
    found: dict[tuple[str, str, str, tuple[str, ...]], dict[str, None]] = {}
    for each in rights:
        key = (each.namespace, each.group, each.resource, each.names)
        found.setdefault(key, {}).update(dict.fromkeys(each.verbs))
    for (namespace, group, resource, names), verbs in found.items():
        wide = [found.get((place, group, resource, ()), {}) for place in {"", namespace}]
        granted = {verb for each in wide if each is not verbs for verb in each}
        if left := tuple(verb for verb in verbs if verb not in granted):
            yield Right(namespace, group, resource, names, left)


def of_object(body: Body) -> Iterator[Right]:
    """Yield the rights to create, change and delete an object, and to grant the rights in it."""
    version, kind = str(body["apiVersion"]), str(body["kind"])
    group = version.partition("/")[0] if "/" in version else ""
    word = kind.lower()
    resource = _PLURALS.get(kind, f"{word[:-1]}ies" if word.endswith("y") else f"{word}s")
    namespace = str(map_at(body, "metadata").get("namespace") or "")
    if kind == "Node":
        return  # only labels are patched: see _of_nodes
    if kind in {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}:
        yield Right("", group, resource, (name_of(body),), _NAMED)
        yield Right("", group, resource, (), ("list", "watch", "create"))
    else:
        yield Right(namespace, group, resource, (), MAKES)
    if kind in {"ClusterRole", "Role"}:
        yield Right(namespace, group, resource, (name_of(body),), ("escalate",))
    if kind in {"ClusterRoleBinding", "RoleBinding"}:
        role = map_at(body, "roleRef")
        bound = f"{str(role['kind']).lower()}s"
        yield Right(namespace, group, bound, (str(role["name"]),), ("bind",))


def of_charts(namespaces: Iterable[str]) -> Iterator[Right]:
    """Yield the rights to install charts; these contain roles, and the installer grants them."""
    grants = {"roles": ("escalate", "bind"), "clusterroles": ("escalate", "bind")}
    spaces = tuple(dict.fromkeys(namespaces))
    for namespace in spaces:
        for group, resource in _OF_CHARTS:
            verbs = (*MAKES, "update", *grants.get(resource, ()))
            yield Right(namespace, group, resource, (), verbs)
        yield Right("", "", "namespaces", (), ("create",))
        yield Right("", "", "namespaces", (namespace,), ("patch",))
    for group, resource in _OF_CHARTS_EVERYWHERE if spaces else ():
        yield Right("", group, resource, (), (*MAKES, "update", *grants.get(resource, ())))


def of_jobs(spec: ClusterSpec, objects: Iterable[Body]) -> Iterator[Right]:
    """Yield the rights for probes and users' jobs: create, watch, read and delete."""
    for body in objects:
        yield from of_object(body)
    namespace = spec.pod_network.namespace
    yield Right(namespace, "", "pods", (), MAKES)
    yield Right(namespace, "", "pods/log", (), ("get",))
    if owners_of(spec)["trainer"] != "none":
        for definition in TABLE["trainer"].definitions:
            resource, _, group = definition.name.partition(".")
            yield Right(namespace, group, resource, (), MAKES)


def role_of(name: str, namespace: str, rights: Iterable[Right], subject: Body) -> tuple[Body, Body]:
    """Return the role with the rights in one namespace, and its binding to a subject."""
    kind = "Role" if namespace else "ClusterRole"
    rules: list[JsonValue] = [
        {
            "apiGroups": [each.group],
            "resources": [each.resource],
            **({"resourceNames": [*each.names]} if each.names else {}),
            "verbs": [*each.verbs],
        }
        for each in rights
        if each.namespace == namespace
    ]
    metadata: Body = {"name": name, **({"namespace": namespace} if namespace else {})}
    head: Body = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}
    reference: Body = {"apiGroup": RBAC, "kind": kind, "name": name}
    binding: Body = {"kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}
    return {**head, "rules": rules}, {**head, **binding}
