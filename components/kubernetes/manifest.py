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


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it stands in the order."""

    resource_name: str
    """Name of the Pulumi resource: it says the component, so that no two clash."""
    api_version: str
    kind: str
    """As the provider names the type: `<Kind>Patch` for a patch of somebody else's object."""
    body: Body
    group: int
    """Objects of one group may be made together; a group waits for the one before it."""

    @property
    def name(self) -> str:
        """The object's name in the cluster."""
        metadata = self.body["metadata"]
        return str(metadata["name"]) if isinstance(metadata, Mapping) else ""


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
    resource_name = f"{owner}-{kind.lower()}-{name}" if name != owner else f"{owner}-{kind.lower()}"
    return Manifest(resource_name, str(body["apiVersion"]), kind, body, group)
