"""Pauses and stuck queues on the way of a probe: counted by class, and judged."""

from __future__ import annotations

from typing import Any

import pytest

from components.acceptance.acceptance_plan import HopPlan
from components.acceptance.collect.counters import Snapshot, flatten_port, measure_hop
from components.acceptance.evidence import Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.path import (
    fail_losses,
    judge_losses,
    judge_path,
    judge_storms,
    name_paused,
    warn_pauses,
)
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.verdict import Finding
from components.fabric.systems.base import PauseCounters, PortCounters, PriorityCounters
from components.model.jobs import LossLimits

ROCE = Limits(priority=3, traffic_class=5)


def hop(interface: str, **changes: Any) -> Hop:  # noqa: ANN401 - any field
    way = {"rail": "r", "direction": "a -> b", "role": "switch_egress"}
    whole: dict[str, Any] = {**way, "device": "leaf", "interface": interface, **changes}
    return Hop(**whole)


def item(*hops: Hop, **changes: Any) -> ProbeEvidence:  # noqa: ANN401 - any field
    probe = Probe(name="p", kind="perftest", rails=("r",), nodes=("a", "b"))
    return ProbeEvidence(probe=probe, outcome="completed", hops=hops).model_copy(update=changes)


def slow(check: str = "bandwidth") -> Finding:
    return Finding(check=check, subject="p", verdict="failed", expected="95", actual="40")


def port(received: int, sent: int, storms: int) -> PortCounters:
    pauses = {3: PauseCounters(received, sent), 4: PauseCounters(1, 0)}
    by_class = {5: PriorityCounters(None, received)}
    return PortCounters(by_class, None, 0, pauses=pauses, storms={5: storms, 0: 0})


def test_what_a_port_counted_of_a_probe() -> None:
    first, last = flatten_port(port(10, 20, 1)), flatten_port(port(17, 22, 2))
    assert last["rx_prio3_pause"] == 17
    place: tuple[str, str] = ("leaf", "swp1")
    plan = HopPlan("r", "a -> b", "switch_egress", *place)
    found = measure_hop(plan, Snapshot({place: first}), Snapshot({place: last}))
    assert (found.pauses_received, found.pauses_sent, found.storms) == ({3: 7}, {3: 2}, {5: 1})
    assert found.pause_frames == 9


def test_a_slow_probe_names_the_port_that_was_paused() -> None:
    held = item(
        hop("swp1", pauses_received={3: 7, 4: 2}),
        hop("swp2", pauses_sent={3: 1}),
        hop("swp1", pauses_received={3: 7, 4: 2}),
    )
    said = "in priority 3 leaf swp1 was paused 7 times, leaf swp2 paused its neighbour once"
    assert name_paused(slow(), held, ROCE).detail == said
    why = slow("run").model_copy(update={"detail": "why"})
    assert name_paused(why, held, ROCE).detail == f"{said}; why"
    passed = slow().model_copy(update={"verdict": "passed"})
    for other, limits in ((passed, ROCE), (slow("completeness"), ROCE), (slow(), Limits())):
        assert name_paused(other, held, limits) == other
    assert name_paused(slow(), item(hop("swp1", pauses_received={4: 2})), ROCE) == slow()


def test_a_watchdog_that_fires_in_the_class_fails_the_probe() -> None:
    stuck = item(hop("swp1", storms={5: 2, 0: 9}), outcome="failed", detail="why")
    (found,) = judge_storms(stuck, ROCE)
    assert (found.check, found.verdict) == ("pfc watchdog", "failed")
    assert found.expected == "traffic class 5 never stuck at leaf swp1"
    assert found.actual == "the watchdog fired 2 times"
    assert "show pfcwd stats (SONiC)" in found.next_step
    assert [each.check for each in judge_probe(stuck, ROCE)] == ["run", "pfc watchdog"]
    assert judge_storms(stuck, Limits()) == []
    assert judge_storms(item(hop("swp1", storms={3: 1})), ROCE) == []


@pytest.mark.parametrize(
    ("priority", "others", "ours"),
    [(3, ["12 in priority 4 at leaf swp1"], "7"), (None, [], "19")],
)
def test_another_class_that_pauses_is_warned_of(
    priority: int | None, others: list[str], ours: str
) -> None:
    paused = item(hop("swp1", pause_frames=19, pauses_received={3: 7, 4: 2}, pauses_sent={4: 10}))
    assert [each.actual for each in warn_pauses(paused, Limits(priority=priority))] == others
    (rest,) = judge_losses(paused, priority)
    assert (rest.check, rest.actual) == ("pause_frames", f"{ours} at leaf swp1 (r, a -> b)")


