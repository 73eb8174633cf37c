"""Running a probe on the cluster: create its objects, wait for an end, read the log, clean up.

While pods do not run, it says why in the cluster's words. Sources: the conditions and reasons of
Kubernetes' scheduler and kubelet, and the messages of a real kubelet about a network, an image and
a device that it cannot give (docs/howto/real-kernels.md).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from math import inf
from threading import BoundedSemaphore, Lock
from typing import Any, Final, Literal, Protocol, cast

from pydantic import TypeAdapter, ValidationError

from components.acceptance.probes.probe_job import POD_ADDRESS, RAIL_ADDRESS
from components.core.errors import Bug, DeviceError
from components.core.record import record
from components.core.templates import read_table
from components.jobs.templates import ACCEPTANCE, PART_OF
from components.kubernetes.client import CALLS_AT_ONCE, Answer, KubernetesCalls
from components.kubernetes.manifest import list_at

WaitKind = Literal[
    "place", "node", "network", "mount", "image", "config", "start", "ended", "refused"
]
_TABLES: Final[Mapping[str, Mapping[str, Any]]] = read_table(__file__, "waits")
STUCK: Final[frozenset[WaitKind]] = frozenset({"image", "config"})
"""Waits that hardly end without help: an image that cannot be pulled, an absent object."""
_QUIET: Final = frozenset({None, "ContainerCreating", "PodInitializing"})
NOT_PLACED: Final = "is not scheduled"
Body = Mapping[str, Any]
POD_LABELS: Final[Mapping[str, str]] = _TABLES["labels"]
_OF_PHASE: Final = {"Succeeded": "Complete", "Failed": "Failed"}
"""Phase of an ended pod to the matching condition of a Job."""
_IPV4: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_STATUS: Final = TypeAdapter(list[dict[str, Any]])
NETWORK_STATUS: Final = "k8s.v1.cni.cncf.io/network-status"
"""The annotation in which Multus lists a pod's interfaces, before its containers start."""
LOOK_S: Final = 30.0
"""Seconds between two checks why a probe waits: they list its pods and the warnings."""
GIVE_UP_S: Final = 180.0
"""Seconds after which a probe ends if its wait will not end without help. A kubelet tries a pull
again 10, 30, 70 and 150 s after the first; a device plugin registers seconds after its start."""
POLL_S: Final = 0.5
"""Seconds between two requests for the state of a running job: a run lasts seconds to minutes."""
LIST_S: Final = 2.0
"""Seconds for which a list of the probes' pods is reused: 1,024 pods are some 5 MB."""
REQUEST_DEADLINE_S: Final = 30.0
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_GONE: Final = "its pod is gone: another pod took its place, or its node was lost"
_LAST_LINES: Final = 4
"""Lines of the other end's log: its last messages, and the line that its script adds."""


@record
class Wait:
    """One reason why something does not run."""

    kind: WaitKind
    words: str
    """What waits and why, in the cluster's words."""
    look: str

    @property
    def hint(self) -> str:
        """The fix, or the place to look for one."""
        return str(_TABLES["hints"][self.kind])


def _why_waiting(api: Api, objects: Sequence[Body]) -> str:
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
    """Why the pods of some jobs do not run, most telling first; empty if they run.

    If nothing else tells, the last warning about each pod that does not start: it lacks a network
    or a volume. Without one, the last warning about each job: a quota or a policy refuses its pods.
    """
    pods = all_pods(api, objects)
    waits = [
        _wait("place", pod, f"{NOT_PLACED}: {each.get('message', '')}")
        for pod in pods
        for each in list_at(pod, "status", "conditions")
        if (each["type"], each.get("status")) == ("PodScheduled", "False")
    ]
    waits += [why for pod in pods if (why := _hindered(api, pod))]
    if waits:
        return waits
    jobs = [body for body in objects if body["kind"] in POD_LABELS]
    if not jobs and all(pod.get("status", {}).get("phase") == "Running" for pod in pods):
        return []  # the warnings of a namespace are a long list
    warnings: dict[str, list[tuple[Body, Body]]] = {}
    for space in {_space(each) for each in (*jobs, *pods)}:
        path = f"/api/v1/namespaces/{space}/events?fieldSelector=type%3DWarning"
        events: list[Body] = list((api.get(path) or {}).get("items") or [])
        events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
        warnings[space] = [(each["involvedObject"], each) for each in events]
    for pod in pods:
        name, uid = pod["metadata"]["name"], pod["metadata"].get("uid")
        about = warnings[_space(pod)]
        own = [each for at, each in about if (at.get("name"), at.get("uid", uid)) == (name, uid)]
        waits_still = pod.get("status", {}).get("phase") in {None, "Pending"}
        for event in own[-1:] if waits_still else ():
            kind: WaitKind = _TABLES["events"].get(str(event.get("reason")), "start")
            words = f"waits: {event.get('reason', '')}: {event.get('message', '')}"
            waits.append(_wait(kind, pod, words))
    for body in () if waits else jobs:
        job, name = str(body["kind"]), body["metadata"]["name"]
        names = {name, f"{name}-launcher"}
        own = [each for at, each in warnings[_space(body)] if at.get("name") in names]
        look = f"kubectl -n {_space(body)} describe {job.lower()} {name}"
        waits += [Wait("refused", f"{job} {name}: {e.get('message', '')}", look) for e in own[-1:]]
    return waits


