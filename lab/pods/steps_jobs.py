"""The story's steps about jobs: the plan's own, in pods, through the product's own code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from components.acceptance.collect.cluster_jobs import KubernetesApi, ProbeRun, run_probe
from components.acceptance.probes.probe_job import RAIL_ADDRESS
from components.core.record import record
from components.jobs.job_plan import MPI_NAMESPACE
from components.jobs.templates import number_objects
from components.kubernetes.manifest import Body
from lab.cluster.document import docs_at, name_of, number_at, text_at
from lab.pods.configs import MIRROR
from lab.pods.pods import log_of
from lab.pods.recipes import COREDNS
from lab.pods.site import PodSite
from lab.vm.judging import StoryError

DNS_FILE: Final = Path(__file__).with_name("dns.yaml")
INSTALL_DEADLINE_S: Final = 180.0
JOB_DEADLINE_S: Final = 180.0
DEAD_DEADLINE_S: Final = 20.0
_JOBS: Final = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
_HELLO: Final = (
    'echo "rank $OMPI_COMM_WORLD_RANK on $(hostname) mtu $(cat /sys/class/net/net1/mtu)"'
)


def _with_command(pod: Body, call: str) -> Body:
    """A planned pod that runs something else."""
    changed: dict[str, Any] = json.loads(json.dumps(pod))
    changed["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", call]
    return changed


@record
class Ended:
    """How the launcher of an MPIJob ended."""

    exit_code: int
    log: str
    reason: str
    """Of the MPIJob's condition Failed; empty where it has none."""


