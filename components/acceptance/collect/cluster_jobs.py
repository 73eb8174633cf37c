"""Running a probe on the cluster: create its objects, wait for an end, read the log, clean up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast

import yaml
from kubernetes import config as kube_config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.core.errors import Bug, DeviceError, UnreachableError

Body = Mapping[str, Any]

POLL_S: Final = 0.5
"""Seconds between two looks at a running job: a run lasts seconds to minutes."""
REQUEST_DEADLINE_S: Final = 30.0
_NOT_FOUND: Final = 404
_FIRST_ERROR: Final = 400

_PATHS: Final = {
    ("v1", "Pod"): "/api/v1/namespaces/{ns}/pods",
    ("v1", "Service"): "/api/v1/namespaces/{ns}/services",
    ("v1", "ConfigMap"): "/api/v1/namespaces/{ns}/configmaps",
    ("batch/v1", "Job"): "/apis/batch/v1/namespaces/{ns}/jobs",
    ("kubeflow.org/v2beta1", "MPIJob"): "/apis/kubeflow.org/v2beta1/namespaces/{ns}/mpijobs",
    (
        "trainer.kubeflow.org/v1alpha1",
        "TrainingRuntime",
    ): "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{ns}/trainingruntimes",
    (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
    ): "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{ns}/trainjobs",
}
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


@dataclass(frozen=True, slots=True)
class Absent:
    """`Api` of a cluster that cannot be reached: every verb says why, so that evidence does."""

    why: str

    def get(self, path: str) -> Body | None:
        """Refuse.

        Raises:
            DeviceError: Always.
        """
        del path
        raise DeviceError(self.why)

    def text(self, path: str) -> str:
        """Refuse, as `get` does."""
        del path
        raise DeviceError(self.why)

    def post(self, path: str, body: Body) -> None:
        """Refuse, as `get` does."""
        del path, body
        raise DeviceError(self.why)

    def delete(self, path: str) -> None:
        """There is nothing to delete."""


class KubernetesApi:
    """`Api` over the official client, from the text of a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        """Read the kubeconfig; nothing is connected yet."""
        document = yaml.safe_load(kubeconfig)
        # The client library ships no types.
        make = cast("Callable[[object], Any]", kube_config.new_client_from_config_dict)  # pyright: ignore[reportUnknownMemberType]
        self._client = make(document)

    def _call(self, method: str, path: str, body: Body | None = None) -> tuple[int, bytes]:
        """Send one request and return its status and its answer."""
        sent = self._client.param_serialize(
            method,
            path,
            header_params={"Accept": "application/json, */*", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*sent, _request_timeout=REQUEST_DEADLINE_S)
            answer.read()
        except (HTTPError, ApiException) as error:
            words = str(error).strip().splitlines()[-1]
            raise UnreachableError(
                f"the cluster did not answer {method} {path}: {words}"
            ) from error
        if answer.status >= _FIRST_ERROR and answer.status != _NOT_FOUND:
            words = answer.data.decode(errors="replace")
            raise DeviceError(f"the cluster refused {method} {path}: {answer.status} {words}")
        return answer.status, answer.data

    def get(self, path: str) -> Body | None:
        """Read one object or list."""
        status, data = self._call("GET", path)
        return None if status == _NOT_FOUND else cast("Body", json.loads(data))

    def text(self, path: str) -> str:
        """Read a log."""
        _, data = self._call("GET", path)
        return data.decode(errors="replace")

    def post(self, path: str, body: Body) -> None:
        """Create one object."""
        status, _ = self._call("POST", path, dict(body))
        if status == _NOT_FOUND:
            raise DeviceError(f"the cluster has no {path}: is the operator of its kind there?")

    def delete(self, path: str) -> None:
        """Delete one object; it stays until all that it owns is gone."""
        self._call("DELETE", f"{path}?propagationPolicy=Foreground")


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One run of one probe on the cluster."""

    log: str
    ended: bool
    """The job came to an end of its own within the deadline."""
    succeeded: bool
    reason: str
    """Why it did not end well, in the cluster's words; empty when it did."""


def collection_of(body: Body) -> str:
    """Where the API creates an object.

    Raises:
        Bug: It is of a kind that no job has.
    """
    key = (body["apiVersion"], body["kind"])
    if key not in _PATHS:
        raise Bug(f"a probe cannot create {key[1]} of {key[0]}. Please open an issue.")
    return _PATHS[key].format(ns=body["metadata"]["namespace"])


def path_of(body: Body) -> str:
    """Where the API has an object."""
    return f"{collection_of(body)}/{body['metadata']['name']}"


def run_probe(
    api: Api,
    objects: Sequence[Body],
    watched: Body,
    *,
    deadline_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> ProbeRun:
    """Create a probe's objects, wait for the watched job's end, read its log, delete all.

    It never raises for the cluster's sake: what the cluster refused is the reason of a run that
    did not end.

    Args:
        api: The cluster.
        objects: Jobs, MPIJobs, Services in the order of creation.
        watched: The job whose end is the probe's end.
        deadline_s: Seconds until the probe is given up.
        clock: A monotonic clock in seconds.
    """
    try:
        for body in objects:
            _remove(api, body, deadline=clock() + REQUEST_DEADLINE_S, clock=clock)
        for body in objects:
            api.post(collection_of(body), body)
        ran = _await_end(api, watched, deadline=clock() + deadline_s, clock=clock)
        if not ran.ended:
            ran = replace(ran, reason=_why_waiting(api, objects))
    except DeviceError as error:
        ran = ProbeRun("", ended=False, succeeded=False, reason=str(error))
    left = _clean(api, objects, clock)
    return replace(ran, reason="; ".join(filter(None, (ran.reason, *left))))


def _clean(api: Api, objects: Sequence[Body], clock: Callable[[], float]) -> list[str]:
    """Delete what was created, all of it, and name what could not be deleted."""
    left: list[str] = []
    for body in reversed(objects):
        try:
            _remove(api, body, deadline=clock() + REQUEST_DEADLINE_S, clock=clock)
        except DeviceError as error:
            left.append(f"{body['metadata']['name']} is left on the cluster: {error}")
    return left


def _remove(api: Api, body: Body, *, deadline: float, clock: Callable[[], float]) -> None:
    """Delete an object and wait until it is gone, with its pods and the jobs that it owns."""
    api.delete(path_of(body))
    while api.get(path_of(body)) is not None:
        if clock() >= deadline:
            raise DeviceError(f"{body['metadata']['name']} was deleted and does not go away")
        pause()


def pause() -> None:
    """Wait a moment between two looks."""
    time.sleep(POLL_S)  # noqa: TID251 - every loop around it has a deadline and says what it waits for


def _await_end(api: Api, body: Body, *, deadline: float, clock: Callable[[], float]) -> ProbeRun:
    while True:
        current = api.get(path_of(body)) or {}
        end = end_of(current)
        if end is not None:
            return ProbeRun(_log_of(api, body), ended=True, succeeded=end == "", reason=end)
        if clock() >= deadline:
            return ProbeRun(_log_of(api, body), ended=False, succeeded=False, reason="")
        pause()


def _conditions(current: Body) -> list[Body]:
    return list(current.get("status", {}).get("conditions") or [])


def end_of(current: Body) -> str | None:
    """How a job ended: None while it runs; an empty text when it ended well; else the reason."""
    for condition in _conditions(current):
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


def _log_of(api: Api, body: Body) -> str:
    logs: list[str] = []
    for pod in pods_of(api, body):
        meta = pod["metadata"]
        if is_launcher(pod) and pod.get("status", {}).get("phase") not in {None, "Pending"}:
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
            logs.append(api.text(path))
    return "".join(logs)


def _why_waiting(api: Api, objects: Sequence[Body]) -> str:
    waits = find_waits(api, objects)
    if waits:
        return waits[0]
    pods = [pod for body in objects if body["kind"] in POD_LABELS for pod in pods_of(api, body)]
    phases = ", ".join(
        f"{pod['metadata']['name']} {pod.get('status', {}).get('phase')}" for pod in pods
    )
    return f"no end within the deadline; pods: {phases or 'none'}"


def find_waits(api: Api, objects: Sequence[Body]) -> list[str]:
    """Why the pods of some jobs do not run, in the cluster's words; empty where they do."""
    pods = [pod for body in objects if body["kind"] in POD_LABELS for pod in pods_of(api, body)]
    waits: list[str] = []
    for pod in pods:
        for condition in _conditions(pod):
            if condition["type"] == "PodScheduled" and condition.get("status") == "False":
                name = pod["metadata"]["name"]
                waits.append(f"pod {name} is not scheduled: {condition.get('message', '')}")
    waits += [why for pod in pods if (why := _why_not_started(pod) or _why_ended(api, pod))]
    if not waits:
        jobs = [body for body in objects if body["kind"] in POD_LABELS]
        waits = [why for body in jobs for why in _refused_pods(api, body)]
    return waits


def _why_ended(api: Api, pod: Body) -> str:
    """A pod that failed while its job goes on: workers fail before their launcher is made."""
    meta: Body = pod["metadata"]
    states: list[Body] = list(pod.get("status", {}).get("containerStatuses") or [])
    for container in states:
        ended: Body = container.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            log = api.text(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log")
            said = ended.get("message") or next(reversed(log.strip().splitlines()), "")
            words = f"{ended.get('reason', '')}, exit code {ended['exitCode']}: {said}"
            return f"pod {meta['name']} failed: {words}".rstrip(": ")
    return ""


def _refused_pods(api: Api, body: Body) -> list[str]:
    """Why the cluster lets no pod of a job in: a quota, a policy; the last of its own warnings."""
    meta = body["metadata"]
    own = {meta["name"], f"{meta['name']}-launcher"}
    path = f"/api/v1/namespaces/{meta['namespace']}/events?fieldSelector=type%3DWarning"
    events: list[Body] = list((api.get(path) or {}).get("items") or [])
    of_ours = [each for each in events if each["involvedObject"].get("name") in own]
    of_ours.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    return [f"{body['kind']} {meta['name']}: {each.get('message', '')}" for each in of_ours[-1:]]


def _why_not_started(pod: Body) -> str:
    """What the kubelet says of a container that it cannot start: an image it cannot pull."""
    states: list[Body] = list(pod.get("status", {}).get("containerStatuses") or [])
    for container in states:
        waiting: Body = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
            words = f"{waiting['reason']}: {waiting.get('message', '')}"
            return f"pod {pod['metadata']['name']} waits: {words}".rstrip(": ")
    return ""