def _space(body: Body) -> str:
    return str(body["metadata"]["namespace"])


def _wait(kind: WaitKind, pod: Body, words: str) -> Wait:
    name, verb = pod["metadata"]["name"], "logs" if kind == "ended" else "describe pod"
    return Wait(kind, f"pod {name} {words}".rstrip(": "), f"kubectl -n {_space(pod)} {verb} {name}")


def _hindered(api: Api, pod: Body) -> Wait | None:
    """Find the kubelet's reason not to start a pod or a container, or how a container ended.

    A pod may fail while its job goes on: workers fail before their launcher is made.
    """
    status: Body = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        words = f"was refused by its node: {status['reason']}: {status.get('message', '')}"
        return _wait("node", pod, words)
    keys = ("initContainerStatuses", "containerStatuses")
    states: list[Body] = [each.get("state", {}) for key in keys for each in status.get(key) or ()]
    for state in states:
        waiting: Body = state.get("waiting") or {}
        reason = waiting.get("reason")
        if reason not in _QUIET:
            kind: WaitKind = _TABLES["states"].get(str(reason), "start")
            return _wait(kind, pod, f"waits: {reason}: {waiting.get('message', '')}")
    for state in states:
        ended: Body = state.get("terminated") or {}
        if ended.get("exitCode"):
            path = f"/api/v1/namespaces/{_space(pod)}/pods/{pod['metadata']['name']}/log"
            log = api.text(path)
            said = ended.get("message") or next(reversed(log.strip().splitlines()), "")
            words = f"{ended.get('reason', '')}, exit code {ended['exitCode']}: {said}"
            return _wait("ended", pod, f"failed: {words}")
    return None


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


def end_of(current: Body) -> str | None:
    """How a job or a pod ended: None while it runs; an empty text if it ended well; else why."""
    status: Body = current.get("status", {})
    ended = _OF_PHASE.get(str(status.get("phase")))
    conditions = list_at(status, "conditions")
    if ended:
        conditions = [{**status, "type": ended, "status": "True"}]
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


@record
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
            waits = find_waits(api, objects)
            kinds = {each.kind for each in waits}
            if waits:
                self._patience.tell(waits[0].words)
            if "place" in kinds and self._patience.place_s is not None:
                self._limit_s = self._patience.place_s
            else:
                stuck = kinds & STUCK or ("place" in kinds and self._patience.lacks())
                self._limit_s = GIVE_UP_S if stuck else inf
            self._looked_s = now
            self._hoped_s = now if self._limit_s == inf else self._hoped_s
        return now - self._hoped_s >= self._limit_s or now - self._begun_s >= self._deadline_s

    @property
    def words(self) -> str:
        """Say after how long the probe was given up, if before its deadline."""
        waited_s = self._clock() - self._begun_s
        return f"given up after {waited_s:.0f} s" if waited_s < self._deadline_s else ""


