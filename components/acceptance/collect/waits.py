"""Why the pods of some jobs do not run, in the cluster's words, and where to look next.

Sources: the conditions and reasons of Kubernetes' scheduler and kubelet, and the messages of a real
    kubelet about a network, an image and a device that it cannot give (docs/howto/real-kernels.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Literal, Protocol

from pydantic import TypeAdapter, ValidationError

WaitKind = Literal[
    "place", "node", "network", "mount", "image", "config", "start", "ended", "refused"
]
_OF_EVENT: Final[Mapping[str, WaitKind]] = {
    "FailedCreatePodSandBox": "network",
    "FailedMount": "mount",
    "FailedAttachVolume": "mount",
    "Failed": "start",
}
"""The kubelet's warnings about a waiting pod, by the event's reason."""
_OF_STATE: Final[Mapping[str, WaitKind]] = {
    "ErrImagePull": "image",
    "ImagePullBackOff": "image",
    "InvalidImageName": "image",
    "ErrImageNeverPull": "image",
    "CreateContainerConfigError": "config",
}
STUCK: Final[frozenset[WaitKind]] = frozenset({"image", "config"})
"""Waits that hardly end without help: an image that cannot be pulled, an object that does not
exist."""
_QUIET: Final = frozenset({None, "ContainerCreating", "PodInitializing"})
_HINTS: Final[Mapping[WaitKind, str]] = {
    "place": "it starts when they are free; `railyard drift` says whether nodes offer too few",
    "node": "its node ran out of these devices or of CPUs: `railyard drift`, or other nodes",
    "network": "`railyard drift` compares attachments, plugins and VFs with the file",
    "mount": "put the mounted object on its node",
    "image": "is the image's name right, and is the registry's login in sources.registry?",
    "config": "the Secret or ConfigMap that it names has to be in its namespace",
    "start": "the image or the node does not fit the job",
    "ended": "its own log says why",
    "refused": "a quota or a policy of the namespace forbids it",
}
NOT_PLACED: Final = "is not scheduled"
Body = Mapping[str, Any]
POD_LABELS: Final = {
    "Job": "job-name",
    "MPIJob": "training.kubeflow.org/job-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",
}
"""Kind to the label of its pods; Trainer gives its JobSet the name of the TrainJob."""
_OF_PHASE: Final = {"Succeeded": "Complete", "Failed": "Failed"}
"""Phase of an ended pod to the matching condition of a Job."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One reason why something does not run."""

    kind: WaitKind
    words: str
    """What waits and why, in the cluster's words."""
    look: str

    @property
    def hint(self) -> str:
        """The fix, or the place to look for one."""
        return _HINTS[self.kind]


def why_waiting(api: Api, objects: Sequence[Body]) -> str:
    """Why a probe did not end, in one line."""
    if waits := find_waits(api, objects):
        return waits[0].words
    phases = ", ".join(
        f"{pod['metadata']['name']} {pod.get('status', {}).get('phase')}"
        for pod in all_pods(api, objects)
    )
    return f"no end within the deadline; pods: {phases or 'none'}"


def all_pods(api: Api, objects: Sequence[Body]) -> list[Body]:
    """The pods of some jobs, in the order of the jobs."""
    return [pod for body in objects for pod in pods_of(api, body)]


def find_waits(api: Api, objects: Sequence[Body]) -> list[Wait]:
    """Why the pods of some jobs do not run, most telling first; empty if they run."""
    pods = all_pods(api, objects)
    waits = [
        _wait("place", pod, f"{NOT_PLACED}: {each.get('message', '')}")
        for pod in pods
        for each in conditions_of(pod)
        if (each["type"], each.get("status")) == ("PodScheduled", "False")
    ]
    waits += [why for pod in pods if (why := _not_started(pod) or _ended(api, pod))]
    if waits:
        return waits
    jobs = [body for body in objects if body["kind"] in POD_LABELS]
    if not jobs and all(pod.get("status", {}).get("phase") == "Running" for pod in pods):
        return []  # the warnings of a namespace are a long list
    warned = {space: _warnings(api, space) for space in {_space(pod) for pod in (*jobs, *pods)}}
    waits = [each for pod in pods for each in _warned(pod, warned[_space(pod)])]
    return waits or [each for body in jobs for each in _refused(body, warned[_space(body)])]


