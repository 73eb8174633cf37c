from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from components.acceptance.collect import cluster_jobs
from components.acceptance.collect.cluster_jobs import (
    GIVE_UP_S,
    LOOK_S,
    NETWORK_STATUS,
    Body,
    KubernetesApi,
    Patience,
    ProbeRun,
    rail_address,
    run_probe,
)
from components.acceptance.probes.probe_job import ProbeJob
from components.core.errors import Bug, DeviceError, UnreachableError
from components.jobs.templates import number_objects
from components.plan.make import make_plan
from tests.acceptance import fake_cluster
from tests.acceptance.fake_cluster import NO_VF, FakeCluster, Fate
from tests.golden.site import load_example

PLAN = make_plan(load_example("dgx-roce"), "dev").acceptance
PAIR = 2
"""The place of the first perftest among the probes, after the looks at two nodes."""
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 60.0


def job_of(number: int) -> ProbeJob:
    job = PLAN.probes[number].job
    assert job is not None
    return job


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(cluster_jobs, "pause", fake.pause)
    return fake


def objects_of(number: int, run: int = 7) -> list[Body]:
    return list(number_objects(job_of(number).objects, run))


def run_on(cluster: FakeCluster, probe: int = PAIR, run: int = 7) -> ProbeRun:
    objects = objects_of(probe, run)
    watched = objects[job_of(probe).watched]
    return run_probe(cluster, objects, watched, deadline_s=DEADLINE_S, clock=cluster.clock)


def test_a_job_that_ends_well(cluster: FakeCluster) -> None:
    ran = run_on(cluster)
    assert ran == ProbeRun("the log\n", ended=True, succeeded=True, reason="")
    assert cluster.objects == {}


def test_servers_are_created_before_their_clients(cluster: FakeCluster) -> None:
    run_on(cluster)
    posted = [path for verb, path in cluster.calls if verb == "POST"]
    assert posted == [PODS] * 2
    logs = [path for verb, path in cluster.calls if verb == "LOG"]
    assert len(logs) == 1
    assert logs[0].endswith("-c-7/log")


def test_an_mpi_job_gives_the_launchers_log_only(cluster: FakeCluster) -> None:
    ran = run_on(cluster, probe=-1)
    assert (ran.ended, ran.succeeded) == (True, True)
    logs = [path for verb, path in cluster.calls if verb == "LOG"]
    assert logs == ["/api/v1/namespaces/default/pods/nccl-all-reduce-7-launcher-0/log"]


@pytest.mark.parametrize("probe", [PAIR, -1])
def test_a_job_that_fails_has_a_reason_and_still_a_log(cluster: FakeCluster, probe: int) -> None:
    cluster.fates = {"perftest": "fails", "nccl": "fails"}
    ran = run_on(cluster, probe)
    assert (ran.ended, ran.succeeded, ran.log) == (True, False, "the log\n")
    server = "perftest-rail-0-gpu01-gpu02-s-7: the log"
    said = {PAIR: f"it failed; {server}", -1: "BackoffLimitExceeded it failed"}
    assert ran.reason == said[probe]
    assert cluster.objects == {}


def test_a_pod_without_a_vf_is_named_at_the_deadline(cluster: FakeCluster) -> None:
    cluster.fates = {"nccl": "unschedulable"}
    ran = run_on(cluster, probe=-1)
    assert (ran.ended, ran.succeeded, ran.log) == (False, False, "")
    assert ran.reason == f"pod nccl-all-reduce-7-launcher-0 is not scheduled: {NO_VF}"
    assert "Insufficient intel.com/sriov_111" in ran.reason
    assert cluster.now_s == pytest.approx(DEADLINE_S, abs=2)
    assert cluster.objects == {}


def test_a_server_that_waits_for_a_vf_explains_a_client_that_never_ends(
    cluster: FakeCluster,
) -> None:
    cluster.fates = {"-s-7": "unschedulable", "-c-7": "runs"}
    ran = run_on(cluster)
    server = "pod perftest-rail-0-gpu01-gpu02-s-7 is not scheduled"
    assert ran.reason.startswith(f"its server never got an address: {server}")
    assert [path for verb, path in cluster.calls if verb == "POST"] == [PODS], "no client is made"