class KubernetesApi:
    """`Api` over HTTP, from the text of a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        """Read the kubeconfig; nothing is connected yet."""
        self._calls = KubernetesCalls(kubeconfig, REQUEST_DEADLINE_S)
        self._gate = BoundedSemaphore(CALLS_AT_ONCE)

    def _call(self, method: str, path: str, body: Body | None = None) -> Answer:
        with self._gate:
            answer = self._calls.call(method, path, body)
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            raise DeviceError(f"the cluster refused {method} {path}: {answer.status} {answer.text}")
        return answer

    def get(self, path: str) -> Body | None:
        """Read one object or list."""
        answer = self._call("GET", path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        try:
            return cast("Body", json.loads(answer.text))
        except ValueError as error:
            raise DeviceError(f"the cluster answered GET {path} with no JSON: {error}") from error

    def text(self, path: str) -> str:
        """Read a log."""
        return self._call("GET", path).text

    def post(self, path: str, body: Body) -> None:
        """Create one object."""
        if self._call("POST", path, body).status == HTTPStatus.NOT_FOUND:
            raise DeviceError(
                f"the cluster does not serve {path}: is the operator of that kind installed?"
            )

    def delete(self, path: str) -> None:
        """Delete one object; it stays until all that it owns is gone."""
        self._call("DELETE", f"{path}?propagationPolicy=Foreground")


class Absent(KubernetesApi):
    """`Api` of an unreachable cluster: it raises the reason, which then appears in the evidence."""

    def __init__(self, why: str) -> None:
        self.why = why

    def _call(self, method: str, path: str, body: Body | None = None) -> Answer:
        del method, path, body
        raise DeviceError(self.why)


@dataclass
class PodList:
    """`Api` that answers questions about the probes' pods from one list of all of them.

    It asks the cluster about a pod outside the list, and therefore finds a new one; a pod is gone
    only if the cluster does not know it. Without a list it asks for each pod separately.
    """

    api: Api
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(default_factory=Lock, init=False)
    _lists: dict[str, tuple[float, Mapping[str, Body]]] = field(
        default_factory=dict[str, tuple[float, Mapping[str, Body]]], init=False
    )

    def __post_init__(self) -> None:
        """Hand all other calls on."""
        self.text, self.post, self.delete = self.api.text, self.api.post, self.api.delete

    def get(self, path: str) -> Body | None:
        """Read one object or list, or find a pod in the list of its namespace."""
        folder, _, name = path.rpartition("/")
        if not folder.endswith("/pods") or "?" in name:
            return self.api.get(path)
        with self._lock:
            now, known = self.clock(), self._lists.get(folder)
            since, pods = known or (now - LIST_S, dict[str, Body]())
            if now - since >= LIST_S:
                try:
                    answer = self.api.get(f"{folder}?labelSelector={PART_OF}%3D{ACCEPTANCE}") or {}
                except DeviceError:
                    answer: Body = {}
                pods = {pod["metadata"]["name"]: pod for pod in answer.get("items") or ()}
                self._lists[folder] = (self.clock(), pods)
        return pods.get(name) or self.api.get(path)


@record
class ProbeRun:
    """One run of one probe on the cluster."""

    log: str = ""
    ended: bool = False
    """The job ended within the deadline, without being stopped."""
    succeeded: bool = False
    reason: str = ""
    """Why it did not end well, in the cluster's words; empty when it did."""


def collection_of(body: Body) -> str:
    """The path at which the API creates an object; Bug if jobs do not use this kind."""
    version, kind = body["apiVersion"], body["kind"]
    if kind not in _TABLES["kinds"].get(version, ()):
        raise Bug(f"a probe cannot create {kind} of {version}. Please open an issue.")
    root, space = "api" if version == "v1" else "apis", body["metadata"].get("namespace")
    return f"/{root}/{version}/namespaces/{space}/{kind.lower()}s"


def path_of(body: Body) -> str:
    """The path of an object in the API."""
    return f"{collection_of(body)}/{body['metadata']['name']}"


@contextmanager
def lend_class(api: Api, name: str) -> Generator[tuple[str, str]]:
    """Lend a priority class to the pods of one run: its name, or an empty text, and a sentence.

    Only a class can keep a pod from preempting others: Kubernetes refuses a pod whose own
    `preemptionPolicy` differs from its class (`plugin/pkg/admission/priority/admission.go`).
    """
    body: Body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": {PART_OF: ACCEPTANCE}},
        "value": 0,
        "preemptionPolicy": "Never",
    }
    try:
        api.delete(f"{_CLASSES}/{name}")  # of a killed run
        api.post(_CLASSES, body)
    except DeviceError as error:
        yield "", f"the cluster's default, which may preempt others: {error}"
        return
    try:
        yield name, "0, and they preempt no other pod"
    finally:
        with suppress(DeviceError):
            api.delete(f"{_CLASSES}/{name}")


