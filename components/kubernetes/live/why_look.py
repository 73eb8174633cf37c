"""Reading why a workload is not ready: its pods, and the warnings of its namespace. Read-only."""

from __future__ import annotations

from components.kubernetes.fields import map_at
from components.kubernetes.live.read import Reader
from components.kubernetes.live.why import reasons_of
from components.kubernetes.manifest import Body


def why_not_ready(reader: Reader, body: Body) -> tuple[str, ...]:
    """Why the pods of a DaemonSet or Deployment are not ready, a line each.

    Raises:
        DeviceError: The API does not answer, or refuses.
    """
    labels = map_at(body, "spec", "selector", "matchLabels")
    selector = ",".join(f"{key}%3D{value}" for key, value in sorted(labels.items()))
    place = f"/api/v1/namespaces/{map_at(body, 'metadata')['namespace']}"
    pods = reader.list(f"{place}/pods?labelSelector={selector}") if selector else []
    return reasons_of(pods, reader.list(f"{place}/events?fieldSelector=type%3DWarning"))
