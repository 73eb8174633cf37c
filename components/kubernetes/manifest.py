"""One Kubernetes object as a plain value: its fields, its pods, their images."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from components.artefacts.resolve import PULL_SECRET
from components.model.cluster import ClusterSpec

Body: TypeAlias = dict[str, JsonValue]
"""The JSON of one object; the only place of the plan where keys are free."""

WAIT_FOR: Final = "pulumi.com/waitFor"
"""Annotation: a JSONPath or condition that must hold before the object counts as made."""
TIMEOUT: Final = "pulumi.com/timeoutSeconds"
REPAIR: Final = "railyard.dev/repair"
"""Annotation: what was last found changed in the object; another text makes the engine write it."""
HELD: Final = "kubernetes-held"
"""The note of an update that leaves all objects and charts as they are, since the API is dead."""
AGAIN: Final = "-made-again"
"""How the note of an object ends that this update has to make again."""
_SETTLED: Final = {
    "CustomResourceDefinition": "condition=Established",
    "ClusterRole": "jsonpath={.rules[0].verbs[0]}",
}
"""Kind to when the cluster has written its own part into an object: a definition is served, and a
role that is made of other roles has their rules. What is recorded before that differs from what the
next refresh reads, and the engine prints the whole of it in a preview, although nothing of ours
differs. `hide_diffs` is no way: with it the engine prints every object at every refresh."""
_SHARED: Final = frozenset({"CustomResourceDefinition", "Namespace"})
_FROM_OTHERS: Final = "aggregationRule"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and its place in the order."""

    resource_name: str
    """Name of the Pulumi resource: it says the component, so that no two clash."""
    api_version: str
    kind: str
    """As the provider names the type: `<Kind>Patch` for a patch of an object that is not ours."""
    body: Body
    group: int
    """Objects of one group may be made together; a group waits for the one before it."""

    @property
    def is_patch(self) -> bool:
        """It patches an object that is not ours."""
        return self.kind != self.body["kind"]

    @property
    def name(self) -> str:
        """The object's name in the cluster."""
        metadata = self.body["metadata"]
        return str(metadata["name"]) if isinstance(metadata, Mapping) else ""


def outlives(manifest: Manifest, *, foreign: bool) -> bool:
    """Whether an object stays when its stack goes: others may have objects in it.

    With a definition all of its objects go, also those of users; and where one of them has a
    finalizer whose controller went before, the definition never goes at all. Definitions and
    namespaces of a cluster of our own go with it.
    """
    return foreign and manifest.kind in _SHARED


def make_manifest(owner: str, body: Body, group: int) -> Manifest:
    """Make the manifest of an object that is wholly ours.

    Args:
        owner: The component that it belongs to, for example `multus`.
        body: The object, with `apiVersion`, `kind` and `metadata.name`.
        group: Its place in the order.
    """
    metadata = body["metadata"]
    name = metadata["name"] if isinstance(metadata, dict) else ""
    kind = str(body["kind"])
    if kind in _SETTLED and (kind != "ClusterRole" or _FROM_OTHERS in body):
        body = _annotated(body, {WAIT_FOR: _SETTLED[kind], **annotations_of(body)})
    resource_name = f"{owner}-{kind.lower()}-{name}" if name != owner else f"{owner}-{kind.lower()}"
    return Manifest(resource_name, str(body["apiVersion"]), kind, body, group)


def repaired(body: Body, note: str) -> Body:
    """The body with its repair note; as it is without one."""
    return _annotated(body, {**annotations_of(body), REPAIR: note}) if note else body


def annotations_of(body: Body) -> Body:
    """The annotations of an object; empty if it has none."""
    metadata = body.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _annotated(body: Body, annotations: Body) -> Body:
    metadata = body["metadata"]
    found = metadata if isinstance(metadata, dict) else {}
    return {**body, "metadata": {**found, "annotations": annotations}}


def map_at(owner: object, *path: str) -> Mapping[str, Any]:
    """The mapping at a path of keys."""
    found = owner
    for key in path:
        found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def list_at(owner: object, *path: str) -> list[Mapping[str, Any]]:
    """The mappings of the list at a path of keys."""
    found: object = map_at(owner, *path[:-1]).get(path[-1])
    items = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("Mapping[str, Any]", each) for each in items if isinstance(each, Mapping)]


def name_of(body: object) -> str:
    """The object's own name."""
    return str(map_at(body, "metadata").get("name", ""))


_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def pods_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every pod in an object: what has a list of containers."""
    if isinstance(value, list):
        for item in value:
            yield from pods_in(item)
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for item in value.values():
            yield from pods_in(item)


def containers_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every container of every pod in an object."""
    for pod in pods_in(value):
        for key in _LISTS:
            for item in cast("list[JsonValue]", pod.get(key) or []):
                if isinstance(item, dict):
                    yield item


def with_image(body: Body, image: str) -> Body:
    """The same object with another image in all its containers."""
    changed = copy.deepcopy(body)
    for container in containers_in(changed):
        container["image"] = image
    return changed


def pulling(spec: ClusterSpec, body: Body) -> Body:
    """The same object, whose pods pull with the registry's login where the site has one.

    The login is a Secret of their namespace: `components/kubernetes/login.py` makes it.
    """
    registry = spec.sources.registry
    if registry is None or registry.login is None:
        return body
    changed = copy.deepcopy(body)
    for pod in pods_in(changed):
        pod["imagePullSecrets"] = [{"name": PULL_SECRET}]
    return changed