def _space(body: Body) -> str:
    return str(body["metadata"]["namespace"])


def _wait(kind: WaitKind, pod: Body, words: str) -> Wait:
    name, verb = pod["metadata"]["name"], "logs" if kind == "ended" else "describe pod"
    look = f"kubectl -n {_space(pod)} {verb} {name}"
    return Wait(kind, f"pod {name} {words}".rstrip(": "), look)


def _not_started(pod: Body) -> Wait | None:
    """Find the kubelet's reason not to start a pod or a container."""
    status: Body = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        words = f"was refused by its node: {status['reason']}: {status.get('message', '')}"
        return _wait("node", pod, words)
    for container in _containers(pod):
        waiting: Body = container.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason not in _QUIET:
            kind: WaitKind = _OF_STATE.get(str(reason), "start")
            return _wait(kind, pod, f"waits: {reason}: {waiting.get('message', '')}")
    return None


def _ended(api: Api, pod: Body) -> Wait | None:
    """A pod that failed while its job goes on: workers fail before their launcher is made."""
    for container in _containers(pod):
        ended: Body = container.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            path = f"/api/v1/namespaces/{_space(pod)}/pods/{pod['metadata']['name']}/log"
            log = api.text(path)
            said = ended.get("message") or next(reversed(log.strip().splitlines()), "")
            words = f"{ended.get('reason', '')}, exit code {ended['exitCode']}: {said}"
            return _wait("ended", pod, f"failed: {words}")
    return None


def _containers(pod: Body) -> list[Body]:
    status: Body = pod.get("status", {})
    keys = ("initContainerStatuses", "containerStatuses")
    return [each for key in keys for each in status.get(key) or ()]


def _warnings(api: Api, namespace: str) -> list[Body]:
    """The cluster's own warnings, the last one at the end."""
    path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=type%3DWarning"
    events: list[Body] = list((api.get(path) or {}).get("items") or [])
    events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    return events


def _warned(pod: Body, events: Sequence[Body]) -> Iterator[Wait]:
    """Find why a pod does not start on its node: no network, no volume."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    if status.get("phase") not in {None, "Pending"}:
        return
    uid = pod["metadata"].get("uid")
    about = [(each["involvedObject"], each) for each in events]
    own = [each for at, each in about if (at.get("name"), at.get("uid", uid)) == (name, uid)]
    for event in own[-1:]:
        kind: WaitKind = _OF_EVENT.get(str(event.get("reason")), "start")
        yield _wait(kind, pod, f"waits: {event.get('reason', '')}: {event.get('message', '')}")


def _refused(body: Body, events: Sequence[Body]) -> Iterator[Wait]:
    """Why the cluster refuses the pods of a job, such as a quota or a policy: its last warning."""
    name, kind = body["metadata"]["name"], str(body["kind"])
    own = {name, f"{name}-launcher"}
    of_ours = [each for each in events if each["involvedObject"].get("name") in own]
    for event in of_ours[-1:]:
        look = f"kubectl -n {_space(body)} describe {kind.lower()} {name}"
        yield Wait("refused", f"{kind} {name}: {event.get('message', '')}", look)


class Api(Protocol):
    """The three verbs that a probe needs."""

    def get(self, path: str) -> Body | None:
        """The object, or None if it does not exist."""

    def text(self, path: str) -> str:
        """A log, as text."""
        ...

    def post(self, path: str, body: Body) -> None:
        """Create an object."""

    def delete(self, path: str) -> None:
        """Delete an object and its dependents; a missing object raises no error."""


def conditions_of(current: Body) -> list[Body]:
    """The conditions of a job or a pod."""
    return list(current.get("status", {}).get("conditions") or [])


def end_of(current: Body) -> str | None:
    """How a job or a pod ended: None while it runs; an empty text if it ended well; else why."""
    status: Body = current.get("status", {})
    ended = _OF_PHASE.get(str(status.get("phase")))
    conditions = [{**status, "type": ended, "status": "True"}] if ended else conditions_of(current)
    for condition in conditions:
        if condition.get("status") != "True":
            continue
        if condition["type"] in {"Succeeded", "Complete"}:
            return ""
        if condition["type"] == "Failed":
            said = f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
            return said or "its pod failed"
    return None


def pods_of(api: Api, body: Body) -> list[Body]:
    """The pods of a job, or a pod itself; empty for other objects."""
    namespace = body["metadata"].get("namespace")
    name = body["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods"
    if body["kind"] == "Pod":
        pod = api.get(f"{path}/{name}")
        return [] if pod is None else [pod]
    label = POD_LABELS.get(body["kind"])
    answer = api.get(f"{path}?labelSelector={label}%3D{name}") if label else None
    return list((answer or {}).get("items") or [])


def is_launcher(pod: Body) -> bool:
    """Whether the pod speaks for its job: an MPIJob's launcher, and every pod of another job."""
    role = pod["metadata"].get("labels", {}).get("training.kubeflow.org/job-role", "launcher")
    return role == "launcher"


