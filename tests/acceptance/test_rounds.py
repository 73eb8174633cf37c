"""Rounds of probes: 128 nodes played without sleeping, faults in a round, and shared ports."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from components.acceptance.acceptance_plan import AcceptancePlan, CounterSource, HopPlan, ProbePlan
from components.acceptance.collect import cluster_jobs, probe_runs
from components.acceptance.collect.cluster_jobs import Body
from components.acceptance.collect.counters import Snapshot
from components.acceptance.collect.probe_runs import Round, run_all
from components.acceptance.collect.turn import Turn
from components.acceptance.evidence import Evidence, ProbeEvidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.probes.probe_job import ProbeJob
from components.core.errors import DeviceError
from tests.acceptance.fake_cluster import FakeCluster
from tests.acceptance.recordings import load_perftest
from tests.acceptance.test_run import PLAN
from tests.acceptance.test_turn import fill

LOG = load_perftest("deepops_dgx1_roce_flattened").replace("10:10:11:", "10:10:111:")
SENT = 65536 * 5000
"""What the client's log says that it sent: even, so that two uplinks take a half each."""
PERFTEST = next(each for each in PLAN.acceptance.probes if each.probe.kind == "perftest")
LEAF_HOSTS = 32
UPLINKS = ("1/31", "1/32")


def host(number: int) -> str:
    return f"gpu{number:03d}"


def leaf_of(number: int) -> str:
    return f"leaf-{number // LEAF_HOSTS}"


def hops_of(sender: int, receiver: int) -> tuple[HopPlan, ...]:
    """The way of one pair; between two leaves over all of the two uplinks of each."""
    way = partial(HopPlan, "rail-0", f"{host(sender)} -> {host(receiver)}")
    first, last = leaf_of(sender), leaf_of(receiver)
    between: list[HopPlan] = []
    if first != last:
        between += [way("uplink_egress", first, port) for port in UPLINKS]
        between += [way("downlink_ingress", last, port) for port in UPLINKS]
    return (
        way("sender_nic", host(sender), "enp5s0"),
        way("switch_ingress", first, f"p{sender}"),
        *between,
        way("switch_egress", last, f"p{receiver}"),
        way("receiver_nic", host(receiver), "enp5s0"),
    )


def pair(sender: int, receiver: int, round_: int) -> ProbePlan:
    """One perftest of the example, between two other hosts."""
    assert PERFTEST.job is not None
    a, b = host(sender), host(receiver)
    text = json.dumps([*PERFTEST.job.objects]).replace("gpu01", a).replace("gpu02", b)
    name = PERFTEST.probe.name.replace("gpu01", a).replace("gpu02", b)
    probe = PERFTEST.probe.model_copy(update={"name": name, "nodes": (a, b)})
    job = ProbeJob(probe, tuple(json.loads(text)), 1, (), "image")
    return ProbePlan(probe, job, hops_of(sender, receiver), round=round_)