@dataclass(slots=True)
class Jobs:
    """The steps; each job has a number of its own."""

    site: PodSite
    run: int = 0

    def install(self) -> str:
        """CoreDNS as K3s brings it, and the operator as the plan has it."""
        text = DNS_FILE.read_text().replace("IMAGE", f"{MIRROR}/{COREDNS}")
        for body in yaml.safe_load_all(text):
            self.site.apply(body)
        self.site.apply_all(self.site.plan.jobs.manifests)
        for space, name in (("kube-system", "coredns"), (MPI_NAMESPACE, "mpi-operator")):
            self.site.wait(
                f"Deployment {name}",
                lambda space=space, name=name: self._available(space, name),
                INSTALL_DEADLINE_S,
            )
        return "coredns and mpi-operator are available"

    def _available(self, namespace: str, name: str) -> bool:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        return number_at(self.site.api.find(path), "status", "availableReplicas") > 0

    def look(self) -> str:
        """The plan's looks: at the image of the jobs, and at locked memory in a pod."""
        image = next(probe for probe in self.site.plan.acceptance.images if probe.job)
        objects = image.job.objects if image.job else ()
        seen = self._probe(objects, 0)
        for line in ("railyard-image: login=ok", "railyard-image: end=ok"):
            if line not in seen.log:
                raise StoryError(f"the look at the image does not say {line!r}:\n{seen.log}")
        limits = [self._probe((job,), 0).log.strip() for job in self.site.plan.acceptance.memlock]
        node = self.site.nodes[0]
        real = node.run("sh", "-c", "ulimit -l").stdout.strip()
        if limits != [real] * len(limits):
            raise StoryError(f"pods have {limits} KiB of locked memory, containerd {real}")
        return f"{seen.log.strip()}\nlocked memory in pods: {', '.join(limits)} (containerd's own)"

    def pair(self) -> str:
        """The plan's test between two nodes, as plain pods that ping in place of RDMA.

        The client is made once its server has an address on the rail, as Multus wrote it down.
        """
        probes = self.site.plan.acceptance.probes
        test = next(each.job for each in probes if each.job and each.probe.kind == "perftest")
        calls = ("sleep 60", f"ping -c 3 -I net1 {RAIL_ADDRESS}")
        pods = [_with_command(body, call) for body, call in zip(test.objects, calls, strict=True)]
        ran = self._probe(pods, test.watched)
        if not ran.succeeded or RAIL_ADDRESS in ran.log:
            raise StoryError(f"the client does not reach its server: {ran.reason}\n{ran.log}")
        return ran.log.strip().splitlines()[0]

    def run_job(self) -> str:
        """The plan's own MPIJob with a program that any machine can run in place of nccl-tests."""
        ended = self._launch("/bin/sh", "-c", _HELLO)
        mtu = self.site.spec.rdma.mtu_bytes
        lines = sorted(ended.log.split("\n"))
        ranks = [line for line in lines if f"mtu {mtu}" in line]
        if ended.exit_code or len(ranks) != len(self.site.nodes):
            raise StoryError(f"the job ended with {ended.exit_code}:\n{ended.log}")
        return "\n".join(ranks)

    def fail(self) -> str:
        """What the plan's job says on a machine without RDMA, and other ends of mpirun."""
        plain = self._probe(self._job(), 0)
        if plain.succeeded or NO_DEVICE not in plain.log:
            raise StoryError(f"the plan's job found RDMA where there is none:\n{plain.log}")
        lost = self._launch("all_reduce_perf", "-b", "8")
        quits = self._launch("/bin/sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 7; sleep 30")
        dead = self._die()
        codes = (lost.exit_code, quits.exit_code)
        if codes != RECORDED_CODES:
            raise StoryError(f"mpirun ended with {codes}, recorded is {RECORDED_CODES}")
        if "unable to find the specified executable" not in lost.log:
            raise StoryError(f"mpirun says of a program that is not there:\n{lost.log}")
        return "\n".join(
            [
                f"the plan's job: {plain.reason}",
                *plain.log.strip().splitlines()[:1],
                f"no such program: exit code {lost.exit_code}",
                *lost.log.strip().splitlines(),
                f"a rank that ends with 7: exit code {quits.exit_code}, {quits.reason}",
                f"workers without sshd: {dead}",
            ]
        )

    def _job(self) -> Sequence[Body]:
        probes = self.site.plan.acceptance.probes
        return next(
            probe.job.objects
            for probe in probes
            if probe.job and probe.job.watched == 0 and probe.probe.kind == "nccl"
        )

    def _probe(self, objects: Sequence[Body], watched: int) -> ProbeRun:
        """As acceptance runs it."""
        self.run += 1
        bodies = number_objects(tuple(objects), self.run)
        api = KubernetesApi(self.site.plane.kubeconfig.read_text())
        ran = run_probe(api, bodies, bodies[watched], deadline_s=JOB_DEADLINE_S)
        if not ran.ended:
            raise StoryError(f"the job did not end: {ran.reason}\n{ran.log}")
        return ran

    def _die(self) -> str:
        """What acceptance says of workers that cannot start; their job never ends by itself."""
        self.run += 1
        body: Any = number_objects(tuple(self._job()), self.run)[0]
        workers = body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        workers[0]["command"] = ["/usr/sbin/none"]
        api = KubernetesApi(self.site.plane.kubeconfig.read_text())
        ran = run_probe(api, [body], body, deadline_s=DEAD_DEADLINE_S)
        if ran.ended or "failed: StartError, exit code 128" not in ran.reason:
            raise StoryError(f"workers that cannot start are not named: {ran}")
        return ran.reason

    def _launch(self, *program: str) -> Ended:
        """The plan's MPIJob with another program behind mpirun and its options."""
        self.run += 1
        body: Any = number_objects(tuple(self._job()), self.run)[0]
        launcher = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        words = launcher["command"]
        launcher["command"] = [*words[: words.index("/bin/sh", 1)], *program]
        name = body["metadata"]["name"]
        self.site.api.request("POST", _JOBS, json.loads(json.dumps(body)))
        try:
            return self._await_end(name)
        finally:
            self.site.api.request("DELETE", f"{_JOBS}/{name}")

    def _await_end(self, job: str) -> Ended:
        def ended() -> bool:
            found = self.site.api.find(f"{_JOBS}/{job}") or {}
            ends = ("Succeeded", "Failed")
            return any(
                text_at(each, "type") in ends and text_at(each, "status") == "True"
                for each in docs_at(found, "status", "conditions")
            )

        self.site.wait(f"MPIJob {job} to end", ended, JOB_DEADLINE_S)
        pods = self.site.api.items("/api/v1/namespaces/default/pods")
        launcher = next(pod for pod in pods if name_of(pod).startswith(f"{job}-launcher"))
        state = docs_at(launcher, "status", "containerStatuses")[0]
        found = self.site.api.find(f"{_JOBS}/{job}") or {}
        reasons = [
            text_at(each, "reason")
            for each in docs_at(found, "status", "conditions")
            if text_at(each, "type") == "Failed"
        ]
        return Ended(
            number_at(state, "state", "terminated", "exitCode"),
            log_of(self.site, name_of(launcher), "launcher"),
            "".join(reasons),
        )


NO_DEVICE: Final = "no RDMA device has a GID of net1"
RECORDED_CODES: Final = (134, 7)
"""Of mpirun 4.1.4: a program that is not there, and a rank that ends with 7 (seen here)."""
