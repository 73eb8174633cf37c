"""Every example's planned probes, played on its devices: good when healthy, and why when not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.acceptance.judge.site import Report, judge_evidence
from tests.lab_physics.examples import HCAS, Played, example


def failed(report: Report) -> dict[str, str]:
    """Check to what it says, of the first probe that has it."""
    return {
        finding.check: f"{finding.actual} {finding.detail}"
        for finding in reversed(report.findings)
        if finding.verdict == "failed"
    }


@pytest.mark.parametrize("name", ["shared-rdma", "crusoe-k3s", "esxi-roce"])
def test_a_healthy_site_passes_every_planned_probe(name: str) -> None:
    played = Played(example(name))
    report = played.report()
    assert report.verdict == "passed", failed(report)
    assert report.warnings == ()
    assert {item.probe.kind for item in report.evidence.probes} <= {
        probe.probe.kind for probe in played.plan.probes
    }


def test_the_five_invocations_of_the_notes_are_all_run() -> None:
    played = Played(example("shared-rdma"))
    tools = [probe.command[0] for probe in played.plan.probes if probe.probe.kind == "perftest"]
    assert tools[1:] == ["ib_read_bw", "ib_write_bw", "ib_send_bw", "ib_write_bw", "ib_write_bw"]
    evidence = {item.probe.name: item for item in played.report().evidence.probes}
    every = evidence["perftest-write-all-node03-node04"].perftest
    assert every is not None
    assert [row.size_bytes for row in every.rows] == [2**power for power in range(1, 24)]
    timed = evidence["perftest-write-cpu-node03-node04"].perftest
    assert timed is not None
    assert timed.rows[0].cpu_percent is not None
    assert timed.rows[0].peak_gbit_s == 0


def test_the_data_of_a_read_flow_from_the_server() -> None:
    played = Played(example("shared-rdma"))
    name = "perftest-read-q30-node03-node04"
    hops = played.report(name).evidence.probes[0].hops
    assert {hop.direction for hop in hops} == {"node04 -> node03"}
    assert [hop.device for hop in hops] == ["node04", "leaf-01", "leaf-01", "node03"]


def test_a_vlan_of_its_own_cuts_a_shared_card_off() -> None:
    played = Played(example("shared-rdma"))
    key = ("leaf-01", "1/2")
    played.ports[key] = replace(played.ports[key], access_vlan=1)
    report = played.report("perftest-rail-0-node03-node04", "nccl-all-reduce")
    assert report.verdict == "failed"
    assert "no_route" in failed(report)["run"] or "ibv_modify_qp" in failed(report)["run"]


def test_a_scan_over_sockets_is_slow_and_says_so() -> None:
    played = Played(example("shared-rdma"))
    played.break_ports(oper_up=False)
    report = played.report("deepspeed-scan")
    found = failed(report)
    assert "NET/Socket" in found["transport"]
    assert "bandwidth" in found


def test_a_scan_without_peermem_is_not_gpudirect() -> None:
    played = Played(example("shared-rdma"))
    played.break_nics(peermem=False)
    assert {"gpudirect", "bandwidth"} <= set(failed(played.report("deepspeed-scan")))


@pytest.mark.parametrize("job", ["nccl-all-reduce", "deepspeed-scan"])
@pytest.mark.parametrize(
    ("release", "kind"),
    [
        # NVIDIA/nccl#925: GID 0 is taken, which is the host's.
        ("2.18.3", "ibv_modify_qp"),
        # #1573: the first releases that look for their GID, and the last one that ends so.
        ("2.21.5", "hidden_gid"),
        ("2.25.1", "hidden_gid"),
        ("2.26.2", ""),
        ("2.28.3", ""),
    ],
)
def test_an_nccl_that_meets_the_gids_of_the_host(job: str, release: str, kind: str) -> None:
    played = Played(example("shared-rdma"), nccl=release, hidden_gids=True)
    found = failed(played.report(job))
    assert kind in found.get("run", "")
    assert bool(found) == bool(kind)
    if kind == "hidden_gid":
        log = "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument"
        assert log in found["run"]
    assert not failed(Played(example("shared-rdma"), nccl=release).report(job))


def test_the_articles_numbers_come_out_of_eight_adapters() -> None:
    report = Played(example("crusoe-k3s")).report("nccl-all-reduce")
    log = report.evidence.probes[0].nccl
    assert log is not None
    largest = {row.size_bytes: row.worst_busbw_gb_s for row in log.rows}
    assert abs(largest[2**30] - 386.65) < 0.5
    assert abs(largest[2**31] - 388.26) < 0.5
    assert log.topology_files == ("/opt/nccl_topo/h100-80gb-sxm-ib.xml",)
    assert {hca.device for host in log.hosts for hca in host.hcas} == set(HCAS)


def test_every_collective_has_its_own_line_of_the_network() -> None:
    played = Played(example("crusoe-k3s"))
    report = played.report()
    collectives = [item.nccl.collective for item in report.evidence.probes if item.nccl]
    assert collectives == [
        "all_reduce_perf",
        "all_gather_perf",
        "reduce_scatter_perf",
        "alltoall_perf",
    ]
    floors = {item.subject: item.expected for item in report.findings if item.check == "bandwidth"}
    assert floors["nccl-all-gather"] == "busbw >= 360.00 GB/s"
    assert floors["nccl-alltoall"] == "busbw >= 65.62 GB/s"


def test_an_adapter_that_is_down_is_missing_and_named() -> None:
    played = Played(example("crusoe-k3s"))
    played.break_hcas(("mlx5_3",), active=False)
    report = played.report("nccl-all-reduce")
    found = failed(report)
    assert {"hcas", "rails", "bandwidth", "adapter counters"} <= set(found)
    assert "7 on worker-0" in found["hcas"]


def test_a_slow_adapter_is_left_out_by_the_search() -> None:
    played = Played(example("crusoe-k3s"))
    played.break_hcas(("mlx5_8",), rate_gbit_s=100)
    assert "mlx5_8" not in failed(played.report("nccl-all-reduce"))["hcas"]


def test_without_an_adapter_the_ranks_end_before_the_program() -> None:
    played = Played(example("crusoe-k3s"))
    played.break_hcas(HCAS, active=False)
    report = played.report("nccl-all-reduce")
    assert report.verdict == "failed"
    assert "no active InfiniBand port" in report.evidence.probes[0].log_tail[0]


def test_without_its_topology_file_a_guest_has_no_gpudirect() -> None:
    played = Played(example("crusoe-k3s"))
    played.files = ()
    found = failed(played.report("nccl-all-reduce"))
    assert "could not be opened" in found["topology file"]
    assert {"gpudirect", "bandwidth"} <= set(found)


def test_a_tree_would_show_more_than_the_adapters_carry() -> None:
    spec = example("crusoe-k3s")
    free = spec.acceptance.model_copy(update={"nccl_algo": None})
    log = Played(spec.model_copy(update={"acceptance": free})).report("nccl-all-reduce")
    found = next(item.actual for item in log.findings if item.check == "bandwidth")
    assert float(found.split()[0]) > 400


def test_without_ats_the_guests_train_without_gpudirect() -> None:
    """Its 7,801 images/s are within the slack of the floor, so that the rate alone would pass."""
    played = Played(example("esxi-roce"))
    played.break_nics(gdr_allowed=False)
    assert set(failed(played.report("resnet50"))) == {"gpudirect"}


def test_over_sockets_the_guests_train_on_the_wrong_transport() -> None:
    played = Played(example("esxi-roce"))
    played.break_ports(oper_up=False)
    assert "transport" in failed(played.report("resnet50"))


def test_an_unmarked_training_is_in_the_wrong_class() -> None:
    spec = example("esxi-roce")
    played = Played(spec)
    played.break_ports(trust="L2")
    found = failed(played.report("resnet50", "nccl-all-reduce"))
    assert "wrong traffic class at leaf-01" in found["traffic class"]


def test_a_node_that_offers_less_is_named() -> None:
    report = Played(example("crusoe-k3s")).report("nccl-all-reduce")
    short = {"crusoe-k3s-worker-0": {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 7}}
    judged = judge_evidence(report.evidence.model_copy(update={"allocatable": short}))
    found = {item.subject: item for item in judged.findings if item.check == "allocatable"}
    assert found["crusoe-k3s-worker-0"].verdict == "failed"
    assert found["crusoe-k3s-worker-0"].actual == "nvidia.com/gpu: 8, nvidia.com/hostdev: 7"
    assert found["crusoe-k3s-worker-1"].verdict == "error"


def test_own_infiniband_passes_its_collective_through_all_adapters() -> None:
    report = Played(example("quantum-ib")).report("nccl-all-reduce")
    assert report.verdict_of("nccl-all-reduce") == "passed", failed(report)


def test_an_adapter_of_own_infiniband_that_is_down_is_missed() -> None:
    played = Played(example("quantum-ib"))
    played.break_hcas(("mlx5_3",), active=False)
    assert played.report("nccl-all-reduce").verdict_of("nccl-all-reduce") == "failed"


def test_a_fabric_that_nobody_looked_at_is_not_proven() -> None:
    report = Played(example("quantum-ib")).report("nccl-all-reduce")
    assert report.verdict == "error", failed(report)
    assert {item.check for item in report.findings if item.verdict == "error"} == {
        "one master",
        "ibdiagnet",
        *(f"rail hca-{number}" for number in range(8)),
    }
