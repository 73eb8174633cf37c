"""What was last applied to a switch, and how far it has drifted from that."""

from __future__ import annotations

from collections.abc import Iterable

from components.core.beside import Beside, LostWay
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, Unreachable, make_drift
from components.fabric.cabling import Networks, applied_networks, find_lost
from components.fabric.guards import Look, find_beside, with_looks
from components.fabric.plan import SwitchPlan
from components.fabric.preview import port_order
from components.fabric.state import SwitchState, diff_states
from components.fabric.targets import overlay
from components.remote.lines import parse_lines


def applied_switch(step: AppliedStep) -> tuple[SwitchState, str]:
    """What was last applied to a switch, and the repair note of that run."""
    request = parse_lines(step.stdin)
    note = request.get("repair")
    return SwitchState.model_validate(request["desired"]), note if isinstance(note, str) else ""


def asked_of_switch(plan: SwitchPlan, applied: Applied) -> SwitchState:
    """What to read of a switch: what is wanted, what was applied, and what guards look at."""
    was, asked = _last_applied(plan, applied), plan.desired
    if was is not None:
        asked = overlay(asked, was).model_copy(update={"vlans": asked.vlans})
    return with_looks(asked) if plan.guarded is not None else asked


def ordered(plans: tuple[SwitchPlan, ...], applied: Applied) -> tuple[SwitchPlan, ...]:
    """The plans in waves; in no order where no switch was ever changed: nothing runs there yet."""
    if any(applied.step(plan.step) is not None for plan in plans):
        return plans
    return tuple(plan.model_copy(update={"waves": ()}) for plan in plans)


def _last_applied(plan: SwitchPlan, applied: Applied) -> SwitchState | None:
    recorded = applied.step(plan.step)
    return applied_switch(recorded)[0] if recorded and recorded.stdin else None


def beside_of_switch(
    plan: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None
) -> tuple[Beside, ...]:
    """The settings of a switch that are not ours and break our traffic."""
    if not isinstance(facts, SwitchState):
        return ()
    was = _last_applied(plan, applied) or SwitchState()
    look = Look(plan.os, facts, plan.desired, was, port_order(plan))
    return find_beside(plan.guarded, look)


def networks_of(plans: Iterable[SwitchPlan], applied: Applied) -> Networks:
    """What the switches of a site announce, as far as it was applied."""
    held = {plan.name: (plan.desired.bgp, _last_applied(plan, applied)) for plan in plans}
    given = {name: was.bgp for name, (_, was) in held.items() if was is not None and was.bgp}
    return applied_networks({name: bgp for name, (bgp, _) in held.items() if bgp}, given)


def lost_ways(
    plan: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None, networks: Networks
) -> tuple[LostWay, ...]:
    """The routed links of a switch that carry no routes, or fewer than the file says."""
    was = _last_applied(plan, applied)
    if not isinstance(facts, SwitchState) or was is None or was.bgp is None or plan.links is None:
        return ()
    links = plan.links.model_copy(update={"networks": networks})
    return find_lost(links, facts.sessions, was.bgp)


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
