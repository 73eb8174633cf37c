"""A plan as its golden file holds it: the printed decisions, without digests of other texts."""

from __future__ import annotations

import re
from typing import Final

from components.plan.make import ClusterPlan
from components.plan.text import render_plan

_DIGEST: Final = re.compile(
    r"(\bdigest |\btool \w+ |\btools\.\w+=|^# \w+ |\bnames |\.files=)[0-9a-f]{12,64}\b",
    re.MULTILINE,
)


def golden_plan(plan: ClusterPlan) -> str:
    """What `railyard plan` prints; a golden changes with a decision, and not with a script."""
    return _DIGEST.sub(r"\1…", render_plan(plan))
