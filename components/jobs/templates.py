"""What the jobs of a site have in common: names with the number of a run, limits, containers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue, TypeAdapter

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.pod_network.tolerations import tolerations

RUN: Final = "RUN-NUMBER"
"""Takes the place of the run's number in names."""
_BODIES: Final = TypeAdapter(list[Body])
GPU: Final = "nvidia.com/gpu"

JsonObject = dict[str, JsonValue]


def number_objects(objects: tuple[Body, ...], run: int) -> list[Body]:
    """The objects of one run: every name carries the run's number."""
    text = json.dumps([*objects]).replace(RUN, str(run))
    return _BODIES.validate_json(text)


def make_metadata(spec: ClusterSpec, name: str) -> JsonObject:
    """The metadata of an object of a run."""
    return {
        "name": f"{name}-{RUN}",
        "namespace": spec.pod_network.namespace,
        "labels": {"app.kubernetes.io/part-of": "railyard-acceptance"},
    }


def make_limits(resources: Mapping[str, int], gpus: int = 0) -> JsonObject:
    """The limits of a container: RDMA resources, and GPUs if it has any."""
    limits: JsonObject = {**resources}
    return limits | ({GPU: gpus} if gpus else {})


def make_container(image: str, name: str, limits: JsonObject) -> JsonObject:
    """A container that may pin memory."""
    return {
        "name": name,
        "image": image,
        "resources": {"limits": limits},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }


def env_list(values: Mapping[str, str]) -> list[JsonValue]:
    """Variables as Kubernetes takes them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def make_job(spec: ClusterSpec, name: str, pod: JsonObject) -> Body:
    """A Job of one pod that is not tried again: a failure is a result."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": make_metadata(spec, name),
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(spec.acceptance.timeout_s),
            "template": _tolerant(spec, pod),
        },
    }


def _tolerant(spec: ClusterSpec, template: JsonObject) -> JsonObject:
    more, pod = tolerations(spec), template["spec"]
    if not more or not isinstance(pod, dict):
        return template
    tolerant: JsonObject = {**pod, **more}
    return {**template, "spec": tolerant}
