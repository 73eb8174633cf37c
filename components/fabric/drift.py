"""What was last applied to a switch, and how far it has drifted from that."""

from __future__ import annotations

from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, Unreachable, make_drift
from components.fabric.state import SwitchState, diff_states
from components.fabric.targets import overlay
from components.remote.lines import parse_lines


def applied_switch(step: AppliedStep) -> tuple[SwitchState, str]:
    """What was last applied to a switch, and the repair note of that run."""
    request = parse_lines(step.stdin)
    note = request.get("repair")
    return SwitchState.model_validate(request["desired"]), note if isinstance(note, str) else ""


def asked_of_switch(step: str, desired: SwitchState, applied: Applied) -> SwitchState:
    """What to read of a switch: what is wanted, and what was applied and is wanted no more."""
    recorded = applied.step(step)
    if recorded is None or not recorded.stdin:
        return desired
    was, _ = applied_switch(recorded)
    return overlay(desired, was).model_copy(update={"vlans": desired.vlans})


def drift_of_switch(
    device: str,
    step: str,
    desired: SwitchState,
    applied: Applied,
    facts: SwitchState | Unreachable | None,
) -> DeviceDrift:
    """Compare one switch with what was last applied to it."""
    recorded = applied.step(step)
    if recorded is None or not recorded.stdin:
        return make_drift(device, step, facts, (), edited=True, note=None)
    was, note = applied_switch(recorded)
    found = diff_states(facts, was) if isinstance(facts, SwitchState) else ()
    return make_drift(device, step, facts, found, edited=was != desired, note=note)