def test_a_server_that_vanishes_before_it_has_an_address_ends_its_probe(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates = {"-s-7": "no_network"}

    def pause() -> None:
        cluster.pause()
        cluster.objects.clear()

    monkeypatch.setattr(cluster_jobs, "pause", pause)
    ran = run_on(cluster)
    assert ran.reason.startswith("its server never got an address: its pod is gone")
    assert cluster.now_s < DEADLINE_S / 2
    assert [path for verb, path in cluster.calls if verb == "POST"] == [PODS]


@pytest.mark.parametrize(
    ("ips", "address"),
    [
        (["10.10.111.7"], "10.10.111.7"),
        (["fd00::7", "10.10.111.7/24"], "10.10.111.7"),
        (["fd00::7"], ""),
        (None, ""),
        ("10.10.111.7", "10.10.111.7"),
        ([{"address": 7}], ""),
    ],
)
def test_the_address_of_a_rail_is_read_whatever_else_multus_wrote(
    ips: object, address: str
) -> None:
    status = json.dumps([{"name": "cbr0", "ips": ["10.42.0.7"], "default": True}, {"ips": ips}])
    assert rail_address({"metadata": {"annotations": {NETWORK_STATUS: status}}}) == address
    assert not rail_address({"metadata": {"annotations": None}})


LONG_S = 600.0
"""The default of `acceptance.timeout_s`."""
NEVER: dict[str, dict[str, Fate]] = {
    "an image that is not there": {"nccl": "no_image"},
    "a Secret that is not there": {"nccl": "no_secret"},
    "devices that no node offers": {"nccl": "unschedulable"},
}


def wait_long(cluster: FakeCluster, patience: Patience) -> ProbeRun:
    objects = objects_of(-1)
    watched = objects[job_of(-1).watched]
    return run_probe(
        cluster, objects, watched, deadline_s=LONG_S, patience=patience, clock=cluster.clock
    )


@pytest.mark.parametrize("what", NEVER)
def test_what_does_not_come_by_itself_is_waited_for_three_minutes(
    cluster: FakeCluster, what: str
) -> None:
    cluster.fates = NEVER[what]
    told: list[str] = []
    ran = wait_long(cluster, Patience(lacks=lambda: True, tell=told.append))
    assert (ran.ended, ran.succeeded) == (False, False)
    words, _, end = ran.reason.rpartition("; ")
    assert words == told[-1]
    assert words.startswith("pod nccl-all-reduce-7-launcher-0 ")
    assert end == "given up after 180 s"
    assert GIVE_UP_S <= cluster.now_s <= GIVE_UP_S + LOOK_S
    assert len(told) == GIVE_UP_S / LOOK_S, "said again at each look"
    assert cluster.objects == {}


@pytest.mark.parametrize("what", NEVER)
def test_it_may_come_before(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A plugin that registers late, a pull that is tried again, a Secret that is made."""
    cluster.fates = NEVER[what]

    def pause() -> None:
        cluster.pause()
        if cluster.now_s > GIVE_UP_S - LOOK_S:
            cluster.fates = {}

    monkeypatch.setattr(cluster_jobs, "pause", pause)
    assert wait_long(cluster, Patience(lacks=lambda: True)).succeeded


def test_devices_that_others_hold_are_waited_for_to_the_deadline(cluster: FakeCluster) -> None:
    cluster.fates = {"nccl": "unschedulable"}
    ran = wait_long(cluster, Patience(lacks=lambda: False))
    assert ran.reason == f"pod nccl-all-reduce-7-launcher-0 is not scheduled: {NO_VF}"
    assert cluster.now_s == pytest.approx(LONG_S, abs=2)


def test_what_others_held_meanwhile_does_not_count(cluster: FakeCluster) -> None:
    """A node that is there again begins the time anew."""
    cluster.fates = {"nccl": "unschedulable"}
    ran = wait_long(cluster, Patience(lacks=lambda: not 90 <= cluster.now_s < 150))
    assert ran.reason.endswith("given up after 300 s")


def test_after_one_long_wait_a_place_is_waited_for_one_minute(cluster: FakeCluster) -> None:
    cluster.fates = {"nccl": "unschedulable"}
    assert wait_long(cluster, Patience(place_s=60.0)).reason.endswith("; given up after 60 s")


TAINTED = "0/2 nodes are available: 2 node(s) had untolerated taint {team: a}."
QUOTA = (
    'pods "perftest-rail-0-gpu01-gpu02-s-7-x1" is forbidden: exceeded quota: none, requested:'
    " pods=1, used: pods=0, limited: pods=0"
)


def test_a_taint_is_named_in_the_schedulers_words(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_cluster, "NO_VF", TAINTED)
    cluster.fates = {"perftest": "unschedulable"}
    ran = run_on(cluster)
    server = "pod perftest-rail-0-gpu01-gpu02-s-7 is not scheduled"
    assert ran.reason == f"its server never got an address: {server}: {TAINTED}"


def test_a_quota_that_lets_no_pod_in_is_named(cluster: FakeCluster) -> None:
    """The MPI operator writes such an event; there is no pod to look at."""
    probe, owner = -1, "nccl-all-reduce-7-launcher"
    cluster.fates = {"perftest": "runs", "nccl": "runs"}
    named = {"kind": "Job", "name": owner}
    cluster.events = [
        {"involvedObject": {"kind": "Job", "name": "another"}, "message": "of another job"},
        {"involvedObject": named, "message": "older", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"involvedObject": named, "message": QUOTA, "lastTimestamp": "2026-01-01T00:00:09Z"},
    ]
    ran = run_on(cluster, probe)
    assert ran.reason.endswith(f"{owner.removesuffix('-launcher')}: {QUOTA}")


def test_pods_that_run_for_ever_are_listed(cluster: FakeCluster) -> None:
    cluster.fates = {"nccl": "runs"}
    ran = run_on(cluster, probe=-1)
    assert ran.reason.startswith("no end within the deadline; pods: nccl-all-reduce-7-launcher-0")
    assert ran.reason.count("Running") == 3


NO_PROGRAM = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
    ' create failed: unable to start container process: exec: "/usr/sbin/sshd": stat'
    " /usr/sbin/sshd: no such file or directory"
)


@dataclass
class DeadWorkers(FakeCluster):
    """An MPIJob whose workers have failed, as `make lab-pods` saw it: it has no launcher."""

    state: Body = field(default_factory=dict[str, Any])

    def get(self, path: str) -> Body | None:
        answer = super().get(path)
        if "labelSelector=" not in path:
            return answer
        name = f"{path.rpartition('%3D')[2]}-worker-0"
        labels = {"training.kubeflow.org/job-role": "worker"}
        status = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": self.state}}]}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        return {"items": [{"metadata": metadata, "status": status}]}


@pytest.mark.parametrize(
    ("state", "log", "words"),
    [
        (
            {"exitCode": 255, "reason": "Error"},
            "Missing privilege separation directory: /run/sshd\n",
            "Error, exit code 255: Missing privilege separation directory: /run/sshd",
        ),
        (
            {"exitCode": 128, "reason": "StartError", "message": NO_PROGRAM},
            "",
            f"StartError, exit code 128: {NO_PROGRAM}",
        ),
        ({"exitCode": 137, "reason": "OOMKilled"}, "", "OOMKilled, exit code 137"),
    ],
)
def test_a_worker_that_failed_says_why_its_job_never_ended(
    monkeypatch: pytest.MonkeyPatch, state: Body, log: str, words: str
) -> None:
    cluster = DeadWorkers(fates={"nccl": "runs"}, log=log, state=state)
    monkeypatch.setattr(cluster_jobs, "pause", cluster.pause)
    ran = run_on(cluster, probe=-1)
    assert ran.reason == f"pod nccl-all-reduce-7-worker-0 failed: {words}"


@pytest.mark.parametrize("slow_to_go", [0, 3])
def test_what_a_killed_run_left_is_removed_first(cluster: FakeCluster, slow_to_go: int) -> None:
    for body in objects_of(PAIR):
        cluster.post(PODS, body)
    cluster.calls.clear()
    cluster.slow_to_go = slow_to_go
    ran = run_on(cluster)
    assert (ran.succeeded, ran.reason) == (True, "")
    verbs = [verb for verb, _ in cluster.calls]
    assert verbs.index("DELETE") < verbs.index("POST")


def test_leftovers_that_do_not_go_away_are_named(cluster: FakeCluster) -> None:
    cluster.post(PODS, objects_of(PAIR)[0])
    cluster.slow_to_go = 1000
    ran = run_on(cluster)
    assert (ran.ended, ran.succeeded) == (False, False)
    stuck = "perftest-rail-0-gpu01-gpu02-s-7 was deleted and does not go away"
    assert ran.reason.startswith(stuck)


def test_nothing_is_still_going_away_when_a_probe_has_ended(cluster: FakeCluster) -> None:
    cluster.slow_to_go = 3
    ran = run_on(cluster, probe=-1)
    assert (ran.succeeded, ran.reason) == (True, "")
    assert cluster.objects == {}


def test_a_refused_object_is_a_reason_and_no_crash(cluster: FakeCluster) -> None:
    cluster.refuses = ["POST /apis/kubeflow.org/"]
    ran = run_on(cluster, probe=-1)
    assert (ran.ended, ran.succeeded, ran.log) == (False, False, "")
    assert ran.reason.startswith("the cluster refused POST /apis/kubeflow.org/v2beta1/")


def test_what_cannot_be_deleted_is_named_and_the_result_stands(cluster: FakeCluster) -> None:
    objects = objects_of(PAIR)
    first = f"DELETE {PODS}/{objects[0]['metadata']['name']}"
    original = cluster.post

    def post(path: str, body: Body) -> None:
        original(path, body)
        cluster.refuses = [first]

    cluster.post = post
    ran = run_on(cluster)
    assert (ran.ended, ran.succeeded, ran.log) == (True, True, "the log\n")
    assert ran.reason.startswith("perftest-rail-0-gpu01-gpu02-s-7 is left on the cluster: ")
    assert [path.rpartition("/")[2] for path in cluster.objects] == [
        "perftest-rail-0-gpu01-gpu02-s-7"
    ]


def test_a_kind_that_no_probe_creates_is_our_mistake(cluster: FakeCluster) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "y"}}
    with pytest.raises(Bug, match="cannot create Secret of v1"):
        run_probe(cluster, [body], body, deadline_s=1, clock=cluster.clock)


class _Answers(http.server.BaseHTTPRequestHandler):
    """A server that has one object, refuses one, and has no MPI operator."""

    def do_GET(self) -> None:
        status, text = {
            "/there": (200, '{"kind": "Job"}'),
            "/log": (200, "plain text, not JSON"),
            "/forbidden": (403, "not for you"),
        }.get(self.path, (404, "{}"))
        self._answer(status, text)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(201 if self.path == "/jobs" else 404, "{}")

    def do_DELETE(self) -> None:
        self._answer(200 if "propagationPolicy=Foreground" in self.path else 400, "{}")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        del format, args


@pytest.fixture
def api() -> Generator[KubernetesApi]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield KubernetesApi(kubeconfig(server.server_port))
    server.shutdown()
    server.server_close()
    thread.join()


def kubeconfig(port: int) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
        }
    )


def test_the_real_client_reads_creates_and_deletes(api: KubernetesApi) -> None:
    assert api.get("/there") == {"kind": "Job"}
    assert api.get("/gone") is None
    assert api.text("/log") == "plain text, not JSON"
    api.post("/jobs", {"kind": "Job"})
    api.delete("/jobs/x")


def test_a_refusal_has_the_clusters_words(api: KubernetesApi) -> None:
    with pytest.raises(DeviceError, match="refused GET /forbidden: 403 not for you"):
        api.get("/forbidden")


def test_a_missing_operator_is_said(api: KubernetesApi) -> None:
    with pytest.raises(DeviceError, match="serve /mpijobs: is the operator of that kind installed"):
        api.post("/mpijobs", {"kind": "MPIJob"})


def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="the cluster did not answer GET /there"):
        KubernetesApi(kubeconfig(port=9)).get("/there")
