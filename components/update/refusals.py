"""What an update would interrupt, against what the file allows (`disruption`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.core.difference import Difference
from components.core.key_values import HostState
from components.disruption.forecast import departures_refused, passing_refused, render_departures
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable
from components.fabric.drift import applied_switch
from components.fabric.exec_plan import describe_interrupts
from components.fabric.preview import preview_switch
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems import DRIVERS
from components.hypervisor.refusals import reboots_refused
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.update.seen import Facts


def disruptions_refused(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
) -> tuple[str, ...]:
    """Refuse, at preview, what would interrupt traffic where the file says `deny`.

    Reboots that would pass over a host which may not have come back are refused in any case.
    Only what was observed can be judged: with `railyard:observe: never` an interruption cannot be
    told from a first setting, so every such difference to the last applied state counts.
    """
    seen = _hosts(facts)
    away = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Unreachable)}
    refused = [*passing_refused(plan.reboots, seen, away)]
    if spec.disruption.ports == "deny":
        refused += _flapping(plan, drifts, facts)
    if spec.disruption.reboots == "deny":
        refused += reboots_refused(plan.hypervisors, seen)
        refused += departures_refused(plan.reboots, seen)
    return tuple(refused)


def host_departures(plan: ClusterPlan, facts: Mapping[str, Facts]) -> tuple[str, ...]:
    """Which hosts the update will drain or reboot, and in which group, for people."""
    return render_departures(plan.reboots, _hosts(facts))


def _hosts(facts: Mapping[str, Facts]) -> Mapping[str, HostState]:
    return {name: fact for name, fact in facts.items() if isinstance(fact, HostState)}


def _flapping(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], facts: Mapping[str, Facts]
) -> Iterator[str]:
    changing = {drift.device for drift in drifts if drift.edited or drift.differences}
    for switch in plan.switches:
        seen = facts.get(switch.name)
        if switch.name in changing and switch.exec is not None and switch.exec.interrupts:
            yield _exec_refusal(switch.name, switch.exec.interrupts)
            continue
        if switch.name not in changing or not isinstance(seen, SwitchState):
            continue
        pending = diff_states(seen, switch.desired)
        flapping = [change for change in pending if DRIVERS[switch.os].interrupts(change)]
        yield from (_refusal(switch.name, change) for change in flapping)


def switch_changes(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """What the update will set on each switch, and what that interrupts, for people."""
    found: list[str] = []
    for switch in plan.switches:
        recorded, seen = applied.step(switch.step), facts.get(switch.name)
        was = applied_switch(recorded)[0] if recorded is not None and recorded.stdin else None
        read = seen if isinstance(seen, SwitchState) else None
        text = preview_switch(switch, was, read, spec.disruption.ports)
        found += [text] if text else []
    return tuple(found)


def _exec_refusal(device: str, interrupts: tuple[str, ...]) -> str:
    return (
        f"disruption: an exec sends all lines of {device}, needed or not, and among them:"
        f" {describe_interrupts(interrupts)}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or executor to device, which"
        " sends only what differs"
    )


def _refusal(device: str, change: Difference) -> str:
    return (
        f"disruption: {change.where} of {device} would flap: {change}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or take the change back"
    )