SIXTY_GB = 60 * 10**9


def lossy(kind: str = "perftest", /, **counted: Any) -> ProbeEvidence:  # noqa: ANN401 - any field
    found = item(hop("swp1", total_bytes=SIXTY_GB, **counted))
    probe = found.probe.model_copy(update={"kind": kind})
    return found.model_copy(update={"probe": probe})


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("discards", 100, 101),
        ("out_of_sequence", 120, 121),
        ("retransmissions", 120, 121),
        ("pause_frames", 24_000, 24_001),
        ("ecn_marked", 146_400, 146_401),
    ],
)
def test_losses_warn_within_the_limit_and_fail_beyond(name: str, within: int, beyond: int) -> None:
    """100 at any port, or the limit for 1 TB at 0.06 TB."""
    assert fail_losses(lossy(**{name: within}), ROCE) == []
    assert [each.check for each in judge_losses(lossy(**{name: within}), 3)] == [name]
    (found,) = fail_losses(lossy(**{name: beyond}), ROCE)
    assert (found.check, found.actual) == (name, f"{beyond} at leaf swp1 (r, a -> b)")
    assert found.expected.endswith(f": at most {within} in 60.0 GB")
    assert judge_losses(lossy(**{name: beyond}), 3) == []
    free = {f"{each}_per_tb": None for each in ("discards", "out_of_sequence", "retransmissions")}
    free |= {"pauses_per_tb": None, "marks_per_tb": None}
    limits = ROCE.model_copy(update={"losses": LossLimits.model_validate(free)})
    assert fail_losses(lossy(**{name: beyond}), limits) == []


def test_marks_of_many_to_one_are_how_ecn_works() -> None:
    assert fail_losses(lossy("nccl", ecn_marked=50_000_000), ROCE) == []
    assert len(judge_losses(lossy("nccl", ecn_marked=50_000_000))) == 1
    assert judge_losses(lossy("nccl", ecn_marked=146_400)) == []
    assert judge_losses(lossy(ecn_marked=100)) == []


def test_a_sound_link_has_no_errors_in_a_probe() -> None:
    bad = lossy(errors={"rx_crc_errors_phy": 1})
    (found,) = fail_losses(bad, ROCE)
    assert (found.check, found.expected) == ("rx_crc_errors_phy", "no rx_crc_errors_phy")
    assert [
        each.verdict for each in judge_probe(bad.model_copy(update={"outcome": "failed"}), ROCE)
    ] == [
        "failed",
        "failed",
    ]
    three = ROCE.model_copy(update={"losses": LossLimits(errors_per_port=3)})
    assert fail_losses(bad, three) == []
    assert [each.check for each in judge_losses(bad, 3, three.losses)] == ["rx_crc_errors_phy"]


def test_a_port_that_is_there_and_back_is_named_once() -> None:
    both = [hop("swp1", discards=900, direction="a"), hop("swp1", discards=901, direction="b")]
    assert len(fail_losses(item(*both, hop("swp2", discards=900)), ROCE)) == 2


def test_what_of_a_nic_was_not_counted_is_said() -> None:
    seen = item(hop("eth", role="sender_nic", detail="8 VFs are in pods"), hop("swp1", detail="x"))
    assert [(each.check, each.actual) for each in judge_losses(seen)] == [
        ("losses", "8 VFs are in pods")
    ]


def test_what_congestion_control_did_explains_a_slow_probe() -> None:
    noted = item(hop("eth", noted={"np_cnp_sent": 7}))
    assert name_paused(slow(), noted, ROCE).detail == "leaf eth counted 7 np_cnp_sent"


def test_a_way_on_which_nothing_counts_by_class_is_not_proven() -> None:
    roles = ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic")
    blind = [
        hop(role, role=role, status="uncounted", detail="why", total_bytes=None) for role in roles
    ]
    (found,) = judge_path(item(*blind), ROCE)
    assert (found.verdict, found.detail) == (
        "error",
        "no hop counts by class: leaf sender_nic: why",
    )
