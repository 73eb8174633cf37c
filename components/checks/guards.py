"""Rules on what the file wants of settings beside ours."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.fabric.systems import driver_of, system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.guards import SwitchGuards


def check_guard_repair(spec: ClusterSpec) -> Iterator[Finding]:
    """`repair` is asked of a kind of guard only where each switch system can do it.

    A driver that sets a value and cannot give back exactly what was there would leave the switch
    other than it found it; one that has no published line for it would send a guess.
    """
    for name in SwitchGuards.model_fields:
        kind = f"switch.{name}"
        if spec.guards.way(kind) != "repair":
            continue
        for s, switch in enumerate(spec.switches):
            why = _why_not(switch, kind)
            if why is None:
                continue
            where: SpecPath = ("guards", "switch", name)
            yield Finding(
                f"{kind} cannot be repaired on {switch.name}: {why}.",
                (at(where, "repair"), at(("switches", s, "os"), switch.os)),
                f"write guards.switch.{name}: warn, or refuse",
            )


def _why_not(switch: Switch, kind: str) -> str | None:
    """Why a switch cannot be repaired so; None: it can, or has nothing of the kind."""
    if switch.carries != "roce":
        return None
    if kind not in system_of(switch.os).repairs:
        title = driver_of(switch.os).title
        return f"the driver of {title} has no line that sets the harmless value and gives it back"
    if switch.executor == "exec":
        return "an exec sends its lines without reading, and cannot know what there is to mend"
    return None
