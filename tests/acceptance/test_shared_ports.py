"""Ports that several probes of a round crossed: what of their counts is whose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.path import judge_path, split_shared
from tests.acceptance.test_rounds import LEAF_HOSTS, SENT, Lab, lab, pair, plan_of, play
from tests.acceptance.test_run import PLAN

__all__ = ["lab"]  # the fixture


def crossing(lab: Lab, folder: Path, pairs: int) -> list[ProbeEvidence]:
    """Pairs between two leaves, all over the same uplinks."""
    probes = [pair(number, LEAF_HOSTS + number, 1) for number in range(pairs)]
    return list(play(lab, plan_of(2 * LEAF_HOSTS, probes), folder))


def way_verdicts(items: Sequence[ProbeEvidence], limits: Limits) -> list[str]:
    return [judge_path(item, limits)[0].verdict for item in split_shared(items, limits)]


LIMITS = PLAN.acceptance.limits


def change(item: ProbeEvidence, role: str, times: float, wrong: float = 0.0) -> ProbeEvidence:
    """The hops of a role with so many times the bytes, a share of them in class 0."""
    hops = [
        hop
        if hop.role != role
        else hop.model_copy(
            update={
                "total_bytes": (total := round((hop.total_bytes or 0) * times)),
                "bytes_by_class": {3: round(total * (1 - wrong)), 0: round(total * wrong)},
            }
        )
        for hop in item.hops
    ]
    return item.model_copy(update={"hops": tuple(hops)})


def test_a_shared_uplink_is_judged_by_the_sum(lab: Lab, tmp_path: Path) -> None:
    items = crossing(lab, tmp_path, 16)
    shared = {hop.role: hop.shared for hop in items[0].hops}
    assert shared == {
        "sender_nic": 0, "switch_ingress": 0, "uplink_egress": 16, "downlink_ingress": 16,
        "switch_egress": 0, "receiver_nic": 0,
    }  # fmt: skip
    assert {hop.total_bytes for hop in items[0].hops if hop.shared} == {16 * SENT // 2}
    assert way_verdicts(items, LIMITS) == ["passed"] * 16
    lost = [change(item, "uplink_egress", 0.05) for item in items]
    (finding, *_) = judge_path(next(split_shared(lost, LIMITS)), LIMITS)
    assert (finding.verdict, "its part among 16 probes" in finding.expected) == ("failed", True)
    noisy = [change(item, "uplink_egress", 1.0, wrong=0.02) for item in items]
    assert way_verdicts(noisy, LIMITS) == ["passed"] * 16
    marked_anew = [change(item, "uplink_egress", 1.0, wrong=1.0) for item in items]
    assert way_verdicts(marked_anew, LIMITS) == ["failed"] * 16


def test_the_wrong_class_of_one_probe_is_not_laid_to_the_others(lab: Lab, tmp_path: Path) -> None:
    first, *others = crossing(lab, tmp_path, 4)
    for role in ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic"):
        first = change(first, role, 1.0, wrong=1.0)
    items = [first, *others]
    for role in ("uplink_egress", "downlink_ingress"):
        items = [change(item, role, 1.0, wrong=0.25) for item in items]
    assert way_verdicts(items, LIMITS) == ["failed", "passed", "passed", "passed"]


def test_losses_of_a_shared_port_are_split(lab: Lab, tmp_path: Path) -> None:
    items = crossing(lab, tmp_path, 4)
    lossy = [
        item.model_copy(
            update={"hops": tuple(hop.model_copy(update={"discards": 10}) for hop in item.hops)}
        )
        for item in items
    ]
    for item in split_shared(lossy, LIMITS):
        assert {(hop.shared > 0, hop.discards) for hop in item.hops} == {(True, 3), (False, 10)}
