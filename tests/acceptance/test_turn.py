"""One run on a cluster in use: what is skipped, what waits, and what the gate makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.acceptance.acceptance_plan import AcceptancePlan, Policy
from components.acceptance.collect import cluster_jobs, probe_runs
from components.acceptance.collect.probe_runs import collect_evidence
from components.acceptance.collect.turn import Turn
from components.acceptance.evidence import Evidence
from components.acceptance.handover import AcceptRequest
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import keep_evidence
from components.acceptance.report.text import PASSED_LINE, render_table
from components.jobs.templates import GPU, number_objects
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.update.proof import Accept, narrow
from tests.acceptance.fake_cluster import NO_VF, FakeCluster
from tests.acceptance.test_cluster_use import BOTH, OFFERS, READY, gpus, node
from tests.acceptance.test_run import PLAN, SECRETS, Wire, cluster
from tests.golden.site import changed_spec, load_example

__all__ = ["cluster"]  # the fixture
BUSY = "busy: pod train/job-0 uses 8 of 8 GPUs of gpu01"


def fill(fake: FakeCluster, nodes: list[Any], pods: list[Any]) -> None:
    """Let the cluster list nodes and pods; `pods` may change while a test runs."""
    original = fake.get

    def get(path: str) -> Any:  # noqa: ANN401 - bodies of the API
        if path == "/api/v1/nodes":
            return {"items": nodes}
        if path.startswith("/api/v1/pods?"):
            return {"items": pods}
        return original(path)

    fake.get = get


def collect(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    plan: AcceptancePlan = PLAN.acceptance,
    run_: int = 7,
) -> Evidence:
    monkeypatch.setattr(probe_runs, "read_snapshot", Wire().snapshot)
    monkeypatch.chdir(folder)
    request = AcceptRequest(PLAN.digest, "dev", "lab", plan)
    return collect_evidence(request, run_, SECRETS, folder / f"r{run_}")


def with_policy(**policy: Any) -> AcceptancePlan:  # noqa: ANN401 - fields of it
    return replace(PLAN.acceptance, policy=replace(PLAN.acceptance.policy, **policy))


def created(fake: FakeCluster) -> list[str]:
    return [path for verb, path in fake.calls if verb == "POST"]


def test_what_is_busy_is_skipped_and_named_and_is_no_pass(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(cluster, BOTH, [gpus("job-0", "gpu01", 8)])
    evidence = collect(monkeypatch, tmp_path)
    assert [item.outcome for item in evidence.probes] == ["completed"] * 3 + ["skipped"]
    assert evidence.probes[-1].detail == BUSY
    assert not any("mpijobs" in path for path in created(cluster)), "nothing was asked of the GPUs"
    report = judge_evidence(without_allocatable(evidence))
    assert report.verdict_of("nccl-all-reduce") == "skipped"
    assert report.verdict == "skipped"
    assert (report.exit_code, report.gate_code) == (4, 0), "`warn` lets the update through"
    table = render_table(report)
    assert f"not proven: nccl-all-reduce: {BUSY}; never proven" in table
    assert PASSED_LINE not in table, "the next update tries again"


def without_allocatable(evidence: Evidence) -> Evidence:
    """The recorded logs are of a site whose resources the fake cluster does not list by node."""
    limits = evidence.limits.model_copy(update={"allocatable": {}})
    return evidence.model_copy(update={"limits": limits})


@pytest.mark.parametrize(("when_busy", "code"), [("warn", 0), ("fail", 4), ("wait", 4)])
def test_the_gate_does_as_the_site_says(
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    when_busy: str,
    code: int,
) -> None:
    fill(cluster, BOTH, [gpus("job-0", "gpu01", 8)])
    evidence = collect(monkeypatch, tmp_path, with_policy(when_busy=when_busy, busy_wait_s=0.001))
    assert judge_evidence(without_allocatable(evidence)).gate_code == code


def test_a_run_says_what_it_waits_for_and_gives_up_what_no_node_offers(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second node has lost its GPUs, which no pod holds."""
    cards = {key: count for key, count in OFFERS.items() if key != GPU}
    fill(
        cluster, [BOTH[0], BOTH[1] | {"status": {"allocatable": cards, "conditions": [READY]}}], []
    )
    cluster.fates = {"nccl": "unschedulable"}
    said: list[str] = []
    pause = cluster.pause
    progress = tmp_path / "r7/progress.txt"

    def look() -> None:
        pause()
        said.append(progress.read_text())

    monkeypatch.setattr(cluster_jobs, "pause", look)
    evidence = collect(monkeypatch, tmp_path)
    (nccl,) = [item for item in evidence.probes if item.probe.name == "nccl-all-reduce"]
    assert nccl.outcome == "not_run"
    words = f"pod nccl-all-reduce-7-launcher-0 is not scheduled: {NO_VF}"
    assert nccl.detail == f"{words}; given up after 180 s"
    assert list(dict.fromkeys(said)) == [
        "acceptance: probe 1 of 4, image-jobs: is run\n",
        "acceptance: probe 2 of 4, perftest-rail-0-gpu01-gpu02: is run\n",
        "acceptance: probe 3 of 4, perftest-rail-1-gpu01-gpu02: is run\n",
        "acceptance: probe 4 of 4, nccl-all-reduce: is run\n",
        f"acceptance: probe 4 of 4, nccl-all-reduce: {words}\n",
    ]
    assert not progress.exists(), "the run has ended"


