"""Proofs that no longer count, and proofs of a part."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from components.acceptance.evidence import Evidence, LeftOut
from components.acceptance.handover import as_of, for_gate, parse_named, tell
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.text import PASSED_LINE, render_table
from components.core.errors import UsageError
from components.plan.make import make_plan
from components.update.proof import narrow_to
from tests.golden.site import changed_spec, load_example
from tests.lab_physics.site import Site, take_evidence

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
GOOD = take_evidence(Site())


def ended(days_ago: float, **more: object) -> Evidence:
    end = (NOW - timedelta(days=days_ago)).isoformat(timespec="seconds")
    return GOOD.model_copy(update={"finished_at": end, **more})


@pytest.mark.parametrize(
    ("days_ago", "limit", "verdict"),
    [
        (0, 30, "passed"),
        (29.9, 30, "passed"),
        (30.1, 30, "error"),
        (8, 7, "error"),
        (-2, 30, "error"),
    ],
)
def test_old_evidence_is_no_pass(days_ago: float, limit: int, verdict: str) -> None:
    report = as_of(judge_evidence(ended(days_ago, max_age_days=limit)), NOW)
    assert report.verdict == verdict
    assert (PASSED_LINE in render_table(report)) is (verdict == "passed")


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_evidence_without_a_date_is_no_pass(date: str) -> None:
    evidence = GOOD.model_copy(update={"finished_at": date})
    assert as_of(judge_evidence(evidence), NOW).verdict == "error"


def test_a_fault_stays_a_fault_when_it_is_old() -> None:
    hops = tuple(hop.model_copy(update={"total_bytes": 0}) for hop in GOOD.probes[0].hops)
    wrong = GOOD.probes[0].model_copy(update={"hops": hops})
    report = as_of(judge_evidence(ended(90, probes=(wrong, *GOOD.probes[1:]))), NOW)
    assert report.verdict == "failed"


def test_the_gate_refuses_evidence_of_another_plan() -> None:
    report = judge_evidence(ended(1))
    told = tell(report, "dev", "0" * 64)
    assert parse_named(told).asked == ""
    named = parse_named(for_gate("another", told))
    assert told in for_gate("another", told), "the state is searched for it"
    assert "another" in for_gate("another", None), "pulumi up --continue-on-error goes on"
    assert as_of(report, NOW, named.asked).verdict == "error"
    assert "plan another" in render_table(as_of(report, NOW, named.asked))
    assert as_of(report, NOW, GOOD.plan_digest).verdict == "passed"


def test_the_state_has_the_date_of_the_oldest_part() -> None:
    left = (LeftOut(name="a", proven_at="2026-10-01T00:00:00+00:00"), LeftOut(name="b"))
    report = judge_evidence(ended(1, left_out=left))
    assert parse_named(tell(report, "dev", "0" * 64)).proven_at == left[0].proven_at
    assert as_of(report, NOW).verdict == "passed", "the update proved what it was asked for"


SPINE = load_example("spine-leaf")
HOSTS = tuple(
    host.model_copy(update={"domain": f"su{number // 4}"}) if host.role == "worker" else host
    for number, host in enumerate(SPINE.hosts)
)
UNITS = changed_spec(SPINE, hosts=HOSTS)
WHOLE = make_plan(SPINE, "dev").acceptance
FIRST = SPINE.workers[0].name


@pytest.mark.parametrize("scope", ["rail=rail-1", f"host={FIRST}", "leaf=leaf-01", "unit=su1"])
def test_a_person_asks_for_a_part(scope: str) -> None:
    kind, _, name = scope.partition("=")
    part = narrow_to(UNITS, WHOLE, scope, adds=False)
    assert part.probes
    assert len(part.probes) + len(part.left_out) == len(WHOLE.probes)
    units = {host.name: host.domain for host in UNITS.workers}
    for each in part.probes:
        within = {
            "rail": {name} == {*each.probe.rails},
            "host": name in each.probe.nodes,
            "leaf": name in {hop.device for hop in each.hops},
            "unit": {name} == {units[node] for node in each.probe.nodes},
        }
        assert within[kind], each.probe.name
    named = {node for each in part.probes for node in each.probe.nodes}
    assert {*part.workers} == named
    assert len(part.memlock) == len(part.workers)
    crossed = named | {hop.device for each in part.probes for hop in each.hops}
    assert {each.endpoint.device for each in part.sources} <= crossed


def test_a_part_is_a_pass_of_the_whole_only_beside_an_earlier_one() -> None:
    scope = f"host={FIRST}"
    assert narrow_to(UNITS, WHOLE, "", adds=False) == WHOLE
    assert narrow_to(UNITS, WHOLE, scope, adds=True).policy.scope == ""
    assert narrow_to(UNITS, WHOLE, scope, adds=False).policy.scope == scope
    table = render_table(judge_evidence(ended(1, scope=scope)))
    assert f"acceptance of {scope} passed: 3 probes planned" in table
    assert PASSED_LINE not in table


@pytest.mark.parametrize("scope", ["rail=rail-99", "cable=a", "host=", f"host={FIRST},nobody"])
def test_a_part_that_the_site_lacks_is_refused_with_what_there_is(scope: str) -> None:
    with pytest.raises(UsageError, match=r"names nothing of this site.\n  fix    take: "):
        narrow_to(UNITS, WHOLE, scope, adds=False)
    with pytest.raises(UsageError, match="no probe is of"):
        narrow_to(UNITS, replace(WHOLE, probes=()), f"host={FIRST}", adds=False)
