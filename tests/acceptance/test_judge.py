from __future__ import annotations

import json

import pytest

from components.acceptance.evidence import (
    Evidence,
    Hop,
    Limits,
    Probe,
    RailLimit,
    Unreachable,
    diff_counters,
    dump_evidence,
    parse_evidence,
)
from components.acceptance.judge.nccl import nccl_floor
from components.acceptance.judge.site import judge_evidence, pair_floor
from components.acceptance.report.text import render_table
from components.core.errors import UsageError
from tests.lab_physics.site import Site, take_evidence


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return take_evidence(Site())


def with_probe(evidence: Evidence, index: int, **changes: object) -> Evidence:
    probes = list(evidence.probes)
    probes[index] = probes[index].model_copy(update=changes)
    return evidence.model_copy(update={"probes": tuple(probes)})


def change_hop(evidence: Evidence, role: str, **changes: object) -> Evidence:
    hops = tuple(
        hop.model_copy(update=changes) if hop.role == role else hop
        for hop in evidence.probes[0].hops
    )
    return with_probe(evidence, 0, hops=hops)


def test_healthy_evidence_passes(evidence: Evidence) -> None:
    report = judge_evidence(evidence)
    assert (report.verdict, report.exit_code) == ("passed", 0)
    assert report.warnings == ()


def test_evidence_survives_json_and_has_no_long_line(evidence: Evidence) -> None:
    text = dump_evidence(evidence)
    assert parse_evidence(text) == evidence
    assert max(len(line) for line in text.splitlines()) < 60_000


def test_foreign_json_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_evidence('{"schema_version": 1}')


def test_no_probe_is_an_error_not_a_pass(evidence: Evidence) -> None:
    report = judge_evidence(evidence.model_copy(update={"probes": ()}))
    assert (report.verdict, report.exit_code) == ("error", 4)


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("not_run", "error"), ("timed_out", "failed"), ("failed", "failed")]
)
def test_a_probe_that_did_not_end_does_not_pass(
    evidence: Evidence, outcome: str, verdict: str
) -> None:
    report = judge_evidence(with_probe(evidence, 0, outcome=outcome))
    assert report.verdict_of("perftest-rail-0") == verdict
    assert report.verdict == verdict


def test_a_perfect_log_of_a_failed_run_fails(evidence: Evidence) -> None:
    assert judge_evidence(with_probe(evidence, 2, outcome="failed")).verdict == "failed"


def test_wrong_class_names_hop_class_and_share(evidence: Evidence) -> None:
    broken = change_hop(
        evidence,
        "switch_ingress",
        total_bytes=8_100_000_000,
        bytes_by_class={0: 7_857_000_000, 3: 243_000_000},
    )
    text = render_table(judge_evidence(broken))
    assert (
        "wrong traffic class at leaf-01 1/3: expected priority 3, 97 % of 8.1 GB in priority 0"
        in text
    )


def test_wrong_class_without_the_other_classes(evidence: Evidence) -> None:
    broken = change_hop(evidence, "switch_egress", total_bytes=400_000_000, bytes_by_class={3: 0})
    text = render_table(judge_evidence(broken))
    assert "leaf-01 1/1: expected traffic class 3, 100 % of 400.0 MB not in traffic class 3" in text


def test_a_way_in_without_classes_is_proven_by_the_way_out(evidence: Evidence) -> None:
    uncounted: dict[str, object] = {"status": "uncounted", "bytes_by_class": {}}
    unclassed = change_hop(evidence, "switch_ingress", **uncounted)
    assert judge_evidence(unclassed).verdict == "passed"
    wrong = change_hop(unclassed, "switch_egress", total_bytes=400_000_000, bytes_by_class={3: 0})
    assert judge_evidence(wrong).verdict == "failed"
    little = change_hop(unclassed, "switch_ingress", total_bytes=9)
    assert "did not pass leaf-01" in render_table(judge_evidence(little))


