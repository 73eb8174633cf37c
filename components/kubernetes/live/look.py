"""One read-only look at a cluster: objects of the plan, Helm releases, nodes, what is not ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from components.core.errors import RailyardError
from components.drift.device_drift import Unreachable
from components.kubernetes.client import Calls, KubernetesCalls, read_kubeconfig
from components.kubernetes.live.judge import Asked, ClusterLook, ReleaseLook
from components.kubernetes.live.read import DEPLOYED, Key, Reader, ReleaseRef, choose_release
from components.kubernetes.live.why import NotReady, reasons_of, selects_pods, state_of
from components.kubernetes.manifest import Body, list_at, map_at, name_of
from components.kubernetes.planes.base import ClusterRef
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


POLL_S: Final = 5.0
_SHOWN: Final = 5
"""Objects that are not there, of which names are shown; the rest is counted."""
_OF_POLICIES: Final = frozenset({"ClusterPolicy", "NicClusterPolicy"})
_WORKLOADS: Final = ("daemonsets", "deployments")


def find_not_ready(calls: Calls, asked: Asked) -> tuple[NotReady, ...]:
    """Everything that is not ready: objects, Helm releases, and what an operator started.

    Raises:
        DeviceError: The API does not answer, or refuses.
    """
    reader = Reader(calls)
    releases = {ref: read_release(reader, ref) for ref in asked.releases}
    objects = [*reader.read(asked.objects).objects]
    for each in releases.values():
        objects += each.live.objects
    there = {str(key): live for key, _, live in objects if live is not None}
    found = [*_absent([str(key) for key, _, live in objects if live is None])]
    found += [each for ref, look in releases.items() for each in _release(ref, look)]
    for name, live in there.items():
        found += _object(reader, name, live)
    if any(live.get("kind") in _OF_POLICIES for live in there.values()):
        found += _operands(reader, asked, there)
    return tuple(found)


def await_ready(
    look: Callable[[], tuple[NotReady, ...]],
    deadline_s: float,
    now: Callable[[], float],
    pause: Callable[[float], None],
) -> tuple[NotReady, ...]:
    """Look until all is ready, or the time is over; what then still is not.

    Args:
        look: One look.
        deadline_s: Seconds; 0 looks once.
        now: The time in seconds.
        pause: Waits so many seconds.
    """
    ends_s = now() + deadline_s
    while (found := look()) and now() < ends_s:
        pause(min(POLL_S, max(0.0, ends_s - now())))
    return found


def _absent(names: list[str]) -> Iterator[NotReady]:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        count = "1 object" if len(names) == 1 else f"{len(names)} objects"
        yield NotReady(count, f"not there: {', '.join(names[:_SHOWN])}{more}")


def _release(ref: ReleaseRef, look: ReleaseLook) -> Iterator[NotReady]:
    name = f"Helm release {ref.namespace}/{ref.name}"
    if look.release is None:
        yield NotReady(name, "not there")
    elif look.release.status != DEPLOYED:
        yield NotReady(name, f"its status is {look.release.status}")


def _object(reader: Reader, name: str, live: Body) -> Iterator[NotReady]:
    if held := _held(live):
        yield NotReady(name, held)
    elif state := state_of(live):
        yield NotReady(name, state, why_not_ready(reader, live) if selects_pods(live) else ())


def _held(live: Body) -> str:
    """An object that a finalizer keeps: a controller that is gone never takes it off."""
    metadata = map_at(live, "metadata")
    if metadata.get("deletionTimestamp") is None:
        return ""
    held = cast("list[str]", metadata.get("finalizers") or [])
    finalizers = ", ".join(held)
    conditions = {each.get("type"): each for each in list_at(live, "status", "conditions")}
    left = conditions.get("Terminating", {}).get("message")
    words = f"is being deleted, and held by {finalizers or 'what is in it'}"
    return f"{words} ({left})" if left else words


def _operands(reader: Reader, asked: Asked, there: Mapping[str, Body]) -> Iterator[NotReady]:
    """What an operator started for its policy is no object of any plan."""
    for namespace in sorted({ref.namespace for ref in asked.releases}):
        for plural in _WORKLOADS:
            kind = "DaemonSet" if plural == "daemonsets" else "Deployment"
            for item in reader.list(f"/apis/apps/v1/namespaces/{namespace}/{plural}"):
                name = f"{kind} {namespace}/{name_of(item)}"
                if name not in there:
                    body: Body = {**item, "apiVersion": "apps/v1", "kind": kind}
                    yield from _object(reader, name, body)