def rounds(nodes: int, count: int) -> Iterator[ProbePlan]:
    """`count` rounds of the circle method: each node is in one pair of each round."""
    others = list(range(1, nodes))
    for number in range(count):
        turned = [0, *others[number:], *others[:number]]
        for place in range(nodes // 2):
            yield pair(turned[place], turned[-1 - place], number + 1)


def plan_of(nodes: int, probes: Sequence[ProbePlan]) -> AcceptancePlan:
    linux = next(each for each in PLAN.acceptance.sources if each.os == "linux")
    switch = next(each for each in PLAN.acceptance.sources if each.os != "linux")

    def source(like: CounterSource, name: str, interfaces: tuple[str, ...]) -> CounterSource:
        endpoint = replace(like.endpoint, device=name)
        return CounterSource(endpoint, like.os, interfaces)

    leaves: dict[str, list[str]] = {}
    for number in range(nodes):
        leaves.setdefault(leaf_of(number), [*UPLINKS]).append(f"p{number}")
    sources = [source(linux, host(number), ("enp5s0",)) for number in range(nodes)]
    sources += [source(switch, name, tuple(ports)) for name, ports in leaves.items()]
    base = replace(PLAN.acceptance, images=(), memlock=(), workers=())
    return replace(base, probes=tuple(probes), sources=tuple(sources))


@dataclass
class Clock(threading.local):
    """Each probe has a time of its own, as if all of them waited at once."""

    now_s: float = 0.0

    def pause(self) -> None:
        self.now_s += 1.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Lab:
    """A cluster that many threads ask, and counters that count what the probes of a round sent."""

    fake: FakeCluster
    clock: Clock = field(default_factory=Clock)
    lock: threading.RLock = field(default_factory=threading.RLock)
    read: list[list[CounterSource]] = field(default_factory=list[list[CounterSource]])
    counted: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    running: int = 0
    most_at_once: int = 0

    def get(self, path: str) -> Any:  # noqa: ANN401 - bodies of the API
        with self.lock:
            return self.fake.get(path)

    def text(self, path: str) -> str:
        with self.lock:
            return self.fake.text(path)

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        with self.lock:
            self.fake.post(path, body)

    def delete(self, path: str) -> None:
        with self.lock:
            self.fake.delete(path)

    async def snapshot(
        self, sources: Sequence[CounterSource], secrets: Mapping[str, str]
    ) -> Snapshot:
        del secrets
        self.read.append([*sources])
        return Snapshot(
            {
                (source.endpoint.device, name): {
                    way: self.counted[source.endpoint.device, name, way]
                    for way in ("tx_prio3_bytes", "rx_prio3_bytes", "tx_tc3_bytes", "rx_discards")
                }
                for source in sources
                for name in source.interfaces
            }
        )

    def send(self, probe: ProbePlan) -> None:
        """Count what one probe sends; over two uplinks a half each."""
        for hop in probe.hops:
            between = hop.role in {"uplink_egress", "downlink_ingress"}
            out = hop.role.endswith("_egress")
            way = "tx_prio3_bytes" if hop.role == "sender_nic" else "rx_prio3_bytes"
            key = (hop.device, hop.interface, "tx_tc3_bytes" if out else way)
            size = SENT // 2 if between else SENT
            self.counted[key] += size


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(FakeCluster(log=LOG))
    monkeypatch.setattr(cluster_jobs, "pause", made.clock.pause)
    monkeypatch.setattr(probe_runs, "run_probe", partial(probe_runs.run_probe, clock=made.clock))
    monkeypatch.setattr(probe_runs, "read_snapshot", made.snapshot)
    real = vars(probe_runs)["_run"]  # the seam between a probe and its measuring

    async def run(this: Round, probe: ProbePlan, objects: list[Any]) -> Any:  # noqa: ANN401 - a run
        made.running += 1
        made.most_at_once = max(made.most_at_once, made.running)
        ran = await real(this, probe, objects)
        made.running -= 1
        if ran.succeeded:
            made.send(probe)
        return ran

    monkeypatch.setattr(probe_runs, "_run", run)
    return made


def play(lab: Lab, plan: AcceptancePlan, folder: Path) -> tuple[ProbeEvidence, ...]:
    turn = Turn(plan.policy, lab, lab.clock, lab.clock.pause)
    this = Round(plan, lab, 7, {}, folder, turn, {})
    found, lost = asyncio.run(run_all(this))
    assert lost == ()
    return tuple(found)


def evidence_of(probes: Sequence[ProbeEvidence]) -> Evidence:
    limits = PLAN.acceptance.limits.model_copy(update={"allocatable": {}})
    return Evidence(
        cluster="c", plan_digest="d", run=7, started_at="", finished_at="", provenance="lab",
        limits=limits, probes=tuple(probes),
    )  # fmt: skip


def test_128_nodes_in_rounds_take_calls_and_readings_that_grow_with_the_nodes(
    lab: Lab, tmp_path: Path
) -> None:
    calls: dict[int, int] = {}
    for nodes in (32, 64, 128):
        lab.fake.calls.clear()
        lab.read.clear()
        plan = plan_of(nodes, [*rounds(nodes, 4)])
        found = play(lab, plan, tmp_path)
        assert {item.outcome for item in found} == {"completed"}
        assert [item.probe.name for item in found] == [each.probe.name for each in plan.probes]
        calls[nodes] = len(lab.fake.calls)
        assert len(lab.read) == 2 * 4, "one reading before and one after each round"
        devices = nodes + nodes // LEAF_HOSTS
        assert all(len(sources) == devices for sources in lab.read)
        assert lab.most_at_once == nodes // 2
        assert lab.fake.objects == {}
        report = judge_evidence(evidence_of(found))
        assert {report.verdict_of(item.probe.name) for item in found} == {"passed"}
    per_probe = {nodes: count / (nodes // 2 * 4) for nodes, count in calls.items()}
    assert per_probe[128] <= 20
    assert per_probe[128] <= per_probe[32] * 1.1, per_probe


def test_one_list_serves_all_pods_of_a_round_and_a_new_pod_is_found() -> None:
    fake = FakeCluster()
    api = cluster_jobs.PodList(fake, fake.clock)
    job = pair(0, 1, 1).job
    assert job is not None
    text = json.dumps(job.objects).replace("RUN-NUMBER", "7")
    server, client = json.loads(text)
    folder = cluster_jobs.collection_of(server)
    api.post(folder, server)
    for _ in range(100):
        assert api.get(cluster_jobs.path_of(server)) is not None
    lists = [path for verb, path in fake.calls if verb == "GET" and "?" in path]
    assert len(lists) == 1
    api.post(folder, client)
    assert api.get(cluster_jobs.path_of(client)) is not None, "it is not in the list"
    fake.now_s += cluster_jobs.LIST_S
    api.delete(cluster_jobs.path_of(server))
    assert api.get(cluster_jobs.path_of(server)) is None


POD: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "perftest-s-7", "namespace": "default"},
}


def test_a_list_that_is_refused_stops_no_probe_and_is_not_asked_for_by_each() -> None:
    fake = FakeCluster(refuses=[f"GET {cluster_jobs.collection_of(POD)}?"])
    api = cluster_jobs.PodList(fake, fake.clock)
    api.post(cluster_jobs.collection_of(POD), POD)
    for _ in range(100):
        assert api.get(cluster_jobs.path_of(POD)) is not None
    assert len([path for _, path in fake.calls if "?" in path]) == 1


DISK = "gpu010-gpu011"
FATES: Mapping[str, Any] = {
    "gpu000-gpu001-c": "runs",
    "gpu002-gpu003": "unschedulable",
    "gpu004-gpu005": "no_image",
    "gpu006-gpu007-c": "fails",
}


def test_each_fault_in_a_round_is_its_own_and_the_others_are_whole(
    lab: Lab, tmp_path: Path
) -> None:
    lab.fake.fates = FATES
    lost = f"perftest-rail-0-{host(8)}-{host(9)}-c-7"
    original = lab.fake.text

    def text(path: str) -> str:
        if lost in path:  # the node vanished: the API cannot reach its kubelet
            raise DeviceError("the cluster refused GET log: 502 dial tcp: no route to host")
        return original(path)

    lab.fake.text = text
    (tmp_path / f"perftest-rail-0-{DISK}.log").mkdir()
    probes = [pair(number, number + 1, 1) for number in range(0, 20, 2)]
    found = play(lab, plan_of(20, probes), tmp_path)
    outcomes = [item.outcome for item in found]
    assert outcomes[:6] == ["timed_out", "not_run", "not_run", "failed", "not_run", "not_run"]
    assert outcomes[6:] == ["completed"] * 4
    details = [item.detail for item in found]
    assert "is not scheduled" in details[1]
    assert "ImagePullBackOff" in details[2]
    assert "no route to host" in details[4]
    assert "its log was not kept" in details[5]
    report = judge_evidence(evidence_of(found))
    verdicts = [report.verdict_of(item.probe.name) for item in found]
    assert verdicts[:6] == ["failed", "error", "error", "failed", "error", "error"]
    assert verdicts[6:] == ["passed"] * 4
    assert lab.fake.objects == {}, "no job is left behind"


def test_a_busy_pair_is_skipped_and_one_that_may_wait_comes_last(lab: Lab, tmp_path: Path) -> None:
    names = [host(number) for number in range(4)]
    vfs = {"intel.com/sriov_111": "8"}
    status = {"allocatable": vfs, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"metadata": {"name": name}, "spec": {}, "status": status} for name in names]
    holder = {
        "metadata": {"namespace": "train", "name": "job-0"},
        "spec": {"nodeName": names[1], "containers": [{"resources": {"limits": vfs}}]},
        "status": {"phase": "Running"},
    }
    pods = [holder]
    fill(lab.fake, nodes, pods)
    probes = [pair(0, 1, 1), pair(2, 3, 1)]
    plan = plan_of(4, probes)
    found = play(lab, plan, tmp_path)
    assert [item.outcome for item in found] == ["skipped", "completed"]
    assert found[0].detail == f"busy: pod train/job-0 uses 8 of 8 intel.com/sriov_111 of {names[1]}"

    policy = replace(plan.policy, when_busy="wait", busy_wait_s=5.0)
    found = play(lab, replace(plan, policy=policy), tmp_path)
    assert [item.probe.nodes[0] for item in found] == [names[2], names[0]]
    assert [item.outcome for item in found] == ["completed", "skipped"]


