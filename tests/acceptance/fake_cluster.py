"""A small cluster in memory: it keeps objects, runs jobs as told, and holds a clock."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from components.acceptance.collect.cluster_jobs import NETWORK_STATUS, Body
from components.core.errors import DeviceError

Fate = Literal["succeeds", "fails", "runs", "unschedulable", "no_network", "no_image", "no_secret"]
CONDITIONS: Mapping[tuple[str, Fate], str] = {
    ("Job", "succeeds"): "Complete",
    ("MPIJob", "succeeds"): "Succeeded",
    ("Job", "fails"): "Failed",
    ("MPIJob", "fails"): "Failed",
}
PHASES: Mapping[Fate, str] = {
    "succeeds": "Succeeded",
    "fails": "Failed",
    "runs": "Running",
    "unschedulable": "Pending",
    "no_network": "Pending",
    "no_image": "Pending",
    "no_secret": "Pending",
}
NO_NETWORK = 'Failed to create pod sandbox: plugin type="multus" failed (add): no VF is left'
NO_IMAGE = 'Back-off pulling image "reg/a:1": ErrImagePull: reg/a:1: not found'
NO_SECRET = 'secret "registry" not found'
NO_VF = "0/3 nodes are available: 1 node(s) had taint, 2 Insufficient intel.com/sriov_111."


@dataclass
class FakeCluster:
    """The verbs of `Api`; a job comes to its end at its second look."""

    fates: Mapping[str, Fate] = field(default_factory=dict[str, Fate])
    """Part of a job's name to what becomes of it; default `succeeds`."""
    log: str = "the log\n"
    objects: dict[str, Body] = field(default_factory=dict[str, Body])
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    looks: dict[str, int] = field(default_factory=dict[str, int])
    refuses: Sequence[str] = ()
    """Verbs, or verb and path, that fail."""
    slow_to_go: int = 0
    """How many looks a deleted object stays for: finalizers."""
    now_s: float = 0.0
    events: Sequence[Body] = ()
    """What the cluster warned of; its pods are not made where there is one."""

    def clock(self) -> float:
        return self.now_s

    def pause(self) -> None:
        self.now_s += 1.0

    def _called(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        for refusal in self.refuses:
            if f"{verb} {path}".startswith(refusal):
                raise DeviceError(f"the cluster refused {verb} {path}: 500 no")

    def get(self, path: str) -> Body | None:
        self._called("GET", path)
        if "?" in path:
            return {"items": self._listed(path)}
        body = self.objects.get(path)
        if body is None:
            return None
        self.looks[path] = self.looks.get(path, 0) + 1
        if body.get("deleted"):
            if self.looks[path] > self.slow_to_go:
                del self.objects[path]
                return None
            return body
        if body["kind"] == "Pod":
            return self._plain_pod(path, body)
        return {**body, "status": {"conditions": self._conditions(path, body)}}

    def _plain_pod(self, path: str, body: Body) -> Body:
        """A pod without a job: it has its addresses at once, unless it gets no place or network."""
        made = self._pod(body["metadata"]["name"], None, 0)
        status = {**made["status"], "podIP": "10.42.0.7"}
        ends = self._fate(path) in {"succeeds", "fails"}
        if ends and self.looks[path] < 2:
            status |= {"phase": "Running"}
        if status["phase"] == "Failed":
            status |= {"message": "it failed"}
        metadata = {**body["metadata"]}
        if status["phase"] == "Pending":
            del status["podIP"]
        else:
            rail = {"name": "rdma/rail-0", "interface": "net1", "ips": ["10.10.111.7"]}
            shown = json.dumps([{"name": "cbr0", "ips": ["10.42.0.7"], "default": True}, rail])
            own = metadata.get("annotations", {})
            metadata["annotations"] = {**own, NETWORK_STATUS: shown}
        return {**body, "metadata": metadata, "status": status}

    def _listed(self, path: str) -> list[Body]:
        if "/events?" in path:
            return [*self.events, *self._sandbox_events()]
        if "part-of" in path:
            pods = [each for each in self.objects.items() if each[1]["kind"] == "Pod"]
            for own, _ in pods:
                self.looks[own] = self.looks.get(own, 0) + 1
            return [self._plain_pod(own, body) for own, body in pods]
        return [] if self.events else self._pods(path.rpartition("%3D")[2])

    def text(self, path: str) -> str:
        self._called("LOG", path)
        return self.log

    def post(self, path: str, body: Body) -> None:
        self._called("POST", path)
        name = f"{path}/{body['metadata']['name']}"
        if name in self.objects:
            raise DeviceError(f"the cluster refused POST {path}: 409 AlreadyExists")
        self.objects[name] = body

    def delete(self, path: str) -> None:
        self._called("DELETE", path)
        if path in self.objects:
            if not self.slow_to_go:
                del self.objects[path]
            else:
                self.objects[path] = {**self.objects[path], "deleted": True}
                self.looks[path] = 0

    def _fate(self, name: str) -> Fate:
        for part, fate in self.fates.items():
            if part in name:
                return fate
        return "succeeds"

    def _conditions(self, path: str, body: Body) -> list[dict[str, str]]:
        kind = cast("str", body["kind"])
        end = CONDITIONS.get((kind, self._fate(path)))
        if end is None or self.looks[path] < 2:
            return [{"type": "Created", "status": "True"}, {"type": "Failed", "status": "False"}]
        words = (
            {"reason": "BackoffLimitExceeded", "message": "it failed"} if end == "Failed" else {}
        )
        return [{"type": end, "status": "True", **words}]

    def _sandbox_events(self) -> list[Body]:
        """What a kubelet warns of a pod whose network it cannot make, and of one before it."""
        pods = [pod for path in self.objects for pod in self._pods(path.rpartition("/")[2])]
        return [
            {
                "reason": "FailedCreatePodSandBox",
                "message": words,
                "involvedObject": {"name": pod["metadata"]["name"], "uid": uid},
                "lastTimestamp": stamp,
            }
            for pod in pods
            if self._fate(pod["metadata"]["name"]) == "no_network"
            for uid, words, stamp in (
                ("of a pod that is gone", "another reason", "2026-11-25T23:00:09Z"),
                ("own", NO_NETWORK, "2026-11-25T23:00:00Z"),
            )
        ]

    def _pods(self, job: str) -> list[Body]:
        if not any(path.endswith(f"/{job}") for path in self.objects):
            return []
        mpi = any("/mpijobs/" in path and path.endswith(job) for path in self.objects)
        roles = ("launcher", "worker", "worker") if mpi else (None,)
        return [self._pod(job, role, number) for number, role in enumerate(roles)]

    def _pod(self, job: str, role: str | None, number: int) -> Body:
        fate = self._fate(job)
        labels = {"training.kubeflow.org/job-role": role} if role else {}
        conditions = (
            [{"type": "PodScheduled", "status": "False", "message": NO_VF}]
            if fate == "unschedulable"
            else [{"type": "PodScheduled", "status": "True"}]
        )
        waits: Body = {"reason": "ContainerCreating"}
        if fate == "no_image":
            waits = {"reason": "ImagePullBackOff", "message": NO_IMAGE}
        if fate == "no_secret":
            waits = {"reason": "CreateContainerConfigError", "message": NO_SECRET}
        name = re.sub(r"-+", "-", f"{job}-{role or 'pod'}-{number}")
        plain = any(path.endswith(f"/pods/{job}") for path in self.objects)
        name = job if plain else name
        return {
            "metadata": {"name": name, "namespace": "default", "labels": labels, "uid": "own"},
            "status": {
                "phase": PHASES[fate],
                "conditions": conditions,
                "containerStatuses": [{"name": "c", "state": {"waiting": waits}}],
            },
        }
