"""What is found of single probes, nodes and ports; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.evidence import Evidence, Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.infiniband import judge_ib
from components.acceptance.judge.path import judge_losses, judge_path
from components.acceptance.judge.site import judge_evidence, judge_probe
from components.acceptance.judge.verdict import Finding, Verdict
from components.acceptance.logs.log_model import ParseProblem
from components.acceptance.probes.ib_look import IbFacts
from tests.acceptance.ib_texts import IBDIAGNET, LIMITS, look
from tests.lab_physics.site import Site, take_evidence

PROBE: Final = Probe(name="p", kind="perftest", rails=("rail-0",), nodes=("w0", "w1"))
EMPTY: Final = ParseProblem(kind="empty", what="the log is empty")
EVENTS: Final = "read the events of its pods: is a resource or an image missing?"


def probe(**changes: Any) -> list[Finding]:  # noqa: ANN401 - any field
    whole: dict[str, Any] = {"probe": PROBE, "outcome": "completed"} | changes
    return judge_probe(ProbeEvidence.model_validate(whole), Limits())


@pytest.mark.parametrize(
    ("changes", "verdict", "actual", "detail"),
    [
        ({"outcome": "skipped", "detail": "busy: w0"}, "skipped", "busy: w0", ""),
        ({"outcome": "not_run", "detail": "no pod"}, "error", "not run", "no pod"),
        ({"outcome": "not_run"}, "error", "not run", "it printed nothing"),
        ({"outcome": "failed"}, "failed", "failed", "it printed nothing"),
        (
            {"outcome": "timed_out", "log_tail": ("first", "last", " ")},
            "failed",
            "timed out",
            "last line: last",
        ),
        ({"outcome": "failed", "detail": "why", "log_tail": ("x",)}, "failed", "failed", "why"),
    ],
)
def test_a_probe_that_did_not_end_well(
    changes: dict[str, Any], verdict: Verdict, actual: str, detail: str
) -> None:  # fmt: skip
    assert probe(**changes) == [
        Finding(
            check="run",
            subject="p",
            verdict=verdict,
            expected="a run to its end",
            actual=actual,
            detail=detail,
            next_step="" if verdict == "skipped" else EVENTS,
        )
    ]


@pytest.mark.parametrize(
    ("problem", "actual"),
    [(None, "no log was kept"), (EMPTY, EMPTY.what)],
)  # fmt: skip
def test_a_probe_without_a_log(problem: ParseProblem | None, actual: str) -> None:
    (found,) = probe(problem=problem)
    assert (found.verdict, found.expected, found.actual) == ("error", "a log of perftest", actual)
    assert found.next_step == "read the pod's events and log"


def hop(role: str, **changes: Any) -> Hop:  # noqa: ANN401 - any field
    whole: dict[str, Any] = {
        "rail": "rail-0",
        "direction": "w0 -> w1",
        "role": role,
        "device": "leaf",
        "interface": role,
    }
    return Hop(**(whole | changes))


def test_a_failed_probe_names_the_hop_that_dropped_packets() -> None:
    hops = (hop("switch_ingress", discards=3), hop("switch_egress", discards=0), hop("sender_nic"))
    (found,) = probe(outcome="failed", detail="why", hops=hops)
    place = hops[0].place
    assert found.detail == f"packets were discarded at {place}; why"
    assert found.next_step == f"look at MTU and errors of {place}"


def seen(**changes: Any) -> Evidence:  # noqa: ANN401 - any field
    """Of a site without a probe."""
    whole = take_evidence(Site()).model_dump()
    nothing: dict[str, Any] = {"memlock": {}, "allocatable": {}, "ib": {}}
    bare = nothing | {"probes": (), "unreachable": (), "beside": None}
    return Evidence.model_validate(whole | bare | changes)


@pytest.mark.parametrize(
    ("offered", "verdict", "actual"),
    [
        ({"rdma/a": 2, "rdma/b": 0, "x": 1}, "passed", "rdma/a: 2, rdma/b: 0"),
        ({"rdma/a": 2}, "passed", "rdma/a: 2, rdma/b: 0"),
        ({"rdma/a": 1}, "failed", "rdma/a: 1, rdma/b: 0"),
        ({"rdma/a": 2, "rdma/b": 1}, "failed", "rdma/a: 2, rdma/b: 1"),
        (None, "error", "not read"),
    ],
)
def test_what_a_node_offers(offered: dict[str, int] | None, verdict: str, actual: str) -> None:
    limits = Limits(allocatable={"w0": {"rdma/b": 0, "rdma/a": 2}})
    evidence = seen(limits=limits, allocatable={"w0": offered} if offered else {})
    (found,) = judge_evidence(evidence).findings
    assert (found.check, found.verdict, found.actual) == ("allocatable", verdict, actual)
    assert found.expected == "rdma/a: 2, rdma/b: 0"
    assert (found.next_step == "") is (verdict == "passed")


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [("unlimited", "passed"), ("64", "failed"), ("no answer: x", "error")],
)
def test_what_a_pod_may_pin(limit: str, verdict: str) -> None:
    (found,) = judge_evidence(seen(limits=Limits(), memlock={"w0": limit})).findings
    assert (found.check, found.verdict, found.actual) == ("memlock", verdict, limit)
    assert (found.next_step == "") is (verdict == "passed")


def test_losses_are_warned_of_by_place() -> None:
    hops = (
        hop("switch_ingress", discards=3, pause_frames=0),
        hop("receiver_nic", out_of_sequence=2),
    )
    found = judge_losses(ProbeEvidence(probe=PROBE, outcome="completed", hops=hops))
    assert [(each.check, each.expected, each.actual) for each in found] == [
        ("discards", "no packet discarded", f"3 at {hops[0].place} (rail-0, w0 -> w1)"),
        (
            "out_of_sequence",
            "no packet out of sequence",
            f"2 at {hops[1].place} (rail-0, w0 -> w1)",
        ),
    ]


def test_a_path_without_a_counter_is_not_proven() -> None:
    item = ProbeEvidence(probe=PROBE, outcome="completed")
    assert judge_path(item, Limits(priority=None)) == []
    (found,) = judge_path(item, Limits(priority=3))
    assert (found.verdict, found.expected) == ("error", "all rails: counters of every hop")
    other = item.model_copy(update={"hops": (hop("sender_nic", rail="rail-9"),)})
    assert [each.expected.partition(":")[0] for each in judge_path(other, Limits(priority=3))] == [
        "rail-9, w0 -> w1",
        "rail-0",
    ]


def ib_rows(facts: IbFacts) -> dict[str, Finding]:
    return {each.check: each for each in judge_ib({"gpu01": facts}, LIMITS)}


def test_a_good_port_needs_no_step() -> None:
    good = IBDIAGNET.replace("15\n", "0\n").replace("-E-", "-I-")
    found = ib_rows(look(ibdiagnet=f"{good}status: 0\n"))
    of_it = [each for each in found.values() if not each.check.startswith("rail ")]
    assert {each.next_step for each in of_it} == {""}  # the rails' other ports were not seen
    assert (found["ib rate"].actual, found["ib mtu"].actual) == ("all have it", "all have it")


def test_a_host_without_a_port() -> None:
    found = ib_rows(IbFacts())
    assert (found["ib rate"].verdict, found["ib rate"].actual) == ("error", "no port was seen")
    assert (found["ib mtu"].verdict, found["ib mtu"].actual) == ("error", "no port was seen")
    assert found["ib mtu"].next_step == "install ibverbs-utils on that host"
    assert found["ib ports"].actual == "0 of 0 active"
    assert found["ibdiagnet"].actual == "no host was asked"
