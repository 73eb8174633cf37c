"""What an update would interrupt, against what the file allows (`disruption`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from components.core.difference import Difference
from components.core.key_values import HostState
from components.disruption.forecast import departures_refused, passing_refused, render_departures
from components.disruption.leave_plan import describe_leaving, leaving_nodes, leaving_refused
from components.disruption.pending import IN_SERVICE
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable
from components.fabric.baselines import read_baseline
from components.fabric.drift import applied_switch
from components.fabric.edit import Edit
from components.fabric.effects import interrupting, ports_of
from components.fabric.exec_plan import describe_interrupts
from components.fabric.plan import SwitchPlan
from components.fabric.preview import interrupted_words, preview_switch, render_waves
from components.fabric.state import SwitchState
from components.hypervisor.refusals import reboots_refused
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.update.exec_runs import is_sent
from components.update.seen import Facts


def disruptions_refused(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
    applied: Applied,
) -> tuple[str, ...]:
    """Refuse, at preview, what would interrupt traffic where the file says `deny`.

    Reboots that would pass over a host which may not have come back are refused in any case. Of a
    device that was not read, as with `railyard:observe: never`, every difference from what was last
    applied counts. Where nothing was applied either, the step reads the device and refuses itself.
    """
    seen = _hosts(plan, facts, applied)
    away = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Unreachable)}
    refused = [*passing_refused(plan.reboots, seen, away)]
    if spec.disruption.ports != "allow":
        refused += _interrupting(spec, plan, drifts, facts, applied)
    if spec.disruption.reboots == "deny":
        refused += reboots_refused(plan.hypervisors, seen)
        refused += departures_refused(plan.reboots, seen)
        refused += leaving_refused(_drained_by_us(plan, applied))
    return tuple(refused)


def host_departures(
    plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> tuple[str, ...]:
    """Which hosts the update will drain or reboot, and in which group, for people."""
    leaving = leaving_nodes(plan.kubernetes, applied) if plan.departures else ()
    waiting = render_departures(plan.reboots, _hosts(plan, facts, applied))
    drained = (
        words
        for switch in plan.switches
        if (leave := plan.ports.get(switch.name))
        for words in leave.describe(_stopped(switch, facts, applied))
    )
    return (*describe_leaving(leaving), *drained, *waiting)


def _drained_by_us(plan: ClusterPlan, applied: Applied) -> tuple[str, ...]:
    """The nodes that leave, where kubespray does not refuse it itself."""
    played = plan.kubernetes is None or plan.kubernetes.playbooks is not None
    return () if played else leaving_nodes(plan.kubernetes, applied)


def _hosts(
    plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> Mapping[str, HostState]:
    """What each host and hypervisor has: as it was read, else as the last update left it."""
    found: dict[str, HostState] = {}
    for watched in (each.watched for each in (*plan.hypervisors, *plan.hosts)):
        recorded = applied.step(watched.step.name)
        if facts.get(watched.device) is None and recorded is not None and recorded.stdin:
            # It is taken to be in service, as a host is that an update left.
            was = watched.settings_in(recorded.stdin).values
            found[watched.device] = HostState({**was, IN_SERVICE: "yes"})
    return found | {name: fact for name, fact in facts.items() if isinstance(fact, HostState)}


def _interrupting(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
    applied: Applied,
) -> Iterator[str]:
    changing = {drift.device for drift in drifts if drift.edited or drift.differences}
    for switch in plan.switches:
        leave = plan.ports.get(switch.name)
        if leave is not None and spec.disruption.ports == "drain":
            yield from leave.refused(_stopped(switch, facts, applied))
        elif switch.exec is not None:
            if switch.exec.interrupts and is_sent(switch, applied, drifts):
                yield _exec_refusal(switch.name, switch.exec.interrupts)
        elif switch.name in changing:
            yield from _refuse_switch(switch, facts.get(switch.name), applied)


def _refuse_switch(switch: SwitchPlan, seen: Facts, applied: Applied) -> Iterator[str]:
    if found := _interruptions(switch, seen, applied):
        yield _refusal(switch, found, unread=seen is None)


def _interruptions(switch: SwitchPlan, seen: Facts, applied: Applied) -> tuple[Difference, ...]:
    """What the update interrupts, as far as the switch is known; else its step looks itself."""
    recorded = applied.step(switch.step)
    was = applied_switch(recorded)[0] if recorded is not None and recorded.stdin else None
    has = was if seen is None else seen
    if not isinstance(has, SwitchState):
        return ()
    edit = Edit(switch.os, switch.desired, was or SwitchState(), _recorded(switch, applied))
    return interrupting(edit.effects(has))


def _stopped(switch: SwitchPlan, facts: Mapping[str, Facts], applied: Applied) -> tuple[str, ...]:
    """The ports of a switch that the update interrupts, as `ports_of` names them."""
    return ports_of(_interruptions(switch, facts.get(switch.name), applied))


def _recorded(switch: SwitchPlan, applied: Applied) -> SwitchState | None:
    """The values from before the first update, to which goes back what is no longer wanted."""
    baseline = applied.step(switch.baseline_step)
    if baseline is None or not baseline.stdout:
        return None
    return SwitchState.model_validate(read_baseline(baseline.stdout))


def switch_changes(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """What the update will set on each switch, and what that interrupts, for people."""
    found: dict[str, str] = {}
    for switch in plan.switches:
        recorded, seen = applied.step(switch.step), facts.get(switch.name)
        was = applied_switch(recorded)[0] if recorded is not None and recorded.stdin else None
        read = seen if isinstance(seen, SwitchState) else None
        before = _recorded(switch, applied)
        text = preview_switch(switch, was, read, spec.disruption.ports, before)
        found |= {switch.name: text} if text else {}
    waves = render_waves(plan.switches, found, spec.disruption.switch_waves.canary)
    return (*found.values(), *waves)


def _exec_refusal(device: str, interrupts: tuple[str, ...]) -> str:
    return (
        f"disruption: an exec sends all lines of {device}, needed or not, and among them:"
        f" {describe_interrupts(interrupts)}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or executor to device, which"
        " sends only what differs"
    )


def _refusal(switch: SwitchPlan, changes: Sequence[Difference], *, unread: bool) -> str:
    base = " (against what was last applied, since nothing was read)" if unread else ""
    return (
        f"disruption: {switch.name} would interrupt traffic{base}:"
        f" {interrupted_words(switch, changes)}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or take the change back"
    )
