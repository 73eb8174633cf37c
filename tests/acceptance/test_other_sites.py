"""Plans, counters and runs of acceptance where there is no rail, or no cluster."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from components.acceptance.acceptance_plan import (
    ADAPTERS,
    AcceptancePlan,
    CounterSource,
    HopPlan,
    plan_acceptance,
)
from components.acceptance.collect import counters, probe_runs
from components.acceptance.collect.cluster_jobs import Body, ProbeRun
from components.acceptance.collect.counters import Snapshot, measure_hops, read_snapshot
from components.acceptance.collect.probe_runs import collect_evidence
from components.acceptance.handover import (
    AcceptRequest,
    parse_accept_request,
    render_accept_request,
)
from components.acceptance.judge.site import judge_evidence
from components.acceptance.probes.probe_job import HostProbe
from components.core.errors import UnreachableError
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.base import ClusterRef
from components.model.cluster import ClusterSpec
from components.remote.host_session import HostAnswer, Run
from components.remote.step import Endpoint, secrets_for
from tests.acceptance.fake_cluster import FakeCluster
from tests.acceptance.recordings import load_training
from tests.graph.dev_site import kubeconfig
from tests.lab_physics.examples import example

ADAPTER_TEXT = """=== mlx5_0
port_xmit_data: {sent}
port_rcv_data: {received}
port_rcv_errors: 0
port_xmit_discards: 0
out_of_sequence: 0
=== mlx5_5
port_xmit_data: {sent}
port_rcv_data: {received}
port_rcv_errors: 0
port_xmit_discards: 3
out_of_sequence: 0
"""


def plan(name: str) -> AcceptancePlan:
    spec = example(name)
    return plan_acceptance(spec, plan_kubernetes(spec, "dev") if spec.kubernetes else None)


def read(source: CounterSource, monkeypatch: pytest.MonkeyPatch, answer: str) -> Snapshot:
    async def run_on_host(*_: object, **__: object) -> HostAnswer:
        await asyncio.sleep(0)
        return HostAnswer(answer, "", 0)

    monkeypatch.setattr(counters, "run_on_host", run_on_host)
    return asyncio.run(read_snapshot([source], {"ssh_private_key": "key"}))


def test_infiniband_has_adapters_instead_of_hops() -> None:
    planned = plan("crusoe-k3s")
    assert {(hop.device, hop.role, hop.interface) for hop in planned.probes[-1].hops} == {
        (f"crusoe-k3s-worker-{n}", role, ADAPTERS)
        for n in (0, 1)
        for role in ("sender_nic", "receiver_nic")
    }
    assert [(source.os, source.interfaces) for source in planned.sources] == [
        ("infiniband", (ADAPTERS,))
    ] * 2


def test_limits_of_a_cloud_come_from_its_fabric_and_its_file() -> None:
    limits = plan("crusoe-k3s").limits
    assert (limits.transport, limits.priority, limits.traffic_class) == ("ib", None, None)
    assert (limits.hcas, limits.hca_rate_gbit_s) == (8, 400)
    assert (limits.nccl_floor_gb_s, limits.nccl_warn_gb_s) == (360, 380)
    assert "0.90 x 8 x 400" in limits.nccl_floor_source
    assert (limits.nccl_min_version, limits.topology_file) == (
        "2.19",
        "/opt/nccl_topo/h100-80gb-sxm-ib.xml",
    )
    assert limits.allocatable["crusoe-k3s-worker-1"] == {
        "nvidia.com/gpu": 8,
        "nvidia.com/hostdev": 8,
    }


def test_counters_of_adapters_are_words_of_four_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = plan("crusoe-k3s").sources[0]
    device = source.endpoint.device
    before = read(source, monkeypatch, ADAPTER_TEXT.format(sent=10, received=20))
    after = read(source, monkeypatch, ADAPTER_TEXT.format(sent=110, received=520))
    hop = HopPlan("infiniband", f"{device} receives", "receiver_nic", device, ADAPTERS)
    found = measure_hops(hop, before, after)
    assert [(item.interface, item.total_bytes) for item in found] == [
        ("mlx5_0", 2000),
        ("mlx5_5", 2000),
    ]
    assert [item.discards for item in found] == [0, 0]


def test_the_reading_script_takes_active_infiniband_ports_only(tmp_path: Path) -> None:
    for name, layer, state in (
        ("mlx5_0", "InfiniBand", "4: ACTIVE"),
        ("mlx5_1", "InfiniBand", "1: DOWN"),
        ("mlx5_4", "Ethernet", "4: ACTIVE"),
    ):
        port = tmp_path / name / "ports" / "1"
        (port / "counters").mkdir(parents=True)
        (port / "link_layer").write_text(f"{layer}\n")
        (port / "state").write_text(f"{state}\n")
        (port / "counters" / "port_xmit_data").write_text("7\n")
    script = counters.counters_script(()).replace("/sys/class/infiniband", str(tmp_path))
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=10, check=False
    )
    source = plan("crusoe-k3s").sources[0]
    found = counters.parse_ethtool(done.stdout, source)
    assert found == {"mlx5_0": {"port_xmit_data": 7}}  # no out_of_sequence is not 0 of it


def test_a_worker_without_an_active_adapter_is_not_observed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = plan("crusoe-k3s").sources[0]
    snapshot = read(source, monkeypatch, "")
    device = source.endpoint.device
    assert "no active InfiniBand adapter" in snapshot.unreachable[device]
    hop = HopPlan("infiniband", f"{device} sends", "sender_nic", device, ADAPTERS)
    (found,) = measure_hops(hop, snapshot, snapshot)
    assert found.status == "unreachable"


def test_guests_are_proven_by_commands_on_hosts() -> None:
    planned = plan("esxi-roce")
    assert [(probe.probe.kind, probe.probe.ranks) for probe in planned.probes] == [
        ("mpi_hosts", 4),
        ("mpi_gpus", 4),
        ("perftest", 0),
        ("nccl", 4),
        ("resnet50", 4),
    ]
    assert all(probe.job is None and probe.host is not None for probe in planned.probes)
    assert planned.memlock == ()
    assert planned.limits.images_floor_s == 7560
    assert {end.device for end in planned.endpoints} == {
        "leaf-01",
        *(f"vm0{n}" for n in range(1, 5)),
    }


def test_a_collective_crosses_every_host_of_the_ring() -> None:
    nccl = plan("esxi-roce").probes[3]
    assert {hop.direction for hop in nccl.hops} == {
        "vm01 -> vm02",
        "vm02 -> vm03",
        "vm03 -> vm04",
        "vm04 -> vm01",
    }


@pytest.mark.parametrize("name", ["esxi-roce", "shared-rdma", "crusoe-k3s"])
def test_every_request_survives_its_text(name: str) -> None:
    request = AcceptRequest("0123456789abcdef", name, "lab", plan(name))
    text = render_accept_request(request)
    assert parse_accept_request(text) == request
    assert max(map(len, text.splitlines())) < 60_000


async def no_counters(sources: Sequence[CounterSource], secrets: Mapping[str, str]) -> Snapshot:
    del sources, secrets
    await asyncio.sleep(0)
    return Snapshot({})


def test_without_a_kubeconfig_hosts_run_the_probes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def run_host_probe(probe: HostProbe, secrets: Mapping[str, str]) -> ProbeRun:
        await asyncio.sleep(0)
        assert secrets == {"ssh_private_key": "key"}
        asked.append(probe.probe.name)
        hosts = "".join(f"vm0{n}\n" for n in range(1, 5))
        logs = {"mpi-hosts": hosts, "resnet50": load_training("nvaie_resnet50")}
        return ProbeRun(logs.get(probe.probe.name, ""), ended=True, succeeded=True, reason="")

    monkeypatch.setattr(probe_runs, "run_host_probe", run_host_probe)
    monkeypatch.setattr(probe_runs, "read_snapshot", no_counters)
    planned = plan("esxi-roce")
    request = AcceptRequest("0123456789abcdef", "dev", "lab", planned)
    evidence = collect_evidence(request, 3, {"ssh_private_key": "key"}, tmp_path)
    assert asked == [probe.probe.name for probe in planned.probes]
    assert (evidence.memlock, evidence.allocatable) == ({}, {})
    report = judge_evidence(evidence)
    assert report.verdict_of("mpi-hosts") == "passed"
    # Its log has no line of NCCL, and no counter was read: fast, and nothing proven.
    found = {item.check: item.verdict for item in report.findings if item.subject == "resnet50"}
    assert (found["throughput"], found["transport"], found["traffic class"]) == (
        "passed",
        "error",
        "error",
    )
    assert report.verdict_of("nccl-all-reduce") == "error"


Answers = Callable[[Endpoint], HostAnswer]


def silent(endpoint: Endpoint) -> HostAnswer:
    raise UnreachableError(f"{endpoint.where} is not reachable within 20 s")


def hold(text: str) -> Answers:
    return lambda _: HostAnswer(text, "", 0)


def servers_that(monkeypatch: pytest.MonkeyPatch, answer: Answers) -> None:
    def with_keys(endpoints: Iterable[Endpoint], environ: Mapping[str, str]) -> Run:
        keyed = {endpoint.device: secrets_for(endpoint, environ) for endpoint in endpoints}

        def ask(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
            assert keyed[endpoint.device] == {"ssh_private_key": "key"}
            assert "cat /etc/rancher/k3s/k3s.yaml" in command
            assert (stdin, deadline_s) == ("", 60.0)
            return answer(endpoint)

        return ask

    monkeypatch.setattr(probe_runs, "run_on_hosts", with_keys)


@pytest.mark.parametrize(
    ("secrets", "answer", "words"),
    [
        ({}, silent, "set RAILYARD_SECRET_SSH_PRIVATE_KEY in the environment"),
        ({"ssh_private_key": "key"}, silent, "is not reachable within 20 s"),
        ({"ssh_private_key": "key"}, hold("none\n"), "its servers hold no kubeconfig"),
        ({"ssh_private_key": "key"}, hold("no: yaml\n"), "kubeconfig"),
    ],
)
def test_a_cluster_that_is_not_reached_is_evidence(
    secrets: dict[str, str],
    answer: Answers,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(probe_runs, "read_snapshot", no_counters)
    servers_that(monkeypatch, answer)
    request = AcceptRequest("0123456789abcdef", "dev", "lab", plan("shared-rdma"))
    evidence = collect_evidence(request, 1, secrets, tmp_path)
    looks = [probe for probe in evidence.probes if probe.probe.kind == "image"]
    assert {probe.outcome for probe in looks} == {"not_run"}
    assert all(words in probe.detail for probe in looks), looks[0].detail
    assert evidence.allocatable == {}
    assert {probe.outcome for probe in evidence.probes if probe not in looks} == {"skipped"}
    assert judge_evidence(evidence).verdict == "error"


class Nodes(FakeCluster):
    """A cluster that lacks a node, and whose only one lacks a resource."""

    def get(self, path: str) -> Body | None:
        if path == "/api/v1/nodes":
            offered = {"nvidia.com/gpu": "8", "rdma/hca": "500", "cpu": "176"}
            node = {"metadata": {"name": "node03"}, "status": {"allocatable": offered}}
            return {"items": [node]}
        return super().get(path)


EXISTING = ClusterRef("shared-rdma", kubeconfig_secret="cluster_admin")


@pytest.mark.parametrize("access", [None, EXISTING], ids=["ours", "existing"])
def test_what_a_node_offers_is_read_and_judged(
    access: ClusterRef | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kubeconfig is read now: from a server of ours, or from the secret of its owner."""
    monkeypatch.setattr(probe_runs, "read_snapshot", no_counters)
    servers_that(monkeypatch, hold(kubeconfig()))
    addresses: list[str] = []

    def connect(text: str) -> Nodes:
        addresses.append(yaml.safe_load(text)["clusters"][0]["cluster"]["server"])
        return Nodes()

    monkeypatch.setattr(probe_runs, "KubernetesApi", connect)
    planned = plan("shared-rdma")
    bare = replace(
        planned,
        images=(),
        probes=(),
        sources=(),
        workers=(),
        memlock=(),
        access=access or planned.access,
    )
    request = AcceptRequest("0123456789abcdef", "dev", "lab", bare)
    secrets = {"cluster_admin": kubeconfig(), "ssh_private_key": "key"}
    evidence = collect_evidence(request, 1, secrets, tmp_path)
    assert planned.access is not None
    of_server = planned.access.servers[0].url
    assert addresses == ["https://127.0.0.1:6443" if access else of_server]
    assert of_server != "https://127.0.0.1:6443"
    assert evidence.allocatable == {
        "node03": {"nvidia.com/gpu": 8, "rdma/hca": 500, "rdma/hca_shared_devices_b": 0}
    }
    verdicts = {item.subject: item.verdict for item in judge_evidence(evidence).findings}
    assert verdicts == {"node03": "failed", "node04": "error"}


def test_one_node_alone_has_nobody_to_talk_to() -> None:
    spec: ClusterSpec = example("shared-rdma")
    jobs = spec.jobs.model_copy(update={"deepspeed": None})  # one worker is too few for the sample
    alone = spec.model_copy(update={"hosts": spec.hosts[:2], "jobs": jobs})
    kinds = {probe.probe.kind for probe in plan_acceptance(alone).probes}
    assert "perftest" not in kinds
    assert "nccl" not in kinds
