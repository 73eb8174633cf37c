"""One read-only look at a cluster: objects of the plan, Helm releases, nodes, what is beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from components.core.errors import RailyardError
from components.drift.device_drift import Unreachable
from components.kubernetes.calls import Calls, KubernetesCalls
from components.kubernetes.client import read_kubeconfig
from components.kubernetes.live.judge import Asked, ClusterLook, ReleaseLook
from components.kubernetes.live.read import Key, Reader
from components.kubernetes.live.release import ReleaseRef, choose_release
from components.kubernetes.live.why import reasons_of
from components.kubernetes.manifest import Body, map_at
from components.kubernetes.reference import ClusterRef
from components.remote.host_session import run_on_hosts
from components.remote.step import env_name

_NODES: Final = "/api/v1/nodes"
_BESIDE: Final = {
    "networking.k8s.io/v1": ("NetworkPolicy", "/apis/networking.k8s.io/v1", "networkpolicies"),
    "v1": ("ResourceQuota", "/api/v1", "resourcequotas"),
}
"""API version to kind, path and plural of what may keep a pod out of its namespace."""


def look_at_cluster(
    ref: ClusterRef,
    secrets: Mapping[str, str],
    asked: Asked,
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> ClusterLook | Unreachable | None:
    """Read what was asked for.

    Returns:
        What was read; why nothing could be read; None where no server has started yet.
    """
    keys = {env_name(name): value for name, value in secrets.items()}
    try:
        run = run_on_hosts((server.endpoint for server in ref.servers), keys)
        kubeconfig = read_kubeconfig(ref, run, secrets)
        return None if kubeconfig is None else read_cluster(connect(kubeconfig), asked)
    except RailyardError as error:
        return Unreachable(str(error))


def read_cluster(calls: Calls, asked: Asked) -> ClusterLook:
    """Read what was asked for.

    Raises:
        DeviceError: The API does not answer, refuses, or has a Helm release of another form.
    """
    reader = Reader(calls)
    live = reader.read(asked.objects)
    releases = {ref: read_release(reader, ref) for ref in asked.releases}
    nodes = reader.list(_NODES) if asked.nodes else []
    return ClusterLook(
        asked=asked,
        live=live,
        releases=releases,
        nodes={str(cast("Body", node["metadata"])["name"]): node for node in nodes},
        beside=tuple(_beside(reader, asked)),
    )


def read_release(reader: Reader, ref: ReleaseRef) -> ReleaseLook:
    """A Helm release, and what is there of its objects and of its chart's definitions.

    Raises:
        DeviceError: The API does not answer, or refuses; or its record cannot be read.
    """
    release = choose_release(reader.list(ref.secrets), ref)
    if release is None:
        return ReleaseLook(None)
    bodies = (*release.definitions, *release.objects)
    return ReleaseLook(release, reader.read(bodies, ref.namespace))


def _beside(reader: Reader, asked: Asked) -> Iterator[Key]:
    paths = {
        f"{root}/namespaces/{namespace}/{plural}": (version, kind, namespace)
        for namespace in asked.namespaces
        for version, (kind, root, plural) in _BESIDE.items()
    }
    for path, bodies in reader.each(reader.list, sorted(paths)).items():
        version, kind, namespace = paths[path]
        for body in bodies:
            yield Key(version, kind, namespace, str(cast("Body", body["metadata"])["name"]))


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
