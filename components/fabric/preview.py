"""What an update would do to a switch, for people: settings by port, old and new, and what stops.

Pure. Ports that change alike stand on one line, so that a switch of 64 ports is read at a glance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from components.catalogue.switches import find_model
from components.core.difference import ABSENT, Difference
from components.core.effect import Effect
from components.core.plain_text import counted
from components.fabric.edit import Edit
from components.fabric.effects import describe_changes, group_settings, interrupting
from components.fabric.plan import SwitchPlan
from components.fabric.splits import plan_changes
from components.fabric.state import SwitchState
from components.fabric.systems import driver_of, system_of
from components.fabric.systems.base import Drain, Unsettable
from components.model.name_lists import fold_names

CHANGES_CLASS: Final = "running traffic changes its class"
"""Begins the line about what nothing refuses, and jobs that run may notice."""
MARKS: Final = ("INTERRUPTS", CHANGES_CLASS, "NO TIMED RESTORE", "will be refused")
"""How the lines begin that tell what stops, or what is not taken back by itself."""
_UNKNOWN: Final = "interrupts: not known"
_NO_TIMER: Final = (
    "NO TIMED RESTORE: if the session is lost, {} keeps the lines that it took, unsaved, until the"
    " next update or a restart; have its console at hand"
)


def preview_switch(
    plan: SwitchPlan,
    was: SwitchState | None,
    seen: SwitchState | None,
    allowed: str,
    baseline: SwitchState | None = None,
) -> str | None:
    """One line for a switch and indented ones below it; None where nothing would change.

    Args:
        plan: What is wanted.
        was: What was last applied; None: nothing.
        seen: What observe read; None: not read, so the changes are those of the file.
        allowed: What the file's `disruption.ports` says.
        baseline: The values from before the first update; None: not known.
    """
    has, wanted = (seen or was or SwitchState()).settings(), plan.desired.settings()
    new = {key: value for key, value in wanted.items() if has.get(key, ABSENT) != value}
    moved = {key: f"{has.get(key, ABSENT)} -> {value}" for key, value in new.items()}
    dropped = {key: "restored" for key in (was.settings() if was else {}) if key not in wanted}
    if not moved and not dropped:
        return None
    count = len(moved) + len(dropped)
    head = f"{plan.name}: {counted(count, 'setting')} will change"
    lines = [head, *group_settings(moved | dropped, port_order(plan))]
    edit = Edit(plan.os, plan.desired, was or SwitchState(), baseline)
    lines += [*_effects(plan, edit, seen, allowed), *_unproven(plan, moved)]
    if plan.timed_restore_s is None:
        lines.append(_NO_TIMER.format(driver_of(plan.os).title))
    return "\n  ".join(lines)


def render_waves(
    plans: Sequence[SwitchPlan], changes: Mapping[str, str], canary: int
) -> tuple[str, ...]:
    """What each wave changes and interrupts, a line each; nothing where one wave has it all.

    `changes` has what `preview_switch` says of each switch; the first `canary` waves have one.
    """
    waves = plans[0].waves if plans else ()
    lines: list[str] = []
    for number, names in enumerate(waves):
        alike: dict[str, list[str]] = {}
        for name in names:
            if name in changes:
                alike.setdefault(_stopped(changes[name]), []).append(name)
        words = "; ".join(f"{fold_names(same)} - {what}" for what, same in alike.items())
        if words:
            kind = " (canary)" if number < canary else ""
            lines.append(f"wave {number + 1} of {len(waves)}{kind}: {words}")
    return tuple(lines) if len(waves) > 1 else ()


def _unproven(plan: SwitchPlan, moved: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Settings whose lines have no source of the vendor, and why."""
    for pattern, why in system_of(plan.os).unproven.items():
        if names := sorted({name for _, name in moved if re.fullmatch(pattern, name)}):
            yield f"UNPROVEN lines for {', '.join(names)}: {why}; the reading after it decides"


def _stopped(text: str) -> str:
    """What stops by the text of one switch."""
    for line in text.splitlines():
        if line.strip().startswith(MARKS[0]):
            return line.partition("): ")[2]
        if line.strip().startswith(_UNKNOWN):
            return "what it interrupts is not known"
    return "interrupts nothing"


def interrupted_words(plan: SwitchPlan, changes: Iterable[Difference]) -> str:
    """Changes that interrupt traffic, on one line: `ports 1/1 to 1/4: mtu_bytes: 9216 -> 9000`."""
    return "; ".join(describe_changes(changes, port_order(plan)))


def port_order(plan: SwitchPlan) -> Mapping[str, int]:
    """Port to its number on the switch; empty where the model is not known."""
    model = find_model(plan.model)
    known = model.ports.get(plan.os, ()) if model else ()
    return {name: number for number, name in enumerate(known)}


def _effects(plan: SwitchPlan, edit: Edit, seen: SwitchState | None, allowed: str) -> Iterator[str]:
    head = f"INTERRUPTS (disruption.ports: {allowed})"
    if plan.exec is not None:
        if plan.exec.interrupts:
            yield f"{head}: {'; '.join(plan.exec.interrupts)}"
        return
    if seen is None:
        refuses = "; it is read first, and refuses what interrupts" if allowed == "deny" else ""
        yield f"{_UNKNOWN}, since the switch was not read{refuses}"
        if edit.previous != SwitchState():
            yield from _class_words(plan, edit.effects(edit.previous), ", against the last update")
        return
    try:
        plan_changes(driver_of(plan.os), seen, edit.target_of(seen))
    except Unsettable as error:
        yield f"will be refused: {error}"
        return
    effects = edit.effects(seen)
    if found := interrupting(effects):
        yield f"{head}: {interrupted_words(plan, found)}"
        if allowed == "drain":
            yield _drain_words(plan.name, edit.drain(seen))
    yield from _class_words(plan, effects)


def _class_words(
    plan: SwitchPlan, effects: Mapping[Difference, Effect], against: str = ""
) -> Iterator[str]:
    if moved := [change for change, effect in effects.items() if effect is Effect.CLASS]:
        yield f"{CHANGES_CLASS}{against}: {interrupted_words(plan, moved)}"


def _drain_words(name: str, drain: Drain | str) -> str:
    if isinstance(drain, str):
        return f"no traffic is sent away from {name} first: {drain}"
    return f"traffic leaves {name} first ({drain.title})"
