"""Whether an update refuses a switch under another name: asked of the product, as it would be."""

from __future__ import annotations

from campaign.intent.edits import replace_name
from components.drift.applied import Applied, AppliedStep
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.remote.step import railyard_program
from components.update.decide import judge_drift, judge_situation
from components.update.seen import Seen, Situation


def rename_refused(
    spec: ClusterSpec, old: str, new: str, baseline: str, stdin: str, evidence: str
) -> str:
    """The first line of the refusal; empty: the update goes on."""
    renamed = ClusterSpec.model_validate(replace_name(spec.model_dump(mode="json"), old, new))
    plan = make_plan(renamed, "dev")
    program = railyard_program()
    applied = Applied(
        {
            f"{old}-baseline": AppliedStep("", f"{program} device baseline --stack dev", baseline),
            f"{old}-apply": AppliedStep(stdin, f"{program} device apply", evidence),
        }
    )
    seen = Seen()
    drifts = judge_drift(plan, applied, seen)
    found = judge_situation(Situation(renamed, plan, applied, seen, drifts), "update")
    return next((each.what for each in found if each.severity == "error"), "")
