"""What a change interrupts, by the rules of the rooms that know it: each line as they say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from components.cloud.calls import list_calls
from components.core.key_values import HostState
from components.core.problem import Lines
from components.disruption.pending import IN_SERVICE
from components.drift.applied import Applied, AppliedStep
from components.fabric.edit import MARKS, applied_switch, preview_switch, render_waves
from components.fabric.state import SwitchState
from components.fabric.systems import driver_of
from components.hosts.preview import class_changes
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.update.refusals import host_departures
from components.update.seen import Facts, Seen
from components.update.upgrades import (
    choose_upgrades,
    describe_upgrades,
    node_versions,
    upgrades_refused,
)


def facts_of_plan(plan: ClusterPlan) -> dict[str, Facts]:
    """The devices as they are when a plan is applied."""
    found: dict[str, Facts] = {switch.name: switch.desired for switch in plan.switches}
    return found | {host.name: _in_service(host.desired) for host in plan.hosts}


def facts_of_state(plan: ClusterPlan, applied: Applied) -> dict[str, Facts]:
    """The devices of a plan as they were last applied; those without a record are left out."""
    found: dict[str, Facts] = {}
    for switch in plan.switches:
        recorded = applied.step(switch.step)
        if recorded is not None and recorded.stdin:
            found[switch.name] = applied_switch(recorded)[0]
    for host in plan.hosts:
        recorded = applied.step(host.converge.name)
        if recorded is not None and recorded.stdin:
            found[host.name] = _in_service(host.watched.settings_in(recorded.stdin))
    return found


def _in_service(state: HostState) -> HostState:
    """Not read: jobs are taken to run there."""
    return HostState({**state.values, IN_SERVICE: "yes"})


def foretell(
    spec: ClusterSpec, plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> tuple[str, ...]:
    """What an update from these facts interrupts and reboots, most severe first.

    Args:
        spec: What the file says, for what it allows.
        plan: What is wanted.
        facts: Device to what is taken to be there.
        applied: The state that recorded the nodes.
    """
    return (
        *host_departures(plan, facts, applied),
        *_interruptions(spec, plan, facts),
        *class_changes(plan.hosts, facts),
    )


def foretell_upgrades(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> tuple[str, ...]:
    """What an update of nodes that run what they were last brought to refuses and upgrades."""
    seen = Seen()
    chosen = choose_upgrades(plan, applied, seen, ())
    refused = upgrades_refused(spec, plan, applied, seen, Lines())
    return refused or describe_upgrades(chosen, node_versions(plan, applied, seen))


def as_recorded(plan: ClusterPlan) -> Applied:
    """What a state records of the nodes when a plan is applied."""
    if plan.kubernetes is None:
        return Applied()
    played = [plan.kubernetes.playbooks.step] if plan.kubernetes.playbooks else []
    nodes = [each.step for each in plan.kubernetes.watched_nodes]
    steps = (*nodes, *plan.kubernetes.nodes, *played)
    return Applied({step.name: AppliedStep(step.desired) for step in steps})


def _interruptions(
    spec: ClusterSpec, plan: ClusterPlan, facts: Mapping[str, Facts]
) -> Iterator[str]:
    stops: dict[str, str] = {}
    for switch in plan.switches:
        was = facts.get(switch.name)
        if not isinstance(was, SwitchState):
            continue
        # No plan knows what was there before the first update: an untouched switch is assumed.
        before = driver_of(switch.os).factory_state(tuple(was.ports))
        text = preview_switch(switch, was, was, spec.disruption.ports, before) or ""
        for line in text.splitlines():
            if line.strip().startswith(MARKS):
                yield f"{switch.name}: {line.strip()}"
                stops[switch.name] = text
    yield from render_waves(plan.switches, stops, spec.disruption.switch_waves.canary)


def replaced(before: ClusterPlan, after: ClusterPlan) -> tuple[str, ...]:
    """Cloud objects that are recreated: what the API cannot change in place differs."""
    was, wanted = _triggers(before), _triggers(after)
    return tuple(
        f"REPLACES {name}: it is removed and made again, with all that is on it"
        for name, trigger in wanted.items()
        if name in was and was[name] != trigger
    )


def _triggers(plan: ClusterPlan) -> dict[str, Sequence[str]]:
    calls = list_calls(plan.cloud, {}) if plan.cloud else ()
    return {call.step: call.triggers for call in calls if call.triggers}