def test_waiting_ends_when_the_pod_does(tmp_path: Path) -> None:
    fake = FakeCluster()
    pods = [gpus("job-0", "gpu01", 8)]
    fill(fake, BOTH, pods)

    def pause() -> None:
        fake.pause()
        if fake.now_s >= 30:
            pods.clear()

    progress = tmp_path / "progress.txt"
    policy = Policy(when_busy="wait", busy_wait_s=60)
    turn = Turn(policy, fake, fake.clock, pause, progress)
    probe = PLAN.acceptance.probes[-1]
    assert probe.job is not None
    assert turn.why_skipped(probe, number_objects(probe.job.objects, 1)) == ""
    assert progress.read_text() == f"acceptance: nccl-all-reduce: {BUSY}\n"
    assert 30 <= fake.now_s < 40


def test_waiting_has_an_end_for_all_probes_together() -> None:
    fake = FakeCluster()
    fill(fake, BOTH, [gpus("job-0", "gpu01", 8)])
    turn = Turn(Policy(when_busy="wait", busy_wait_s=60), fake, fake.clock, fake.pause)
    probe = PLAN.acceptance.probes[-1]
    assert probe.job is not None
    objects = number_objects(probe.job.objects, 1)
    assert turn.why_skipped(probe, objects) == BUSY
    assert turn.why_skipped(probe, objects) == BUSY
    assert 60 <= fake.now_s < 62


