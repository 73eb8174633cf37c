"""What the state says of the last proof, and which part of a site the next one proves.

That is all of it, what changed with its partners, or one pair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from typing import Final, Literal

from components.acceptance.handover import EVIDENCE_STEP, VERDICT_STEP
from components.acceptance.plan import AcceptancePlan, plan_acceptance
from components.acceptance.report.text import PASSED_LINE
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines

_RUN: Final = re.compile(r"--number (\d+)")
_COUNTED: Final = re.compile(r"\D*\d+: ")


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


def repairs_of(notes: Mapping[str, str]) -> str:
    """A digest of the counted repairs, but for tools sent again; empty without any.

    Notes stay in the state with the step that they repaired, and the evidence names those that it
    proved. So a repair that was killed before its proof differs, and is proven by the next run.
    """
    found = sorted(
        f"{step} {note}"
        for step, note in notes.items()
        if _COUNTED.match(note) and not step.endswith("-tools")
    )
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16] if found else ""


def proven_repairs(applied: Applied) -> str:
    """The repairs that the recorded evidence is about; a release before this key names none."""
    recorded = applied.step(EVIDENCE_STEP)
    return str(parse_lines(recorded.stdin).get("repairs", "")) if recorded else ""


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


Accept = Literal["changed", "always", "never", "canary"]


def narrow(
    spec: ClusterSpec, whole: AcceptancePlan, accept: Accept, changed: Collection[str] | None
) -> AcceptancePlan:
    """The acceptance of this run.

    Args:
        spec: The site.
        whole: The acceptance of all of it.
        accept: When and how much the site proves.
        changed: Devices that this update changes; None where that is not known, or where more
            than devices changed, and the whole site is to be proven.
    """
    if accept == "never":
        return replace(whole, policy=replace(whole.policy, asked=False))
    if accept == "canary":
        return _among(spec, whole, _pair(spec, changed or ()))
    if spec.acceptance.scope == "changed" and changed:
        return _among(spec, whole, _with_partners(whole, changed))
    return whole


def _with_partners(whole: AcceptancePlan, changed: Collection[str]) -> set[str]:
    """The hosts of every pair that a changed device takes part in, itself or on the way."""
    hosts: set[str] = set()
    for each in whole.probes:
        crossed = {hop.device for hop in each.hops}
        if each.probe.kind == "perftest" and (crossed | {*each.probe.nodes}) & {*changed}:
            hosts |= {*each.probe.nodes}
    return hosts


def _pair(spec: ClusterSpec, changed: Collection[str]) -> set[str]:
    """The first changed worker and its neighbour, or the first two."""
    pairs = list(pairwise(host.name for host in spec.workers))
    touched = [pair for pair in pairs if set(pair) & {*changed}]
    return {*(touched or pairs or [()])[0]}


def _among(spec: ClusterSpec, whole: AcceptancePlan, hosts: Collection[str]) -> AcceptancePlan:
    """The proof of a site that had these workers alone, and what is left out of the whole one."""
    if len(hosts) < 2 or len(hosts) == len(spec.workers):  # noqa: PLR2004 - RDMA is proven between two
        return whole
    kept = tuple(host for host in spec.hosts if host.role != "worker" or host.name in hosts)
    part = plan_acceptance(spec.model_copy(update={"hosts": kept}))
    asked = {(each.probe.name, each.probe.nodes) for each in part.probes}
    left = [each.probe for each in whole.probes if (each.probe.name, each.probe.nodes) not in asked]
    return replace(part, left_out=tuple(left))
