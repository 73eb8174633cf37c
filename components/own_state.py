"""What this stack last applied, read from its own state before the first resource exists.

`pulumi:pulumi:readStackResourceOutputs` answers in preview, in up and on an empty stack, and also
sees resources of a run that was killed (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pulumi

from components.applied import Applied, applied_from_outputs


def read_own_state() -> Applied:
    """Read the recorded inputs and outputs of every resource of this stack."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = cast(
        "object",
        pulumi.runtime.invoke("pulumi:pulumi:readStackResourceOutputs", {"stackName": name}).value,
    )
    if not isinstance(answer, Mapping):
        return applied_from_outputs(None)
    return applied_from_outputs(cast("Mapping[str, object]", answer).get("outputs"))