def test_a_node_that_is_not_ready_is_an_error_and_no_excuse(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    down = {"type": "Ready", "status": "False", "message": "container runtime is down"}
    fill(cluster, [node("gpu01"), node("gpu02", ready=down)], [gpus("job-0", "gpu01", 8)])
    monkeypatch.setattr("components.acceptance.collect.turn.NOT_READY_WAIT_S", 0.0)
    evidence = collect(monkeypatch, tmp_path)
    last = evidence.probes[-1]
    assert (last.outcome, last.detail) == (
        "not_run",
        "node gpu02 is not ready: container runtime is down",
    )
    assert judge_evidence(evidence).gate_code != 0


def test_a_cordoned_node_is_asked_for_nothing_at_all(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(cluster, [node("gpu01"), node("gpu02", unschedulable=True)], [])
    evidence = collect(monkeypatch, tmp_path)
    assert [item.outcome for item in evidence.probes] == ["completed", *["skipped"] * 3]
    assert set(evidence.memlock) == {"gpu01"}
    assert not [path for path in created(cluster) if "gpu02" in path]


def test_never_touches_nothing_and_says_so(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = narrow(load_example("dgx-roce"), PLAN.acceptance, "never", None)
    evidence = collect(monkeypatch, tmp_path, plan)
    assert cluster.calls == []
    report = judge_evidence(evidence)
    assert (report.verdict, report.gate_code) == ("skipped", 0)
    assert "not asked for: acceptance.accept is never" in render_table(report)


def test_no_probe_is_begun_after_the_budget_and_the_oldest_proof_goes_first(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del cluster
    monkeypatch.chdir(tmp_path)
    whole = collect(monkeypatch, tmp_path, run_=5)
    names = [item.probe.name for item in whole.probes]
    old = whole.model_copy(update={"finished_at": "2026-01-01T00:00:00+00:00"})
    kept = [item for item in whole.probes if item.probe.name != "perftest-rail-1-gpu01-gpu02"]
    keep_evidence("dev", old.model_copy(update={"probes": tuple(kept)}))
    evidence = collect(monkeypatch, tmp_path, with_policy(time_budget_s=3600.0), 7)
    order = [item.probe.name for item in evidence.probes]
    assert order[:2] == ["image-jobs", "perftest-rail-1-gpu01-gpu02"], "it was never proven"
    assert sorted(order) == sorted(names)
    spent = collect(monkeypatch, tmp_path, with_policy(time_budget_s=0.0), 8)
    assert {item.outcome for item in spent.probes} == {"skipped"}
    table = render_table(judge_evidence(without_allocatable(spent)))
    line = next(
        line for line in table.splitlines() if "perftest-rail-0" in line and "not p" in line
    )
    assert line.endswith("s was spent before; last proven 2026-01-01T00:00:00+00:00")


SPINE: ClusterSpec = load_example("spine-leaf")
WHOLE = make_plan(SPINE, "dev").acceptance


def scoped(
    changed: set[str] | None, accept: Accept = "changed", scope: str = "changed"
) -> AcceptancePlan:
    acceptance = SPINE.acceptance.model_copy(update={"scope": scope})
    return narrow(changed_spec(SPINE, acceptance=acceptance), WHOLE, accept, changed)


def test_a_changed_host_is_proven_with_its_partners() -> None:
    names = [host.name for host in SPINE.workers]
    part = scoped({names[3]})
    assert list(part.workers) == names[2:5]
    pairs = {each.probe.nodes for each in part.probes if each.probe.kind == "perftest"}
    assert pairs == {(names[2], names[3]), (names[3], names[4])}
    nccl = next(each.probe for each in part.probes if each.probe.kind == "nccl")
    assert nccl.nodes == tuple(names[2:5])
    assert nccl.ranks == 3 * SPINE.workers[0].gpus
    asked = {(each.probe.name, each.probe.nodes) for each in part.probes}
    whole = {(each.probe.name, each.probe.nodes) for each in WHOLE.probes}
    assert {(each.name, each.nodes) for each in part.left_out} == whole - asked


def test_a_changed_switch_brings_every_pair_that_crosses_it() -> None:
    part = scoped({SPINE.switches[0].name})
    crossing = {
        node
        for each in WHOLE.probes
        if each.probe.kind == "perftest"
        and any(hop.device == SPINE.switches[0].name for hop in each.hops)
        for node in each.probe.nodes
    }
    assert crossing
    assert set(part.workers) == crossing


@pytest.mark.parametrize("changed", [None, set[str]()])
def test_without_a_known_change_all_is_proven(changed: set[str] | None) -> None:
    assert scoped(changed) == WHOLE


def test_scope_all_is_all() -> None:
    assert scoped({SPINE.workers[3].name}, scope="all") == WHOLE


def test_a_canary_is_one_pair() -> None:
    names = [host.name for host in SPINE.workers]
    assert scoped(None, "canary").workers == (names[0], names[1])
    assert scoped({names[4]}, "canary").workers == (names[3], names[4])


def test_what_is_outside_of_the_scope_is_listed_with_its_last_proof(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del cluster
    plan = replace(PLAN.acceptance, left_out=(PLAN.acceptance.probes[0].probe,))
    plan = replace(plan, probes=plan.probes[1:])
    evidence = collect(monkeypatch, tmp_path, plan)
    report = judge_evidence(without_allocatable(evidence))
    line = "not proven: perftest-rail-0-gpu01-gpu02: outside of the scope of this run; never proven"
    assert line in render_table(report)
    assert report.verdict_of("perftest-rail-1-gpu01-gpu02") == "passed"


def test_the_pods_of_probes_displace_nobody(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []
    original = cluster.post

    def post(path: str, body: Any) -> None:  # noqa: ANN401 - bodies of the API
        seen.append(body)
        original(path, body)

    cluster.post = post
    evidence = collect(monkeypatch, tmp_path)
    policy, *jobs = seen
    assert (policy["kind"], policy["value"]) == ("PriorityClass", 0)
    assert policy["preemptionPolicy"] == "Never"
    name = policy["metadata"]["name"]
    for body in jobs:
        pods = [body["spec"].get("template")]
        pods += [each["template"] for each in body["spec"].get("mpiReplicaSpecs", {}).values()]
        classes = {pod["spec"].get("priorityClassName") for pod in pods if pod}
        assert classes <= {name}, body["kind"]
    assert {body["kind"] for body in jobs} >= {"Job", "MPIJob"}
    assert cluster.objects == {}, "the class goes with the run"
    assert "preempt no other pod" in " ".join(evidence.facts.values())


def test_a_cluster_that_allows_no_class_is_told_and_still_proven(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.refuses = ["POST /apis/scheduling.k8s.io"]
    evidence = collect(monkeypatch, tmp_path)
    assert {item.outcome for item in evidence.probes} == {"completed"}
    (told,) = evidence.facts.values()
    assert "which may preempt others: the cluster refused POST /apis/scheduling.k8s.io" in told
