"""Pauses and stuck queues on the way of a probe: counted by class, and judged."""

from __future__ import annotations

from typing import Any

import pytest

from components.acceptance.collect.counters import Snapshot, flatten_port, measure_hop
from components.acceptance.evidence import Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.path import judge_losses
from components.acceptance.judge.pauses import judge_storms, name_paused, warn_pauses
from components.acceptance.judge.site import judge_probe
from components.acceptance.judge.verdict import Finding
from components.acceptance.plan import HopPlan
from components.fabric.systems.base import PauseCounters, PortCounters, PriorityCounters

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
    stuck = item(hop("swp1", storms={5: 2, 0: 9}), exit_code=1, detail="why")
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