def run_probe(
    api: Api,
    objects: Sequence[Body],
    watched: Body,
    *,
    deadline_s: float,
    patience: Patience = ALONE,
    clock: Callable[[], float] = time.monotonic,
) -> ProbeRun:
    """Create a probe's objects, wait for the watched job's end, read its log, delete all.

    It never raises for the cluster's sake: if the cluster refuses an object, the run did not end
    and the refusal is its reason. `objects` are in the order of creation.
    """
    try:
        for body in objects:
            _remove(api, body, clock)
        wait = ProbeWait(clock, deadline_s, patience)
        for number, body in enumerate(objects):
            api.post(collection_of(body), _addressed(api, objects[:number], body, wait))
        ran = _await_end(api, objects, watched, wait)
        if not ran.ended:
            why = _why_waiting(api, objects)
            ran = replace(ran, reason="; ".join(filter(None, (why, ran.reason))))
        elif not ran.succeeded:
            said = _said_by_others(api, objects, watched)
            ran = replace(ran, reason="; ".join((ran.reason, *said)))
    except DeviceError as error:
        ran = ProbeRun(reason=str(error))
    left: list[str] = []
    for body in reversed(objects):
        try:
            _remove(api, body, clock)
        except DeviceError as error:
            left.append(f"{body['metadata']['name']} is left on the cluster: {error}")
    return replace(ran, reason="; ".join(filter(None, (ran.reason, *left))))


def _addressed(api: Api, posted: Sequence[Body], body: Body, wait: ProbeWait) -> Body:
    """Fill in the address of the server created before the client, once the server has one."""
    text = json.dumps(body)
    names = [name for name in (RAIL_ADDRESS, POD_ADDRESS) if name in text]
    while names:
        server = api.get(path_of(posted[-1]))
        if server is None:
            raise DeviceError(f"its server never got an address: {_GONE}")
        found = server.get("status", {}).get("podIP", "")
        found = rail_address(server) if names == [RAIL_ADDRESS] else found
        if found:
            return cast("Body", json.loads(text.replace(names[0], found)))
        if end_of(server) is not None or wait.is_over(api, posted):
            raise DeviceError(f"its server never got an address: {_why_waiting(api, posted)}")
        pause()
    return body


def _remove(api: Api, body: Body, clock: Callable[[], float]) -> None:
    """Delete an object and wait until it is gone, with its pods and the jobs that it owns."""
    deadline = clock() + REQUEST_DEADLINE_S
    api.delete(path_of(body))
    while api.get(path_of(body)) is not None:
        if clock() >= deadline:
            raise DeviceError(f"{body['metadata']['name']} was deleted and does not go away")
        pause()


def pause() -> None:
    """Wait a moment between two polls."""
    time.sleep(POLL_S)  # noqa: TID251 - every loop around it has a deadline and says what it waits for


def _await_end(api: Api, objects: Sequence[Body], body: Body, wait: ProbeWait) -> ProbeRun:
    while True:
        current = api.get(path_of(body))
        end = _GONE if current is None and body["kind"] == "Pod" else end_of(current or {})
        if end is not None or wait.is_over(api, objects):
            reason = wait.words if end is None else end
            return ProbeRun(_log_of(api, body), end is not None, end == "", reason)
        pause()


def _said_by_others(api: Api, objects: Sequence[Body], watched: Body) -> Iterator[str]:
    """The last lines of a failed probe's other jobs: a perftest's server knows why it ended."""
    for body in objects:
        if body["kind"] in {"Job", "Pod"} and body is not watched:
            lines = [line.strip() for line in _log_of(api, body).splitlines() if line.strip()]
            if lines:
                yield f"{body['metadata']['name']}: {' | '.join(lines[-_LAST_LINES:])}"


def _log_of(api: Api, body: Body) -> str:
    logs: list[str] = []
    for pod in pods_of(api, body):
        meta = pod["metadata"]
        if is_launcher(pod) and pod.get("status", {}).get("phase") not in {None, "Pending"}:
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
            logs.append(api.text(path))
    return "".join(logs)
