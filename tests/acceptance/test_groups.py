"""Sites whose workers differ: what is planned, what is proven, and what the report says is not."""

from __future__ import annotations

from typing import Any

from components.acceptance.acceptance_plan import plan_acceptance
from components.acceptance.evidence import (
    Evidence,
    Limits,
    Probe,
    ProbeEvidence,
    RailLimit,
    Unproven,
    WorkerGroup,
)
from components.acceptance.judge.nccl import nccl_floor
from components.acceptance.judge.site import judge_evidence, pair_floor
from components.acceptance.judge.verdict import Finding, Verdict, judge_groups
from components.acceptance.report.text import render_table
from components.model.cluster import ClusterSpec
from tests.golden.site import load_example
from tests.model.test_worker_kinds import changed_host

MIXED = "mixed-nodes"
FAST = Probe(name="fast", kind="nccl", rails=("a", "b"), nodes=("n1", "n2"), ranks=16)
LIMITS = Limits(
    rails=(RailLimit(name="a", line_rate_gbit_s=50), RailLimit(name="b", line_rate_gbit_s=100)),
    pair_fraction=0.9,
    nccl_fraction=0.8,
    groups=(
        WorkerGroup(name="big", hosts=("n1", "n2"), gpus=8, rails=("a", "b")),
        WorkerGroup(name="cpu", hosts=("n3",), gpus=0, rails=("a",), unproven="no GPUs"),
    ),
    unproven=(Unproven(subject="nas", what="its link to a", why="a storage host runs no probe"),),
)


def evidence_of(*probes: Probe) -> Evidence:
    return Evidence(
        cluster="site",
        plan_digest="d",
        run=1,
        started_at="",
        finished_at="",
        provenance="real",
        limits=LIMITS,
        probes=tuple(ProbeEvidence(probe=probe, outcome="completed") for probe in probes),
    )


def finding(subject: str, verdict: Verdict) -> Finding:
    return Finding(check="bandwidth", subject=subject, verdict=verdict, expected="", actual="")


def _job(spec: ClusterSpec, name: str) -> dict[str, Any]:
    probes = {each.probe.name: each for each in plan_acceptance(spec).probes}
    job = probes[name].job
    assert job is not None
    return dict(job.objects[0])["spec"]  # pyright: ignore[reportReturnType] - a plain mapping


def test_a_job_runs_on_the_workers_of_one_kind_with_their_rails() -> None:
    spec = _job(load_example(MIXED), "nccl-all-reduce-small")
    worker = spec["mpiReplicaSpecs"]["Worker"]
    pod = worker["template"]["spec"]
    assert (spec["slotsPerWorker"], worker["replicas"]) == (4, 2)
    assert pod["containers"][0]["resources"]["limits"] == {
        "intel.com/sriov_111": 1,
        "nvidia.com/gpu": 4,
    }
    networks = worker["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks == "sriov111"
    term = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = term["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression["values"] == ["small01", "small02"]
    command = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("-np") + 1] == "8"


def test_a_fast_pair_is_not_judged_by_the_slowest_worker_of_its_rail() -> None:
    probes = {each.probe.name: each.probe for each in plan_acceptance(load_example(MIXED)).probes}
    limits = plan_acceptance(load_example(MIXED)).limits
    floors = {name: pair_floor(limits, p)[0] for name, p in probes.items() if p.kind == "perftest"}
    assert floors == {
        "perftest-rail-0-gpu01-gpu02": 90.0,
        "perftest-rail-0-gpu02-cpu01": 90.0,
        "perftest-rail-0-cpu01-small01": 45.0,
        "perftest-rail-0-small01-small02": 45.0,
        "perftest-rail-1-gpu01-gpu02": 90.0,
    }
    # 0.85 x 200 Gbit/s and 0.85 x 50 Gbit/s, in GB/s.
    assert nccl_floor(limits, probes["nccl-all-reduce-gpu01"])[0] == 21.25
    assert nccl_floor(limits, probes["nccl-all-reduce-small"])[0] == 5.3125


def test_what_no_probe_proves_is_planned_to_be_said() -> None:
    spec = load_example(MIXED)
    unproven = {(each.subject, each.what) for each in plan_acceptance(spec).limits.unproven}
    assert unproven == {("nas01", "its link to rail-0"), ("nas01", "its link to rail-1")}
    without = changed_host(spec, "small02", nics=(), gpus=4)
    said = {(each.subject, each.what) for each in plan_acceptance(without).limits.unproven}
    assert said - unproven == {("small02", "RDMA")}
    # The one host with the fast card is proven at what the others have, and no more.
    slow = [host.nics[0].model_copy(update={"speed_gbit_s": 50}) for host in spec.workers[:2]]
    changed = changed_host(spec, "gpu02", nics=(slow[1], spec.workers[1].nics[1]))
    changed = changed_host(changed, "cpu01", nics=(slow[1],))
    said = {(each.subject, each.what) for each in plan_acceptance(changed).limits.unproven}
    assert said - unproven == {("gpu01", "100 Gbit/s on rail-0")}


def test_workers_that_are_alike_have_no_groups() -> None:
    limits = plan_acceptance(load_example("dgx-roce")).limits
    assert (limits.groups, limits.unproven) == ((), ())


def test_a_group_is_proven_by_its_own_collectives_alone() -> None:
    evidence = evidence_of(FAST)
    judged = {
        verdict: judge_groups(evidence, LIMITS, [finding("fast", verdict), finding("x", "failed")])
        for verdict in ("passed", "failed", "error")
    }
    assert [found[0].verdict for found in judged.values()] == ["passed", "failed", "error"]
    assert judged["passed"][0].actual == "n1, n2: proven by fast"
    assert judged["failed"][0].actual == "n1, n2: not proven by fast"
    others = [(each.subject, each.verdict, each.actual) for each in judged["passed"][1:]]
    assert others == [
        ("cpu", "skipped", "not proven: n3: no GPUs"),
        ("nas", "skipped", "not proven: its link to a: a storage host runs no probe"),
    ]


def test_a_group_without_a_probe_is_not_proven() -> None:
    (big, *_) = judge_groups(evidence_of(), LIMITS, [])
    assert (big.verdict, big.actual) == ("skipped", "not proven: n1, n2: no collective was planned")


def test_the_report_counts_what_is_not_proven() -> None:
    text = render_table(judge_evidence(evidence_of()))
    assert "SKIPPED  group cpu" in text
    assert "a storage host runs no probe" in text
    assert text.endswith("acceptance error: 0 probes planned, 3 things not proven\n")
