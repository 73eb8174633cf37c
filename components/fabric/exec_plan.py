"""A switch whose whole configuration goes as one exec of its SSH server: pure.

The switch is not read first, so the text sets every key that the file owns, whatever is there, and
undo leads to the factory's values: decision 13 in docs/decisions.md.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, ConfigDict

from components.core.errors import Bug
from components.core.settings import overlay
from components.fabric.effects import describe_changes, find_effects, interrupting
from components.fabric.state import PortState, SwitchState
from components.fabric.systems import driver_of, system_of
from components.fabric.systems.base import Script, flatten
from components.fabric.systems.switch_system import ExecForm
from components.fabric.targets import target_of_apply, target_of_restore

LONGEST: Final = 131_071
"""Characters of one argument of a Linux program, here of `bash -c` (execve's manual page)."""


class ExecPlan(BaseModel):
    """The texts of one switch. Each is one exec request; none holds a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    apply: str
    save: str
    """Sent only after the output of `apply` was judged."""
    undo: str
    """Saves too: nothing can judge the output of a delete before it ends."""
    interrupts: tuple[str, ...]
    """What `apply` interrupts at every run, in words."""
    unproven: str = ""
    """Behind the title of `undo`: what of it no switch was seen to do."""


def find_form(system: str) -> ExecForm | None:
    """The form of a system's exec requests; None: it has no sound one."""
    form = system_of(system).exec_form
    return form if isinstance(form, ExecForm) else None


def why_no_exec(system: str, desired: SwitchState | None = None) -> str | None:
    """Why a system, or a desired state of it, has no sound exec; None: it has one."""
    form = system_of(system).exec_form
    if isinstance(form, str) or desired is None:
        return form if isinstance(form, str) else None
    states = (desired, *desired.ports.values())
    for name, words in form.lacks.items():
        if any(v and v not in form.given for v in (getattr(s, name, None) for s in states)):
            return f"it reads nothing first, so it could not set and put back {words}"
    return None


def plan_exec(system: str, desired: SwitchState) -> ExecPlan | None:
    """Render the texts that lead to a desired state from any, and from it to the factory's.

    Returns:
        None if a check refuses the system or the state.
    """
    form, driver, ports = find_form(system), driver_of(system), desired.ports
    if form is None or why_no_exec(system, desired) is not None:
        return None
    held = {name: PortState(native=form.native(name, port)) for name, port in ports.items()}
    start = SwitchState(ports=held)
    ours = overlay(start, desired)
    target = target_of_apply(start, desired)
    factory = target_of_restore(ours, desired, driver.factory_state(tuple(ports)), {})
    lines = form.around(desired, _lines(system, start, target))
    undo = form.around_undo(desired, _lines(system, ours, factory))
    enter = (*driver.enter, *driver.configure)
    # Every line is sent each time, whatever the switch has.
    moved = (
        replace(each, actual="any value", desired="the file's")
        for each in interrupting(find_effects(system, start, target))
    )
    return ExecPlan(
        apply=_render(form, *enter, *lines, *form.commit),
        save=_render(form, *enter, driver.save),
        undo=_render(form, *enter, *undo, *form.commit, driver.save),
        interrupts=describe_changes(moved),
        unproven=f" (unproven: {form.unproven})" if form.unproven else "",
    )


def _lines(system: str, actual: SwitchState, target: SwitchState) -> tuple[str, ...]:
    """The whole way: the one-shot where there is one, then all that can be set beside it."""
    plan, without = driver_of(system).plan_changes, {"roce": None, "pfc_priorities": None}
    changes = plan(actual, target)
    if any(change.settles for change in changes):
        changes += plan(actual.model_copy(update=without), target.model_copy(update=without))
    return flatten(changes)


def _render(form: ExecForm, *lines: str) -> str:
    for line in lines:
        if not isinstance(line, Script) and shlex.join(shlex.split(line)) != line:
            raise Bug(f"the line {line!r} is more than plain words to a shell")
    return " ".join(("cli", *(f'"{line}"' for line in lines))) if form.cli else " &&\n".join(lines)


def numbered(system: str, text: str, run: str) -> str:
    """The text of a run that repeats an earlier one; the first run has no number."""
    form = find_form(system)
    if not run or form is None:
        return text
    return f'cli "## run {run}"{text.removeprefix("cli")}' if form.cli else f"# run {run}\n{text}"


def number_of(text: str) -> int:
    """Which run a recorded text was; 0 for the first."""
    found = re.search(r"# run (\d+)\b", text)
    return int(found[1]) if found else 0


def digest_of(text: str) -> str:
    """A short fingerprint of a text: evidence says which one it is about."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_expected(system: str, output: str) -> bool:
    """Whether an apply printed what one that went well prints, and nothing else."""
    form = find_form(system)
    return form is not None and re.fullmatch(form.expects, output) is not None
