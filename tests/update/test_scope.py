"""When a run proves again, and which devices it says that it changes alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from components.drift.applied import Applied, AppliedStep
from components.plan.make import make_plan
from components.remote.lines import render_lines
from components.update.proof import Accept
from tests.golden.site import changed_spec
from tests.update.test_decide import EVIDENCE, PLAN, SPEC, as_applied, decide


def proven(shared: str, verdict: str = "acceptance passed") -> Applied:
    """The state after a run that handed over a digest of what all hosts share."""
    stdin = render_lines({"plan_digest": PLAN.digest, "request": "digest", "shared": shared})
    steps = dict(as_applied().steps)
    steps["acceptance-evidence"] = AppliedStep(
        stdin, "railyard evidence collect --number 4", EVIDENCE
    )
    steps["acceptance-gate"] = AppliedStep(EVIDENCE, "railyard evidence gate", verdict)
    return Applied(steps)


SHARED = PLAN.acceptance.shared
HOST = SPEC.workers[0]
MORE = HOST.model_copy(update={"nics": tuple(n.model_copy(update={"vfs": 4}) for n in HOST.nics)})
HOSTS = tuple(MORE if host.name == HOST.name else host for host in SPEC.hosts)
EDITED = make_plan(changed_spec(SPEC, hosts=HOSTS), "dev")


def test_one_edited_host_is_the_one_that_changes() -> None:
    found = decide(plan=EDITED, applied=proven(EDITED.acceptance.shared)).changed
    assert found == {HOST.name}


def test_nothing_edited_changes_nothing() -> None:
    assert decide(applied=proven(SHARED)).changed == frozenset()


@pytest.mark.parametrize("shared", ["", "another"])
def test_where_more_than_hosts_changed_all_is_proven(shared: str) -> None:
    assert decide(plan=EDITED, applied=proven(shared)).changed is None


def test_after_a_verdict_that_is_no_pass_all_is_proven() -> None:
    applied = proven(EDITED.acceptance.shared, "acceptance skipped: 4 probes planned")
    found = decide(plan=EDITED, applied=applied)
    assert found.changed is None
    assert found.run == 5, "what was skipped is tried again"


def test_a_new_stack_proves_all() -> None:
    assert decide(applied=Applied()).changed is None


def test_what_hosts_share_is_the_clusters_and_the_jobs() -> None:
    jobs = SPEC.jobs.model_copy(update={"env": {"NCCL_IB_SL": "1"}})
    marked = SPEC.rdma.model_copy(update={"dscp": 46})
    assert make_plan(changed_spec(SPEC, rdma=marked), "dev").acceptance.shared != SHARED
    assert make_plan(changed_spec(SPEC, jobs=jobs), "dev").acceptance.shared != SHARED


@pytest.mark.parametrize(
    ("accept", "edited", "run"),
    [
        ("never", False, 4),
        ("never", True, 5),
        ("canary", False, 4),
        ("canary", True, 5),
        ("always", False, 5),
        ("changed", True, 5),
    ],
)
def test_when_a_run_gets_another_number(accept: Accept, run: int, *, edited: bool) -> None:
    """`never` takes another one for another plan: the evidence of the last is not written over."""
    plan = EDITED if edited else PLAN
    assert decide(plan=plan, applied=proven(SHARED), accept=accept).run == run


def test_the_part_that_is_asked_for_is_no_part_of_the_plans_fingerprint() -> None:
    asked = replace(PLAN.acceptance, probes=PLAN.acceptance.probes[:1])
    assert replace(PLAN, asked=asked).digest == PLAN.digest


@pytest.mark.parametrize(
    ("days_ago", "accept", "run"),
    [
        (29, "changed", 4),
        (31, "changed", 5),
        (31, "canary", 4),
        (31, "never", 4),
        (None, "changed", 4),
    ],
)
def test_a_proof_counts_for_the_days_of_the_file(
    days_ago: int | None, accept: Accept, run: int
) -> None:
    """Evidence of an older release tells no date: it counts until the next proof."""
    date = datetime.now(UTC) - timedelta(days=days_ago or 0)
    told = render_lines({"proven_at": date.isoformat()}) if days_ago else "evidence 4\n"
    steps = dict(proven(SHARED).steps)
    evidence, gate = steps["acceptance-evidence"], steps["acceptance-gate"]
    steps["acceptance-evidence"] = replace(evidence, stdout=told)
    steps["acceptance-gate"] = replace(gate, stdin=told)
    assert decide(applied=Applied(steps), accept=accept).run == run