def test_a_little_other_traffic_is_allowed(evidence: Evidence) -> None:
    hop = evidence.probes[0].hops[0]
    assert hop.total_bytes is not None
    mixed = {0: hop.total_bytes // 50, 3: hop.total_bytes}
    more = change_hop(evidence, "sender_nic", bytes_by_class=mixed, total_bytes=sum(mixed.values()))
    assert judge_evidence(more).verdict == "passed"


def test_bytes_that_passed_elsewhere_fail(evidence: Evidence) -> None:
    report = judge_evidence(
        change_hop(evidence, "switch_egress", total_bytes=1000, bytes_by_class={3: 1000})
    )
    assert report.verdict == "failed"
    assert "did not pass leaf-01 1/1" in render_table(report)


@pytest.mark.parametrize("status", ["not_observed", "unreachable"])
def test_an_unseen_hop_is_an_error(evidence: Evidence, status: str) -> None:
    report = judge_evidence(
        change_hop(evidence, "switch_ingress", status=status, total_bytes=0, bytes_by_class={})
    )
    assert report.verdict == "error"
    assert "not observed" in render_table(report)


def test_a_wrong_class_outweighs_an_unseen_hop(evidence: Evidence) -> None:
    blind = change_hop(evidence, "switch_ingress", status="unreachable")
    both = change_hop(blind, "receiver_nic", bytes_by_class={0: 334_560_000})
    assert judge_evidence(both).verdict == "failed"


def test_no_counters_is_an_error(evidence: Evidence) -> None:
    assert judge_evidence(with_probe(evidence, 0, hops=())).verdict == "error"
    half = evidence.probes[2].hops[:4]
    assert judge_evidence(with_probe(evidence, 2, hops=half)).verdict == "error"


def test_an_unreachable_device_is_an_error(evidence: Evidence) -> None:
    gone = Unreachable(device="leaf-01", address="127.41.0.5", detail="no answer in 10 s")
    report = judge_evidence(evidence.model_copy(update={"unreachable": (gone,)}))
    assert (report.verdict, report.exit_code) == ("error", 4)


def test_losses_warn_and_do_not_fail(evidence: Evidence) -> None:
    report = judge_evidence(change_hop(evidence, "receiver_nic", out_of_sequence=12))
    assert report.verdict == "passed"
    assert "12 at gpu01 enp5s0" in report.warnings[0].text


def test_missing_ranks_fail(evidence: Evidence) -> None:
    probe = evidence.probes[2].probe.model_copy(update={"ranks": 32})
    assert judge_evidence(with_probe(evidence, 2, probe=probe)).verdict == "failed"


def test_floors_show_their_origin() -> None:
    limits = Limits(
        rails=(
            RailLimit(name="a", line_rate_gbit_s=100),
            RailLimit(name="b", line_rate_gbit_s=100),
        ),
        nccl_fraction=0.9,
    )
    assert pair_floor(limits, Probe(name="q", kind="perftest", rails=("a",), nodes=())) == (
        90.0,
        "0.9 x 100 Gb/s line rate (ceiling at RDMA MTU 4096: 98.0)",
    )
    small = RailLimit(name="a", line_rate_gbit_s=100, rdma_mtu_bytes=1024)
    other = Probe(name="q", kind="perftest", rails=("a",), nodes=())
    assert pair_floor(limits.model_copy(update={"rails": (small,)}), other)[1] == (
        "0.9 x 100 Gb/s line rate (ceiling at RDMA MTU 1024: 92.6)"
    )
    probe = Probe(name="p", kind="nccl", rails=("a", "b"), nodes=("one", "other"), ranks=16)
    floor, origin = nccl_floor(limits, probe)
    assert floor == 22.5
    assert "25 GB/s, the line rate of 2 rails" in origin


def test_a_cleared_counter_is_not_counted() -> None:
    assert diff_counters({"a": 900, "b": 1}, {"a": 50, "b": 4, "c": 7}) == {"b": 3, "c": 7}


def test_a_place_reads_as_device_and_interface() -> None:
    hop = Hop(rail="r", direction="d", role="switch_ingress", device="leaf-01", interface="1/2")
    assert hop.place == "leaf-01 1/2"
    assert "place" not in json.loads(hop.model_dump_json())
