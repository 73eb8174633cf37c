"""What the state says of the last proof: its number, its plan, and whether it was let through."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from components.acceptance.report.text import PASSED_LINE
from components.acceptance.request import EVIDENCE_STEP, VERDICT_STEP
from components.acceptance.scope import Accept
from components.drift.applied import Applied
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines

_RUN: Final = re.compile(r"--number (\d+)")


def last_run(applied: Applied) -> int:
    """The number of the last acceptance run; 0 before the first."""
    recorded = applied.step(EVIDENCE_STEP)
    if recorded is None or not recorded.stdin:
        return 0
    number = _RUN.search(recorded.create)
    return int(number[1]) if number else 0


def is_asked(plan: ClusterPlan, applied: Applied, *, touched: bool, accept: Accept) -> bool:
    """Whether this run writes new evidence."""
    if accept == "never":  # evidence of another plan would be written over that of this run
        return is_edited(plan, applied)
    return touched or accept == "always" or _unproven(plan, applied)


def _unproven(plan: ClusterPlan, applied: Applied) -> bool:
    """Whether the recorded evidence is none of this plan, or was not let through."""
    recorded = applied.step(EVIDENCE_STEP)
    if recorded is None or not recorded.stdin:
        return True
    if applied.step(VERDICT_STEP) is None or not passed(applied):
        return True
    return is_edited(plan, applied)


def is_edited(plan: ClusterPlan, applied: Applied) -> bool:
    """Whether the recorded request is another one than that of this plan."""
    recorded = applied.step(EVIDENCE_STEP)
    if recorded is None or not recorded.stdin:
        return True
    return parse_lines(recorded.stdin).get("plan_digest") != plan.digest


def passed(applied: Applied) -> bool:
    """Whether the recorded gate judged the recorded evidence and let it through."""
    gate = applied.step(VERDICT_STEP)
    evidence = applied.step(EVIDENCE_STEP)
    if gate is None or evidence is None:
        return False
    if not evidence.stdout or evidence.stdout.strip() not in gate.stdin:
        return False
    # With `gate: warn` a failed verdict is let through; it is still no proof.
    return PASSED_LINE in gate.stdout


def stale_after(applied: Applied, registered: AbstractSet[str], stack: str) -> str:
    """What to add to the verdict where the engine deletes after the proof; empty: it does not.

    The engine deletes last, so the proof of this update is of a site that still has what leaves.

    Args:
        applied: What the state holds.
        registered: The names of all resources that this update keeps or makes.
        stack: Its name.
    """
    count = len({*applied.steps, *applied.objects, *applied.releases} - registered)
    if not count:
        return ""
    what = "1 deletion" if count == 1 else f"{count} deletions"
    return f", before {what}: run `railyard accept {stack}` to prove the site as it is now"
