"""Metrics: names, labels, escapes, and what the last acceptance and an audit put into them."""

from __future__ import annotations

import re
from typing import TypeAlias

import pytest

from components.acceptance.evidence import Evidence, ProbeEvidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.publish import (
    METRICS,
    Sample,
    audit_samples,
    proof_samples,
    render_metrics,
)
from components.core.problem import Finding
from tests.lab_physics.site import Site, take_evidence

Values: TypeAlias = dict[tuple[str, ...], float]


def values(samples: list[Sample], name: str) -> Values:
    return {(*each.labels.values(),): each.value for each in samples if each.name == name}


def proofs(evidence: Evidence) -> list[Sample]:
    return [*proof_samples(judge_evidence(evidence))]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return take_evidence(Site())


def busy(evidence: Evidence, kind: str, **more: object) -> Evidence:
    """The same evidence, if other jobs kept the nodes of one kind of probe."""
    probes = tuple(
        ProbeEvidence(probe=item.probe, outcome="skipped", detail="busy: other pods")
        if item.probe.kind == kind
        else item
        for item in evidence.probes
    )
    return evidence.model_copy(update={"probes": probes, **more})


def test_each_metric_has_one_help_and_one_type_before_its_samples(evidence: Evidence) -> None:
    text = render_metrics("dgx-roce", [*audit_samples(["gpu01"], []), *proofs(evidence)])
    blocks = re.split(r"(?m)^# HELP ", text)[1:]
    names = [block.split()[0] for block in blocks]
    assert names == [name for name in METRICS if name in names]
    for name, block in zip(names, blocks, strict=True):
        kind, *samples = block.splitlines()[1:]
        assert kind == f"# TYPE {name} gauge"
        assert all(each.startswith(f'{name}{{site="dgx-roce",') for each in samples)
    assert text.endswith("\n")


def test_a_label_cannot_leave_its_quotes_or_begin_another_line() -> None:
    found = [*audit_samples([], [Finding("x", device='a"} 1\nevil 1\\\x1b[2J', rule="setting")])]
    *_, line = render_metrics("s", found).splitlines()
    assert line == (
        r'railyard_deviations{site="s",device="a\"} 1\\nevil 1\\\\x1b[2J",kind="setting"} 1'
    )


def test_an_audit_counts_by_device_and_kind() -> None:
    kinds = [("gpu01", "setting"), ("gpu01", "setting"), ("gpu02", "unread")]
    found = [Finding("x", device=device, rule=kind) for device, kind in kinds]
    samples = [*audit_samples(["leaf-01", "gpu01"], found)]
    assert values(samples, "railyard_deviations") == {("gpu01", "setting"): 2}
    read = {("leaf-01",): 1, ("gpu01",): 1, ("gpu02",): 0}
    assert values(samples, "railyard_device_read") == read


def test_a_good_run_proves_each_rail_at_its_end(evidence: Evidence) -> None:
    samples = proofs(evidence)
    rails = {(host, rail) for host in ("gpu01", "gpu02") for rail in ("rail-0", "rail-1")}
    assert values(samples, "railyard_rail_passed") == dict.fromkeys(rails, 1)
    dates = values(samples, "railyard_rail_last_proof_timestamp_seconds")
    assert {*dates} == rails
    assert len({*dates.values()}) == 1
    assert values(samples, "railyard_probes")["passed",] == len(evidence.probes)


def test_bytes_in_another_class_are_not_planned() -> None:
    site = Site()
    site.break_port("gpu01", 1, trust="L2")
    found = values(proofs(take_evidence(site)), "railyard_probe_bytes")
    wrong = {key for key, count in found.items() if key[-1] == "no" and count}
    assert {key[:2] for key in wrong} == {("leaf-01", "rail-1")}
    assert {key[3] for key in wrong} == {"0"}


def test_a_ring_counts_each_interface_once(evidence: Evidence) -> None:
    (nccl,) = [item for item in evidence.probes if item.probe.kind == "nccl"]
    alone = evidence.model_copy(update={"probes": (nccl,)})
    found = values(proofs(alone), "railyard_probe_bytes")
    sent = max(hop.total_bytes or 0 for hop in nccl.hops if hop.role == "sender_nic")
    assert found["gpu01", "rail-0", "sent", "3", "yes"] == sent


def test_a_busy_rail_keeps_its_earlier_proof_and_has_no_verdict(evidence: Evidence) -> None:
    early = "2026-01-02T03:04:05+00:00"
    old = {f"gpu01 rail-{n}": early for n in (0, 1)}
    taken = busy(busy(evidence, "perftest"), "nccl", last_proofs=old)
    samples = proofs(taken)
    assert values(samples, "railyard_rail_passed") == {}
    dates = values(samples, "railyard_rail_last_proof_timestamp_seconds")
    assert dates["gpu01", "rail-0"] == 1767323045
    assert dates["gpu02", "rail-0"] == 0


def test_a_failed_collective_accuses_no_rail(evidence: Evidence) -> None:
    probes = tuple(
        item.model_copy(update={"outcome": "failed"}) if item.probe.kind == "nccl" else item
        for item in busy(evidence, "perftest").probes
    )
    samples = proofs(evidence.model_copy(update={"probes": probes}))
    assert values(samples, "railyard_rail_passed") == {}
    assert values(samples, "railyard_probes")["failed",] >= 1


def test_a_hop_without_counters_is_counted_as_such(evidence: Evidence) -> None:
    first, *others = evidence.probes
    hops = tuple(
        hop.model_copy(update={"status": "unreachable", "bytes_by_class": {}})
        for hop in first.hops
        if hop.device == "leaf-01"
    )
    blind = first.model_copy(update={"hops": hops})
    samples = proofs(evidence.model_copy(update={"probes": (blind, *others)}))
    found = values(samples, "railyard_probe_hops_unobserved")
    assert {device for device, _ in found} == {"leaf-01"}
