"""Running a probe on the cluster: create its objects, wait for an end, read the log, clean up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from threading import BoundedSemaphore, Lock
from typing import Final, cast

from pydantic import JsonValue

from components.acceptance.collect.waits import (
    ALONE,
    Api,
    Body,
    Patience,
    ProbeWait,
    end_of,
    is_launcher,
    pods_of,
    rail_address,
    why_waiting,
)
from components.acceptance.probes.probe_job import POD_ADDRESS, RAIL_ADDRESS
from components.core.errors import Bug, DeviceError
from components.jobs.templates import ACCEPTANCE, PART_OF
from components.kubernetes.client import Answer, KubernetesCalls
from components.kubernetes.manifest import Body as ManifestBody

CALLS_AT_ONCE: Final = 16
"""Requests to the API under way, of all probes."""
POLL_S: Final = 0.5
"""Seconds between two requests for the state of a running job: a run lasts seconds to minutes."""
LIST_S: Final = 2.0
"""Seconds for which a list of the probes' pods is reused: 1,024 pods are some 5 MB."""
REQUEST_DEADLINE_S: Final = 30.0
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": ("Pod", "Service", "ConfigMap"),
    "batch/v1": ("Job",),
    "kubeflow.org/v2beta1": ("MPIJob",),
    "trainer.kubeflow.org/v1alpha1": ("TrainingRuntime", "TrainJob"),
}
"""API to the kinds that jobs use, all in a namespace."""
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


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
        try:
            return (
                None
                if answer.status == HTTPStatus.NOT_FOUND
                else cast("Body", json.loads(answer.text))
            )
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
                pods = self._listed(folder)
                self._lists[folder] = (self.clock(), pods)
        return pods.get(name) or self.api.get(path)

    def _listed(self, folder: str) -> Mapping[str, Body]:
        try:
            answer = self.api.get(f"{folder}?labelSelector={PART_OF}%3D{ACCEPTANCE}") or {}
        except DeviceError:
            return {}
        listed: list[Body] = answer.get("items") or []
        return {pod["metadata"]["name"]: pod for pod in listed}


@dataclass(frozen=True, slots=True)
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
    if kind not in _KINDS.get(version, ()):
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


def never_preempting(objects: Iterable[ManifestBody], name: str) -> list[ManifestBody]:
    """Set this priority class in all pods of a probe's objects."""
    return [{key: _with_class(value, name) for key, value in body.items()} for body in objects]


def _with_class(value: JsonValue, name: str) -> JsonValue:
    if isinstance(value, list):
        return [_with_class(each, name) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _with_class(each, name) for key, each in value.items()}
    return found | {"priorityClassName": name} if "containers" in found else found


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
            sent = _addressed(api, objects[:number], body, wait)
            api.post(collection_of(body), sent)
        ran = _await_end(api, objects, watched, wait)
        if not ran.ended:
            why = why_waiting(api, objects)
            ran = replace(ran, reason="; ".join(filter(None, (why, ran.reason))))
        elif not ran.succeeded:
            said = _said_by_others(api, objects, watched)
            ran = replace(ran, reason="; ".join((ran.reason, *said)))
    except DeviceError as error:
        ran = ProbeRun(reason=str(error))
    left = _clean(api, objects, clock)
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
            raise DeviceError(f"its server never got an address: {why_waiting(api, posted)}")
        pause()
    return body


def _clean(api: Api, objects: Sequence[Body], clock: Callable[[], float]) -> list[str]:
    """Delete all created objects, and name those that could not be deleted."""
    left: list[str] = []
    for body in reversed(objects):
        try:
            _remove(api, body, clock)
        except DeviceError as error:
            left.append(f"{body['metadata']['name']} is left on the cluster: {error}")
    return left


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


_GONE: Final = "its pod is gone: another pod took its place, or its node was lost"
_LAST_LINES: Final = 4
"""Lines of the other end's log: its last messages, and the line that its script adds."""


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
