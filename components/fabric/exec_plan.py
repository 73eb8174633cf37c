"""A switch whose whole configuration goes as one exec of its SSH server: pure.

Pulumi sends it without a program between: the switch is not read first, so the text sets every key
that the file owns, whatever is there, and undo leads to the factory's values. What that means, and
why a system is left out, is in docs/decisions/0013-plain-exec.md; the sources of a form are in the
WHY.md of its system.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, ConfigDict

from components.fabric.effects import describe_changes, find_effects, interrupting
from components.fabric.state import SwitchState
from components.fabric.systems import driver_of, system_of
from components.fabric.systems.base import Change, flatten
from components.fabric.systems.switch_system import ExecForm
from components.fabric.targets import target_of_apply, target_of_restore

VLANS_GO: Final = "VLANs of ports go for a moment"
_RUN: Final = re.compile(r"# run (\d+)\b")


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


def find_form(system: str) -> ExecForm | None:
    """The form of a system's exec requests; None: it has no sound one."""
    form = system_of(system).exec_form
    return None if isinstance(form, str) else form


def why_no_exec(system: str) -> str | None:
    """Why a system has no sound form; None: it has one."""
    form = system_of(system).exec_form
    return form if isinstance(form, str) else None


def _form_of(system: str) -> ExecForm:
    """Its form; a check refuses a file for a system without one."""
    form = system_of(system).exec_form
    if isinstance(form, str):
        raise KeyError(system)
    return form


def plan_exec(system: str, desired: SwitchState) -> ExecPlan:
    """Render the texts that lead to a desired state from any, and from it to the factory's.

    Raises:
        KeyError: The system has no form; a check refuses that file before.
    """
    form = _form_of(system)
    start = form.start(desired)
    target = target_of_apply(start, desired)
    changes = _changes(system, start, target)
    found = interrupting(find_effects(system, start, target))
    # Every line is sent each time, whatever the switch has.
    stopped = describe_changes(
        replace(each, actual="any value", desired="the file's") for each in found
    )
    lines = (*form.prepare(desired), *flatten(changes))
    back = form.back(desired) if form.back else _way_back(system, desired)
    resets = form.resets
    cut = any(resets.search(line) for line in lines) if resets else False
    return ExecPlan(
        apply=form.render((*form.enter, *lines, *form.commit)),
        save=form.render((*form.save_enter, *form.save)),
        undo=form.render((*form.enter, *back, *form.commit, *form.save)),
        interrupts=(*stopped, *((VLANS_GO,) if cut else ())),
    )


def _changes(system: str, actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The whole way: the one-shot where there is one, then all that can be set beside it."""
    driver = driver_of(system)
    changes = driver.plan_changes(actual, target)
    if not any(change.settles for change in changes):
        return changes
    without = {"roce": None, "pfc_priorities": None}
    rest = driver.plan_changes(actual.model_copy(update=without), target.model_copy(update=without))
    return (*changes, *rest)


def _way_back(system: str, desired: SwitchState) -> Sequence[str]:
    """What is ours, as an untouched switch has it."""
    factory = driver_of(system).factory_state(tuple(desired.ports))
    return flatten(_changes(system, desired, target_of_restore(desired, desired, factory, {})))


def numbered(system: str, text: str, run: str) -> str:
    """The text of a run that repeats an earlier one; the first run has no number."""
    return _form_of(system).mark(text, f"run {run}") if run else text


def number_of(text: str) -> int:
    """Which run a recorded text was; 0 for the first."""
    found = _RUN.search(text)
    return int(found[1]) if found else 0


def digest_of(text: str) -> str:
    """A short fingerprint of a text: evidence says which one it is about."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_expected(system: str, output: str) -> bool:
    """Whether an apply printed what one that went well prints, and nothing else."""
    return _form_of(system).expects.fullmatch(output) is not None


def describe_interrupts(interrupts: Iterable[str]) -> str:
    """For people: each thing once."""
    return "; ".join(dict.fromkeys(interrupts))
