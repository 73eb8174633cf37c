"""What this stack last applied, read from its own state before the first resource exists.

`pulumi:pulumi:readStackResourceOutputs` answers in preview, in up and on an empty stack, and also
sees resources of a run that was killed (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Final, cast

import pulumi

from components.drift.applied import Applied, applied_from_outputs

ATTEMPTS: Final = 5
"""How often the state is read; a file backend may be writing it at that moment."""
WRITING: Final = "failed to load checkpoint"
PAUSE_S: Final = 0.2


def _read(name: str, attempts: int) -> object:
    """Ask the engine; the file backend empties the state's file before it writes it again."""
    try:
        invoked = pulumi.runtime.invoke(
            "pulumi:pulumi:readStackResourceOutputs", {"stackName": name}
        )
        return cast("object", invoked.value)
    except Exception as error:  # the SDK raises plain exceptions
        if attempts <= 1 or WRITING not in str(error):
            raise
    Event().wait(PAUSE_S)
    return _read(name, attempts - 1)


def note_names() -> set[str]:
    """The names of the resources that the program registers from now on; the set grows."""
    names = set[str]()

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        names.add(args.name)

    pulumi.runtime.register_stack_transformation(note)
    return names


def read_own_state() -> Applied:
    """Read the recorded inputs and outputs of every resource of this stack."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = _read(name, ATTEMPTS)
    if not isinstance(answer, Mapping):
        return applied_from_outputs(None)
    return applied_from_outputs(cast("Mapping[str, object]", answer).get("outputs"))
