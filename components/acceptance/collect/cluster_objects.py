"""What a probe, and a job that is followed, read of a cluster: objects, conditions, pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

Body = Mapping[str, Any]

POD_LABELS: Final = {
    "Job": "job-name",
    "MPIJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",
}
"""What runs pods to the label by which they are found; Trainer names its JobSet as the TrainJob."""


class Api(Protocol):
    """The three verbs that a probe needs."""

    def get(self, path: str) -> Body | None:
        """The object, or None when there is none."""
        ...

    def text(self, path: str) -> str:
        """A log, as text."""
        ...

    def post(self, path: str, body: Body) -> None:
        """Create an object."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object and what it owns; no error when there is none."""
        ...


def conditions_of(current: Body) -> list[Body]:
    """The conditions of a job or a pod."""
    return list(current.get("status", {}).get("conditions") or [])


def end_of(current: Body) -> str | None:
    """How a job ended: None while it runs; an empty text when it ended well; else the reason."""
    for condition in conditions_of(current):
        if condition.get("status") != "True":
            continue
        if condition["type"] in {"Succeeded", "Complete"}:
            return ""
        if condition["type"] == "Failed":
            return f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
    return None


def pods_of(api: Api, body: Body) -> list[Body]:
    """The pods of a job."""
    namespace = body["metadata"]["namespace"]
    name = body["metadata"]["name"]
    label = POD_LABELS[body["kind"]]
    answer = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={label}%3D{name}")
    return list((answer or {}).get("items") or [])


def is_launcher(pod: Body) -> bool:
    """Whether the pod speaks for its job: an MPIJob's launcher, and every pod of another job."""
    role = pod["metadata"].get("labels", {}).get("training.kubeflow.org/job-role", "launcher")
    return role == "launcher"
