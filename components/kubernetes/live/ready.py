"""What of a plan's objects is not ready in the cluster, and why. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from components.core.plain_text import counted
from components.kubernetes.calls import Calls
from components.kubernetes.live.judge import Asked, ReleaseLook
from components.kubernetes.live.look import read_release, why_not_ready
from components.kubernetes.live.read import Reader
from components.kubernetes.live.release import DEPLOYED, ReleaseRef
from components.kubernetes.live.why import NotReady, selects_pods, state_of
from components.kubernetes.manifest import Body, list_at, map_at, name_of

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
        count = counted(len(names), "object")
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
