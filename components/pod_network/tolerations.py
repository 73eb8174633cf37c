"""What pods need on an existing cluster's workers: tolerations, and the runtime of GPUs."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane

GPU: Final[dict[str, JsonValue]] = {
    "key": "nvidia.com/gpu",
    "operator": "Exists",
    "effect": "NoSchedule",
}
"""What NVIDIA's charts tolerate by default."""
_CONTROL_PLANE: Final[dict[str, JsonValue]] = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def tolerated(spec: ClusterSpec, *before: dict[str, JsonValue]) -> list[JsonValue]:
    """The tolerations of a chart, then those of the file; empty if the file has none."""
    ours = tolerations(spec).get("tolerations")
    if not isinstance(ours, list):
        return []
    return [*before, *(each for each in ours if each not in before)]


def discovery_values(spec: ClusterSpec) -> dict[str, JsonValue]:
    """Node feature discovery as a part of a chart: its workers label the GPU nodes."""
    found = tolerated(spec, _CONTROL_PLANE, GPU)
    return {"node-feature-discovery": {"worker": {"tolerations": found}}} if found else {}


def gpu_runtime(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The RuntimeClass of a pod with GPUs; nothing where the file names none."""
    plane = spec.kubernetes
    name = plane.runtime_class if isinstance(plane, ExistingPlane) else None
    return {"runtimeClassName": name} if name is not None else {}


def tolerations(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The key of a pod's spec; nothing where the file names no taint."""
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane) or not plane.tolerations:
        return {}
    return {
        "tolerations": [
            each.model_dump(mode="json", exclude_none=True) for each in plane.tolerations
        ]
    }
