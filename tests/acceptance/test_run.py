from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from components.acceptance.acceptance_plan import AcceptancePlan, CounterSource
from components.acceptance.collect import cluster_jobs, probe_runs
from components.acceptance.collect.counters import Snapshot
from components.acceptance.collect.probe_runs import collect_evidence
from components.acceptance.evidence import Evidence, dump_evidence, parse_evidence
from components.acceptance.handover import (
    AcceptRequest,
    parse_accept_request,
    render_accept_request,
)
from components.acceptance.judge.site import judge_evidence
from components.core.errors import Bug
from components.plan.make import make_plan
from components.remote.step import secrets_from
from tests.acceptance.fake_cluster import FakeCluster
from tests.acceptance.recordings import load_nccl, load_perftest
from tests.golden.site import load_example


def without_looks(plan: AcceptancePlan) -> AcceptancePlan:
    """The plan without the looks at GPUs, whose logs are other tests' matter."""
    return replace(plan, probes=tuple(p for p in plan.probes if p.probe.kind != "node"))


WHOLE = make_plan(load_example("dgx-roce"), "dev")
PLAN = replace(WHOLE, acceptance=without_looks(WHOLE.acceptance))
REQUEST = AcceptRequest(PLAN.digest, "dev", "lab", PLAN.acceptance)
IMAGE = "".join(
    f"railyard-image: {fact}\n"
    for fact in (
        *(
            f"program {name}=/usr/bin/{name.rpartition('/')[2]}"
            for name in (
                "mpirun",
                "all_reduce_perf",
                "/usr/sbin/sshd",
                "ssh",
                "ssh-keygen",
                "ib_write_bw",
            )
        ),
        "uid=0",
        "mpirun version=mpirun (Open MPI) 4.1.6",
        "daemon=/usr/bin/orted",
        "mpi all_reduce_perf=yes",
        "path=/usr/bin:/bin",
        "home=/root",
        "login=ok",
        "end=ok",
    )
)
"""What a good image shows."""
PERFTEST = "perftest-rail-0-gpu01-gpu02"


def test_a_request_survives_its_text() -> None:
    text = render_accept_request(REQUEST)
    assert parse_accept_request(text) == REQUEST
    assert max(map(len, text.splitlines())) < 60_000
    assert json.loads(text)["plan_digest"] == PLAN.digest


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"plan_digest": 1}'])
def test_another_text_is_our_own_mistake(text: str) -> None:
    with pytest.raises(Bug, match="acceptance request"):
        parse_accept_request(text)


def test_secrets_come_from_the_environment_by_name() -> None:
    environ = {"RAILYARD_SECRET_SWITCH_PASSWORD": "a", "PATH": "/bin", "RAILYARD_ACCEPT": "always"}
    assert secrets_from(environ) == {"switch_password": "a"}


