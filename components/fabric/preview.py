"""What an update would do to a switch, for people: settings by port, old and new, and what stops.

Pure. Ports that change alike stand on one line, so that a switch of 64 ports is read at a glance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from components.catalogue.switches import find_model
from components.core.difference import ABSENT, Difference
from components.fabric.hand_splits import plan_changes
from components.fabric.plan import SwitchPlan
from components.fabric.setting_text import collapse, group_settings
from components.fabric.state import SwitchState
from components.fabric.systems import driver_of
from components.fabric.systems.base import Unsettable
from components.fabric.targets import target_of_apply
from components.model.name_lists import fold_names

MARKS: Final = ("INTERRUPTS", "NO TIMED RESTORE", "will be refused")
"""How the lines begin that tell what stops, or what is not taken back by itself."""
_UNKNOWN: Final = "interrupts: not known"
_OF_PORT = re.compile(r"port (\S+) (.*)")
"""A driver's words for what a change interrupts on one port: `port 1/3 flaps`."""

_NO_TIMER: Final = (
    "NO TIMED RESTORE: if the session is lost, {} keeps the lines that it took, unsaved, until the"
    " next update or a restart; have its console at hand"
)


def preview_switch(
    plan: SwitchPlan, was: SwitchState | None, seen: SwitchState | None, allowed: str
) -> str | None:
    """The words of a preview about one switch.

    Args:
        plan: What is wanted.
        was: What was last applied; None: nothing.
        seen: What observe read; None: not read, so the changes are those of the file.
        allowed: What the file's `disruption.ports` says.

    Returns:
        One line for the switch and indented ones below it; None where nothing would change.
    """
    has = (seen or was or SwitchState()).settings()
    wanted = plan.desired.settings()
    moved = {
        key: f"{has.get(key, ABSENT)} -> {new}"
        for key, new in wanted.items()
        if has.get(key, ABSENT) != new
    }
    dropped = {key: "restored" for key in (was.settings() if was else {}) if key not in wanted}
    if not moved and not dropped:
        return None
    order = port_order(plan)
    count = len(moved) + len(dropped)
    head = f"{plan.name}: {count} setting{'s' if count != 1 else ''} will change"
    lines = [head, *group_settings(moved | dropped, order)]
    lines += _interruptions(plan, seen, order, allowed)
    if plan.timed_restore_s is None:
        lines.append(_NO_TIMER.format(driver_of(plan.os).title))
    return "\n  ".join(lines)


def render_waves(
    plans: Sequence[SwitchPlan], changes: Mapping[str, str], canary: int
) -> tuple[str, ...]:
    """What each wave changes and interrupts, a line each; nothing where one wave has it all.

    Args:
        plans: All switches, with their waves.
        changes: Switch to what `preview_switch` says of it.
        canary: How many waves have one switch, to try the change there.
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
    moved = {(each.where, each.setting): f"{each.actual} -> {each.desired}" for each in changes}
    lines = group_settings(moved, port_order(plan))
    # A place is alone on its line, and what is said of it is indented below.
    text = "".join(f" {line.strip()}," if line[0] == " " else f"; {line}:" for line in lines)
    return text.removeprefix("; ").replace(",;", ";").rstrip(",")


def port_order(plan: SwitchPlan) -> Mapping[str, int]:
    """Port to its number on the switch; empty where the model is not known."""
    model = find_model(plan.model)
    known = model.ports.get(plan.os, ()) if model else ()
    return {name: number for number, name in enumerate(known)}


def _interruptions(
    plan: SwitchPlan, seen: SwitchState | None, order: Mapping[str, int], allowed: str
) -> Iterator[str]:
    if plan.exec is not None:
        found: Sequence[str] = plan.exec.interrupts
    elif seen is None:
        refuses = "; it is read first, and refuses what interrupts" if allowed == "deny" else ""
        yield f"{_UNKNOWN}, since the switch was not read{refuses}"
        return
    else:
        driver = driver_of(plan.os)
        try:
            changes = plan_changes(driver, seen, target_of_apply(seen, plan.desired))
        except Unsettable as error:
            yield f"will be refused: {error}"
            return
        found = [change.interrupts for change in changes if change.interrupts]
    if found:
        yield f"INTERRUPTS (disruption.ports: {allowed}): {'; '.join(_in_words(found, order))}"


def _in_words(found: Iterable[str], order: Mapping[str, int]) -> Iterator[str]:
    """`port 1/1 flaps`, `port 1/2 flaps` as one."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(found):
        of_port = _OF_PORT.fullmatch(text)
        alike.setdefault(of_port[2] if of_port else text, []).append(of_port[1] if of_port else "")
    for words, ports in alike.items():
        yield f"{collapse(ports, order)}: {words}" if any(ports) else words
