"""Ask one judge of an update about a situation, and write its findings as a user reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from components.core.problem import Finding, Lines, render_finding
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift
from components.model.cluster import ClusterSpec
from components.model.guard_spec import Guards
from components.plan.make import ClusterPlan
from components.update.decide import judge_placements, judge_stranded, judge_unreachable
from components.update.refusals import (
    judge_disruptions,
    judge_executors,
    judge_guards,
)
from components.update.seen import Facts, Seen, Situation
from tests.golden.site import load_example

Check = Callable[[Situation], Iterable[Finding]]
NO_SPEC = load_example("dgx-roce")
"""For judges that ask only the plan."""


def texts(
    check: Check,
    plan: ClusterPlan,
    applied: Applied,
    seen: Seen | None = None,
    lines: Lines | None = None,
    **others: Any,  # noqa: ANN401 - the other fields of a situation
) -> tuple[str, ...]:
    """The findings of one judge, with the lines of the file."""
    spec = others.pop("spec", NO_SPEC)
    at = Situation(spec, plan, applied, seen or Seen(), lines=lines or Lines(), **others)
    return written(map(at.lines.locate_all, check(at)))


def written(found: Iterable[Finding]) -> tuple[str, ...]:
    """Findings as text."""
    return tuple(map(render_finding, found))


def refusals(
    plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """The refusals about devices."""
    checks = (judge_unreachable, judge_executors, judge_placements, judge_stranded)
    return tuple(text for each in checks for text in texts(each, plan, applied, drifts=drifts))


def refused_disruptions(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
    applied: Applied,
) -> tuple[str, ...]:
    """The refused interruptions."""
    return texts(judge_disruptions, plan, applied, Seen(facts), spec=spec, drifts=drifts)


def refused_guards(
    guards: Guards, plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """The refused settings of others."""
    spec = NO_SPEC.model_copy(update={"guards": guards})
    return texts(judge_guards, plan, applied, spec=spec, drifts=drifts)