def test_after_one_wait_in_vain_a_place_is_waited_for_a_minute(lab: Lab, tmp_path: Path) -> None:
    lab.fake.fates = {"gpu000": "unschedulable"}
    play(lab, plan_of(4, [pair(0, 1, 1), pair(2, 3, 1), pair(0, 2, 2), pair(1, 3, 2)]), tmp_path)
    looks = [path for verb, path in lab.fake.calls if verb == "GET" and "-s-7" in path]
    first, second = (
        sum(f"gpu000-{peer}" in path and "?" not in path for path in looks)
        for peer in ("gpu001", "gpu002")
    )
    assert (first > 500, second < 70) == (True, True)


def test_a_time_budget_takes_the_oldest_round_first_and_whole(lab: Lab, tmp_path: Path) -> None:
    plan = plan_of(4, [*rounds(4, 3)])
    policy = replace(plan.policy, time_budget_s=3600.0)
    dates = {each.probe.name: f"2026-01-0{4 - each.round}" for each in plan.probes}
    turn = Turn(policy, lab, lab.clock, lab.clock.pause)
    this = Round(replace(plan, policy=policy), lab, 7, {}, tmp_path, turn, dates)
    found, _ = asyncio.run(run_all(this))
    assert [item.round for item in found] == [3, 3, 2, 2, 1, 1]
