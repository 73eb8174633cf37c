"""One Kubernetes object of a plan, as a plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

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
        body = _awaited(body, _SETTLED[kind])
    resource_name = f"{owner}-{kind.lower()}-{name}" if name != owner else f"{owner}-{kind.lower()}"
    return Manifest(resource_name, str(body["apiVersion"]), kind, body, group)


def _awaited(body: Body, condition: str) -> Body:
    return _annotated(body, {WAIT_FOR: condition, **annotations_of(body)})


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
