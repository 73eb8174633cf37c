"""Running a probe on the cluster: create its objects, wait for an end, read the log, clean up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from components.acceptance.collect.waits import Api, Body, end_of, is_launcher, pods_of, why_waiting
from components.core.errors import Bug, DeviceError
from components.kubernetes.calls import Answer, KubernetesCalls

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
        self._calls = KubernetesCalls(kubeconfig, REQUEST_DEADLINE_S)

    def _call(self, method: str, path: str, body: Body | None = None) -> Answer:
        answer = self._calls.call(method, path, body)
        if answer.status >= _FIRST_ERROR and answer.status != _NOT_FOUND:
            raise DeviceError(f"the cluster refused {method} {path}: {answer.status} {answer.text}")
        return answer

    def get(self, path: str) -> Body | None:
        """Read one object or list."""
        answer = self._call("GET", path)
        return None if answer.status == _NOT_FOUND else cast("Body", json.loads(answer.text))

    def text(self, path: str) -> str:
        """Read a log."""
        return self._call("GET", path).text

    def post(self, path: str, body: Body) -> None:
        """Create one object."""
        if self._call("POST", path, body).status == _NOT_FOUND:
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
            ran = replace(ran, reason=why_waiting(api, objects))
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


def _log_of(api: Api, body: Body) -> str:
    logs: list[str] = []
    for pod in pods_of(api, body):
        meta = pod["metadata"]
        if is_launcher(pod) and pod.get("status", {}).get("phase") not in {None, "Pending"}:
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
            logs.append(api.text(path))
    return "".join(logs)