_IPV4: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_STATUS: Final = TypeAdapter(list[dict[str, Any]])
NETWORK_STATUS: Final = "k8s.v1.cni.cncf.io/network-status"
"""The annotation in which Multus lists a pod's interfaces, before its containers start."""


def rail_address(pod: Body) -> str:
    """The IPv4 address of a pod's first attachment, without prefix; empty until it has one."""
    notes: Body = pod["metadata"].get("annotations") or {}
    text: str = notes.get(NETWORK_STATUS) or "[]"
    try:
        rails = [each for each in _STATUS.validate_json(text) if not each.get("default")]
    except ValidationError:
        return ""
    found = _IPV4.search(str(rails[0].get("ips"))) if rails else None
    return found[0] if found else ""


LOOK_S: Final = 30.0
"""Seconds between two checks why a probe waits: they list its pods and the warnings."""
GIVE_UP_S: Final = 180.0
"""Seconds after which a probe ends if its wait will not end without help. A kubelet tries a pull
again 10, 30, 70 and 150 s after the first; a device plugin registers seconds after its start."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a probe, and how to report the wait."""

    place_s: float | None = None
    """Seconds until it is given up if its pods cannot be placed; None for its whole deadline."""
    lacks: Callable[[], bool] = bool
    """Whether its pods would get no place even if all others ended; by default not."""
    tell: Callable[[str], object] = str
    """Receives the reason of the wait; by default it is discarded."""


ALONE: Final = Patience()


class ProbeWait:
    """The wait for one probe."""

    def __init__(self, clock: Callable[[], float], deadline_s: float, patience: Patience) -> None:
        self._clock, self._deadline_s, self._patience = clock, deadline_s, patience
        self._begun_s = self._looked_s = self._hoped_s = clock()
        self._limit_s = inf

    def is_over(self, api: Api, objects: Sequence[Body]) -> bool:
        """Whether the deadline has passed, or the wait has lasted too long to end without help."""
        now = self._clock()
        if now - self._looked_s >= LOOK_S:
            self._looked_s, self._limit_s = now, self._look(api, objects)
            self._hoped_s = now if self._limit_s == inf else self._hoped_s
        return now - self._hoped_s >= self._limit_s or now - self._begun_s >= self._deadline_s

    @property
    def words(self) -> str:
        """Say after how long the probe was given up, if before its deadline."""
        waited_s = self._clock() - self._begun_s
        return f"given up after {waited_s:.0f} s" if waited_s < self._deadline_s else ""

    def _look(self, api: Api, objects: Sequence[Body]) -> float:
        waits = find_waits(api, objects)
        kinds = {each.kind for each in waits}
        if waits:
            self._patience.tell(waits[0].words)
        if "place" in kinds and self._patience.place_s is not None:
            return self._patience.place_s
        stuck = kinds & STUCK or ("place" in kinds and self._patience.lacks())
        return GIVE_UP_S if stuck else inf