class Wire:
    """Counters of all hops: each reading finds one GiB more in every priority-3 counter."""

    def __init__(self, lost: Mapping[str, str] | None = None, priority: int = 3) -> None:
        self.lost = lost or {}
        self.priority = priority
        self.read = 0

    async def snapshot(
        self, sources: Sequence[CounterSource], secrets: Mapping[str, str]
    ) -> Snapshot:
        del secrets
        grown = self.read * 330_000_000  # 5000 messages of 64 KiB with their headers
        self.read += 1
        names = [f"{way}_prio{self.priority}_bytes" for way in ("rx", "tx")]
        values = dict.fromkeys([*names, f"tx_tc{self.priority}_bytes"], grown)
        quiet = dict.fromkeys(["rx_prio3_pause", "rx_discards", "out_of_sequence", "ecn_marked"], 0)
        return Snapshot(
            {
                (source.endpoint.device, name): values | quiet
                for source in sources
                for name in source.interfaces
                if source.endpoint.device not in self.lost
            },
            self.lost,
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(log=load_nccl("deepops_dgx1_roce"))
    perftest = load_perftest("deepops_dgx1_roce_flattened")
    original = fake.text

    def text(path: str) -> str:
        log = original(path)
        if "memlock" in path:
            return "unlimited\n"
        if "image-jobs" in path:
            return IMAGE
        if "perftest" in path:  # with an address of the rail that is asked
            return perftest.replace("10:10:11:", f"10:10:{112 if 'rail-1' in path else 111}:")
        return log

    fake.text = text
    monkeypatch.setattr(cluster_jobs, "pause", fake.pause)
    monkeypatch.setattr(probe_runs, "run_probe", partial(probe_runs.run_probe, clock=fake.clock))

    def connect(kubeconfig: str) -> FakeCluster:
        assert kubeconfig == "the kubeconfig"
        return fake

    def read(*_: object) -> str:
        return "the kubeconfig"

    monkeypatch.setattr(probe_runs, "KubernetesApi", connect)
    monkeypatch.setattr(probe_runs, "PodList", partial(cluster_jobs.PodList, clock=fake.clock))
    monkeypatch.setattr(probe_runs, "read_kubeconfig", read)
    return fake


SECRETS = {"ssh_private_key": "key"}


def collect(monkeypatch: pytest.MonkeyPatch, folder: Path, wire: Wire, number: int = 7) -> Evidence:
    monkeypatch.setattr(probe_runs, "read_snapshot", wire.snapshot)
    return collect_evidence(REQUEST, number, SECRETS, folder)


def numbers(cluster: FakeCluster) -> Iterator[str]:
    for verb, path in cluster.calls:
        if verb == "DELETE":
            yield path.rpartition("-")[2]


def test_evidence_of_a_good_run(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wire = Wire()
    evidence = collect(monkeypatch, tmp_path / "run-0007", wire)
    assert wire.read == 8, "one before and one after each probe"
    assert (evidence.run, evidence.provenance, evidence.cluster) == (7, "lab", "dgx-roce")
    assert evidence.plan_digest == PLAN.digest
    assert [probe.outcome for probe in evidence.probes] == ["completed"] * 4
    assert all(hop.status == "observed" for probe in evidence.probes for hop in probe.hops)
    assert {hop.total_bytes for probe in evidence.probes for hop in probe.hops} == {330_000_000}
    assert evidence.probes[0].image is not None
    assert evidence.probes[1].perftest is not None
    assert evidence.probes[-1].nccl is not None
    assert judge_evidence(evidence).verdict_of(PERFTEST) == "passed"
    assert set(numbers(cluster)) == {"7"}
    assert cluster.objects == {}


def test_logs_lie_beside_the_report_and_evidence_survives_its_text(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del cluster
    folder = tmp_path / "run-0007"
    evidence = collect(monkeypatch, folder, Wire())
    for probe in evidence.probes:
        log = tmp_path / probe.log_file
        assert log.parent == folder
        assert len(log.read_bytes()) == probe.log_bytes > 0
    assert parse_evidence(dump_evidence(evidence)) == evidence


def test_an_unreachable_device_is_evidence_and_not_an_error(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del cluster
    wire = Wire({"gpu02": "gpu02 (nvidia@192.168.2.12:22) is not reachable\n  why"})
    evidence = collect(monkeypatch, tmp_path, wire)
    (lost,) = evidence.unreachable
    assert (lost.device, lost.address) == ("gpu02", "192.168.2.12:22")
    assert lost.detail == "gpu02 (nvidia@192.168.2.12:22) is not reachable"
    statuses = {hop.status for hop in evidence.probes[1].hops if hop.device == "gpu02"}
    assert statuses == {"unreachable"}
    assert judge_evidence(evidence).verdict_of(PERFTEST) == "error"


def test_bytes_in_another_class_are_named_with_their_hop(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del cluster
    evidence = collect(monkeypatch, tmp_path, Wire(priority=0))
    report = judge_evidence(evidence)
    assert report.verdict == "failed"
    assert "wrong traffic class at" in report.model_dump_json()


def test_a_probe_that_found_no_vf_was_not_run(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.fates = {"nccl": "unschedulable"}
    evidence = collect(monkeypatch, tmp_path, Wire())
    outcomes = [probe.outcome for probe in evidence.probes]
    assert outcomes == ["completed", "completed", "completed", "not_run"]
    assert "Insufficient intel.com/sriov_111" in evidence.probes[-1].detail
    assert judge_evidence(evidence).verdict != "passed"


def test_a_missing_operator_is_evidence(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.refuses = ["POST /apis/kubeflow.org"]
    evidence = collect(monkeypatch, tmp_path, Wire())
    assert evidence.probes[-1].outcome == "not_run"
    assert "the cluster refused POST /apis/kubeflow.org" in evidence.probes[-1].detail


def test_a_cluster_that_is_gone_is_evidence(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.refuses = ["GET", "POST", "DELETE"]
    evidence = collect(monkeypatch, tmp_path, Wire())
    first, *others = evidence.probes
    assert (first.probe.kind, first.outcome) == ("image", "not_run")
    assert {probe.outcome for probe in others} == {"skipped"}, "no job is begun in it"
    assert judge_evidence(evidence).exit_code in {1, 4}


def test_a_failed_job_keeps_its_log_and_its_reason(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.fates = {"-c-7": "fails"}
    evidence = collect(monkeypatch, tmp_path, Wire())
    probe = evidence.probes[1]
    assert probe.outcome == "failed"
    assert probe.detail.startswith("it failed; perftest-rail-0-gpu01-gpu02-s-7: ")
    assert probe.log_tail


def test_the_memlock_limit_is_read_in_a_pod_of_every_worker(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.fates = {"memlock-gpu02": "unschedulable"}
    evidence = collect(monkeypatch, tmp_path, Wire())
    assert evidence.memlock["gpu01"] == "unlimited"
    assert evidence.memlock["gpu02"].startswith("no answer: pod ")


def test_between_two_probes_only_what_they_cross_is_read(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cluster
    planned = without_looks(make_plan(load_example("spine-leaf"), "dev").acceptance)
    wire, asked = Wire(), list[int]()

    async def count(sources: Sequence[CounterSource], secrets: Mapping[str, str]) -> Snapshot:
        asked.append(sum(len(source.interfaces) for source in sources))
        return await wire.snapshot(sources, secrets)

    monkeypatch.setattr(probe_runs, "read_snapshot", count)
    request = AcceptRequest("0123456789abcdef", "dev", "lab", planned)
    evidence = collect_evidence(request, 7, SECRETS, tmp_path)
    pairs = sum(probe.probe.kind == "perftest" for probe in planned.probes)
    crossed: dict[int, set[tuple[str, str]]] = {}
    for each in planned.probes:
        places = {(hop.device, hop.interface) for hop in each.hops}
        crossed.setdefault(each.round or -1, set()).update(places)
    assert (pairs, len(asked)) == (120, 2 * (len(crossed) + 1)), "the image comes first"
    assert asked[2::2] == asked[3::2] == [len(places) for places in crossed.values()]
    measured = [hop.status for item in evidence.probes for hop in item.hops]
    assert set(measured) == {"observed"}, "nothing that a probe crosses is left out"
