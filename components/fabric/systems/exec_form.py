"""How a system takes its whole configuration as one exec request: the parts of `exec_plan.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.fabric.state import SwitchState

Lines = Sequence[str]


@dataclass(frozen=True, slots=True)
class ExecForm:
    """How a system takes many lines as one exec request, and how its answer is judged."""

    render: Callable[[Lines], str]
    mark: Callable[[str, str], str]
    """Put a comment into a rendered text, so that the engine runs it again."""
    enter: Lines
    commit: Lines
    save: Lines
    expects: re.Pattern[str]
    """The whole output of an apply that went well; anything else is an error."""
    save_enter: Lines = ()
    """From login to where `save` is taken."""
    start: Callable[[SwitchState], SwitchState] = lambda _desired: SwitchState()
    """What a switch is taken to have of which nothing is known."""
    prepare: Callable[[SwitchState], Lines] = lambda _desired: ()
    """Lines in front that make the others right over any state."""
    again: Callable[[str], str] = lambda line: line
    """A line of the driver in a form that is right whatever is there."""
    longest: int | None = None
    """Characters that one request can have; None: no limit is known."""
    back: Callable[[SwitchState], Lines] | None = None
    """The way to the factory's values; None: the driver's."""
    find_missing: Callable[[SwitchState], str | None] = lambda _desired: None
    """What of a desired state has no sound exec, and why."""
    resets: re.Pattern[str] | None = None
    """A line that takes away, for a moment, what is there and stays."""
