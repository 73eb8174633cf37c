"""A switch whose whole configuration goes as one exec of its SSH server: pure.

Nothing stands between Pulumi and such a switch: nobody reads it first, so the text sets every key
that the file owns, whatever is there, and undo leads to the factory's values. What that means, and
why a system is left out, is in docs/decisions/0013-plain-exec.md; the sources of the forms are in
WHY.md beside this file.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from components.core.errors import Bug
from components.fabric.state import SwitchState
from components.fabric.systems import driver_of
from components.fabric.systems.base import Change, Script
from components.fabric.systems.cumulus.read import BRIDGE
from components.fabric.systems.cumulus.write import collapse_ports
from components.fabric.systems.onyx.write import flatten, interruptions
from components.fabric.systems.sonic import exec as sonic_exec
from components.fabric.targets import target_of_apply, target_of_restore

Lines = Sequence[str]
FACTORY_ETS_WEIGHT: Final = 12
"""Weight of every class on Onyx before anybody sets one (the collection's fixture)."""
VLANS_GO: Final = "VLANs of ports go for a moment"
LONGEST_ARGUMENT: Final = 131_071
"""Characters of one argument of a Linux program, here of `bash -c` (execve's manual page)."""
CLASSES: Final = range(8)
_UNSAFE: Final = re.compile(r'["\\`$\n]')
"""What would end a quoted argument, or be more than text in it."""
_RUN: Final = re.compile(r"# run (\d+)\b")


class ExecPlan(BaseModel):
    """The texts of one switch. Each is one exec request; none holds a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    apply: str
    save: str
    """Sent only after the output of `apply` was judged."""
    undo: str
    """Saves too: nothing can judge the output of a delete before it ends."""
    interrupts: tuple[str, ...]
    """What `apply` interrupts at every run, in words."""


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


def _render_cli(lines: Lines) -> str:
    """One word `cli` and each line as an argument in double quotes."""
    for line in lines:
        if _UNSAFE.search(line):
            raise Bug(f"the line {line!r} cannot be an argument of `cli`")
    return "cli " + " ".join(f'"{line}"' for line in lines)


def _render_shell(lines: Lines) -> str:
    """A chain that ends at the first command that fails."""
    for line in lines:
        if not isinstance(line, Script) and shlex.join(shlex.split(line)) != line:
            raise Bug(f"the line {line!r} is more than plain words to a shell")
    return " &&\n".join(lines)


def _leave_bridge(desired: SwitchState) -> Lines:
    """Access and tagged VLANs exclude each other; in one revision nothing of this is seen."""
    if not desired.ports:
        return ()
    return (f"nv unset interface {collapse_ports(desired.ports)} bridge domain {BRIDGE}",)


EXEC_FORMS: Final[dict[str, ExecForm]] = {
    "onyx": ExecForm(
        render=_render_cli,
        mark=lambda text, mark: text.replace("cli ", f'cli "## {mark}" ', 1),
        enter=("enable", "configure terminal"),
        commit=(),
        save=("configuration write",),
        save_enter=("enable", "configure terminal"),
        # A configuration line that is taken prints nothing.
        expects=re.compile(r"\s*"),
        resets=re.compile(r"allowed-vlan none$|no switchport force$"),
    ),
    "cumulus": ExecForm(
        render=_render_shell,
        mark=lambda text, mark: f"# {mark}\n{text}",
        enter=("nv config detach",),
        commit=("nv config apply -y",),
        save=("nv config save",),
        expects=re.compile(r".*\bapplied(?:_and_saved)?\b.*", re.DOTALL),
        prepare=_leave_bridge,
        longest=LONGEST_ARGUMENT,
    ),
    "sonic": ExecForm(
        render=_render_shell,
        mark=lambda text, mark: f"# {mark}\n{text}",
        enter=sonic_exec.ENTER,
        commit=("echo applied",),
        save=(Script(driver_of("sonic").save),),
        save_enter=driver_of("sonic").enter,
        expects=re.compile(r"(?:.*\n)?applied\s*", re.DOTALL),
        start=sonic_exec.start,
        prepare=sonic_exec.prepare,
        again=sonic_exec.again,
        back=sonic_exec.back,
        find_missing=sonic_exec.find_missing,
        longest=LONGEST_ARGUMENT,
    ),
}
"""By switch system; a system stands either here or in `NO_EXEC`."""
NO_EXEC: Final[dict[str, str]] = {
    "eos": "what EOS does with the lines of one exec after it refused one of them is not "
    "documented, so that half of a configuration could be committed",
    "mlnxos": "nobody reads which ports are in a partition, so that one which the file takes out "
    "would stay in it, and to make the partition anew would break every connection in it",
}
"""Systems without a sound way, and why."""


def plan_exec(system: str, desired: SwitchState) -> ExecPlan:
    """Render the texts that lead to a desired state from any, and from it to the factory's.

    Raises:
        KeyError: The system has no form; a check refuses that file before.
    """
    form = EXEC_FORMS[system]
    start = form.start(desired)
    changes = _changes(system, start, target_of_apply(start, desired))
    lines = (*form.prepare(desired), *map(form.again, flatten(changes)))
    back = form.back(desired) if form.back else _way_back(system, desired)
    resets = form.resets
    cut = any(resets.search(line) for line in lines) if resets else False
    return ExecPlan(
        apply=form.render((*form.enter, *lines, *form.commit)),
        save=form.render((*form.save_enter, *form.save)),
        undo=form.render((*form.enter, *back, *form.commit, *form.save)),
        interrupts=(*interruptions(changes), *((VLANS_GO,) if cut else ())),
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


def _way_back(system: str, desired: SwitchState) -> Lines:
    return flatten(_changes(system, desired, _factory(system, desired)))


def _factory(system: str, desired: SwitchState) -> SwitchState:
    """What is ours, as a switch has it that nobody has touched."""
    factory = driver_of(system).factory_state(tuple(desired.ports))
    weights = dict.fromkeys(CLASSES, FACTORY_ETS_WEIGHT)
    ports = {
        name: port.model_copy(update={"wrr_weights": weights})
        for name, port in factory.ports.items()
    }
    baseline = factory.model_copy(update={"ports": ports})
    return target_of_restore(desired, desired, baseline, {})


def numbered(system: str, text: str, run: str) -> str:
    """The text of a run that repeats an earlier one; the first run has no number."""
    return EXEC_FORMS[system].mark(text, f"run {run}") if run else text


def number_of(text: str) -> int:
    """Which run a recorded text was; 0 for the first."""
    found = _RUN.search(text)
    return int(found[1]) if found else 0


def digest_of(text: str) -> str:
    """A short fingerprint of a text: evidence says which one it is about."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_expected(system: str, output: str) -> bool:
    """Whether an apply printed what one that went well prints, and nothing else."""
    return EXEC_FORMS[system].expects.fullmatch(output) is not None


def describe_interrupts(interrupts: Iterable[str]) -> str:
    """For people: each thing once."""
    return "; ".join(dict.fromkeys(interrupts))
