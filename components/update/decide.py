"""What this run will do with what was observed: notes, refusals, and whether to prove again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from components.acceptance.report.text import PASSED_LINE
from components.acceptance.request import COLLECT, EVIDENCE_STEP, VERDICT_STEP
from components.cloud.observe import cloud_drift, with_generations
from components.core.key_values import HostState
from components.core.placeholder import matches
from components.disruption.forecast import departure_notes, forecast_departures
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, Unreachable, drift_of_step
from components.fabric.cabling import find_wrong_cables
from components.fabric.drift import drift_of_switch
from components.fabric.plan import SwitchPlan
from components.fabric.state import SwitchState, diff_states
from components.hosts.look import parse_look
from components.hosts.placement import judge_placement
from components.kubernetes.kubeconfig import renewal_note
from components.kubernetes.planes.base import NODE_SUFFIX
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines, render_lines
from components.remote.script import render_step_command
from components.remote.sending import TOOL_LACKS, missing_note
from components.remote.step import REPAIR_LINE, RemoteStep
from components.update.exec_runs import exec_notes, left_by_exec
from components.update.seen import Facts, Seen

_RUN: Final = re.compile(r"--number (\d+)")


@dataclass(frozen=True, slots=True)
class Intentions:
    """The outcome of observe, before the first resource."""

    drifts: tuple[DeviceDrift, ...]
    notes: Mapping[str, str]
    """Step name to repair note."""
    run: int
    """Number of the acceptance run; unchanged when nothing asks for another proof."""
    plan: ClusterPlan
    """The plan, with another generation of each cloud object that was found gone."""


def judge_drift(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[DeviceDrift, ...]:
    """Compare every device and cloud object of the plan with what was last applied to it."""
    objects = cloud_drift(plan.cloud, applied, seen.cloud) if plan.cloud else ()
    switches = tuple(
        _drift_of(switch, applied, seen.switch(switch.name)) for switch in plan.switches
    )
    known = applied.instances
    steps = tuple(
        drift_of_step(watched.known(known), applied, seen.host(watched.device))
        for watched in plan.watched
    )
    steps = with_placement(plan, steps, seen.devices)
    return (*(each.drift for each in objects), *switches, *steps)


def with_placement(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], facts: Mapping[str, Facts]
) -> tuple[DeviceDrift, ...]:
    """The hosts' cards and GPUs against the file, beside the drift of their settings."""
    wanted = {host.converge.name: host.placement for host in plan.hosts if host.placement}

    def placed(drift: DeviceDrift) -> DeviceDrift:
        found, expected = facts.get(drift.device), wanted.get(drift.step)
        if expected is None or not isinstance(found, HostState):
            return drift
        look = parse_look(f"{key}={value}" for key, value in found.values.items())
        return replace(drift, placement=judge_placement(expected, look))

    return tuple(map(placed, drifts))


def _drift_of(
    switch: SwitchPlan, applied: Applied, facts: SwitchState | Unreachable | None
) -> DeviceDrift:
    """A switch's settings against what was applied, and its cables against the file."""
    drift = drift_of_switch(switch.name, switch.step, switch.desired, applied, facts)
    neighbours = facts.neighbours if isinstance(facts, SwitchState) else None
    return replace(drift, cabling=find_wrong_cables(switch.cables, neighbours))


def intend(
    plan: ClusterPlan,
    applied: Applied,
    seen: Seen,
    accept: Literal["changed", "always"],
) -> Intentions:
    """Decide the repair notes, the acceptance run, and what is recreated in this update."""
    if plan.cloud:
        objects = cloud_drift(plan.cloud, applied, seen.cloud)
        plan = replace(plan, cloud=with_generations(plan.cloud, objects))
    drifts = judge_drift(plan, applied, seen)
    notes = {drift.step: drift.note for drift in drifts if drift.note}
    notes |= exec_notes(plan.switches, applied, drifts)
    hosts = {name: fact for name, fact in seen.devices.items() if isinstance(fact, HostState)}
    notes |= departure_notes(plan.reboots, hosts, applied)
    notes |= _tools_notes(plan, applied, hosts)
    access = plan.kubernetes.access if plan.kubernetes else None
    if access is not None and (note := _access_note(applied.step(access.name))):
        notes[access.name] = note
    touched = any(drift.differences or drift.edited for drift in drifts)
    touched = touched or bool(forecast_departures(plan.reboots, hosts))
    run = _run_number(plan, applied, touched=touched, accept=accept)
    return Intentions(drifts, notes, run, plan)


def _tools_notes(
    plan: ClusterPlan, applied: Applied, seen: Mapping[str, HostState]
) -> dict[str, str]:
    """Hosts on which a tool was looked for that had been sent, and is missing or altered."""
    lacking: dict[str, list[str]] = {}
    for watched in plan.watched:
        if watched.device in seen:
            keys = seen[watched.device].values
            found = [key.removeprefix(TOOL_LACKS) for key in keys if key.startswith(TOOL_LACKS)]
            lacking.setdefault(watched.step.endpoint.device, []).extend(found)
    notes: dict[str, str] = {}
    for each in (*plan.hypervisors, *plan.hosts):
        recorded = applied.step(each.sending.name)
        if recorded is not None and recorded.stdin:
            notes[each.sending.name] = missing_note(recorded.stdin, lacking.get(each.name, ()))
    return {step: note for step, note in notes.items() if note}


def _access_note(access: AppliedStep | None) -> str:
    """Why access is read again; the last reason stays, as every note does, else it flaps."""
    if access is None or not access.stdout:
        return ""
    last = access.stdin.partition(REPAIR_LINE)[2].strip()
    return renewal_note(access.stdout) or last


def _run_number(
    plan: ClusterPlan,
    applied: Applied,
    *,
    touched: bool,
    accept: Literal["changed", "always"],
) -> int:
    recorded = applied.step(EVIDENCE_STEP)
    if recorded is None or not recorded.stdin:
        return 1
    request = parse_lines(recorded.stdin)
    number = _RUN.search(recorded.create)
    last = int(number[1]) if number else 0
    unproven = applied.step(VERDICT_STEP) is None or not _passed(applied)
    unproven = unproven or COLLECT not in recorded.create
    unproven = unproven or "request" not in request  # evidence of an earlier release, in the state
    again = touched or unproven or accept == "always" or request.get("plan_digest") != plan.digest
    return last + 1 if again else last


def _passed(applied: Applied) -> bool:
    """Whether the recorded gate judged the recorded evidence and let it through."""
    gate = applied.step(VERDICT_STEP)
    evidence = applied.step(EVIDENCE_STEP)
    if gate is None or evidence is None:
        return False
    if not evidence.stdout or evidence.stdout.strip() not in gate.stdin:
        return False
    # With `gate: warn` a failed verdict is let through; it is still no proof.
    return PASSED_LINE in gate.stdout


def strangers_to_undo(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """Switches that are as planned although nothing was ever applied: was a state lost?"""
    new = {drift.device for drift in drifts if not drift.applied}
    return tuple(
        f"{switch.name} already matches the plan, but no previous values are recorded, so `destroy`"
        " cannot restore them. If the stack's state was lost, run"
        f" `railyard baseline import {plan.stack} FILE`"
        for switch in plan.switches
        if switch.name in new
        and switch.exec is None
        and isinstance(found := facts.get(switch.name), SwitchState)
        and not diff_states(found, switch.desired)
    )


def refusals(
    plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """Why this update must not start: named before anything is touched."""
    known = applied.instances
    addresses = {switch.name: switch.endpoint.where for switch in plan.switches}
    addresses |= {each.device: each.step.endpoint.known(known).where for each in plan.watched}
    steps = [step.known(known) for step in plan.steps]
    pending = {step.endpoint.device for step in steps if _is_pending(step, applied)}
    unreachable = tuple(
        _refusal(drift, addresses.get(drift.device, plan.cloud.api.endpoint if plan.cloud else ""))
        for drift in drifts
        if drift.unreachable is not None
        and (drift.edited or drift.stranger or drift.device in pending)
    )
    executors = left_by_exec(plan.switches, applied)
    misplaced = tuple(
        f"{drift.device}: placement: {found.text}\n  where  {addresses.get(drift.device, '')}; the"
        " check is of the PCIe bus as it is now. Nothing was changed on any device."
        for drift in drifts
        for found in drift.placement
        if found.refused
    )
    return (*unreachable, *executors, *misplaced, *_stranded(plan, applied, drifts))


def _stranded(
    plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """Nodes would leave over a first server that is lost: their recorded undo goes to it."""
    nodes = plan.kubernetes.nodes if plan.kubernetes else ()
    if not nodes:
        return ()
    kept = {step.name for step in nodes}
    leaving = [name for name in applied.steps if name.endswith(NODE_SUFFIX) and name not in kept]
    first = nodes[0].endpoint.device
    machine = {
        step
        for each in (plan.cloud.instances if plan.cloud else ())
        for step in (each.create, each.step)
        if each.name == first
    }
    lost = [
        drift
        for drift in drifts
        if (drift.step in machine and drift.differences)
        or (drift.device == first and drift.unreachable is not None)
    ]
    if not leaving or not lost:
        return ()
    names = ", ".join(name.removesuffix(NODE_SUFFIX) for name in leaving)
    words = (
        f"{first} is lost, and {names} would leave the cluster over it.\n"
        "  where  the file removes nodes while its first server is not there. Nothing was changed"
        " on any device.\n"
        f"  fix    put {names} back into the file, replace {first} with this update, then remove"
        " them with the next"
    )
    return (words,)


def _is_pending(step: RemoteStep, applied: Applied) -> bool:
    """Whether this update would run the step; a changed secret is seen by the engine alone."""
    recorded = applied.step(step.name)
    if recorded is None or recorded.create != render_step_command(step, step.apply):
        return True
    return step.secret_stdin is None and not matches(*_without_notes(step, recorded.stdin))


def _without_notes(step: RemoteStep, recorded: str) -> tuple[str, str]:
    """What the step wants and what it last got, neither with the notes of repairs."""
    if step.dialect != "device":
        return step.desired, recorded.partition(REPAIR_LINE)[0]
    if recorded.startswith("{"):  # of an earlier release: the engine runs the step
        return step.desired, recorded
    return step.desired, render_lines({**parse_lines(recorded), "repair": ""})


def _refusal(drift: DeviceDrift, where: str) -> str:
    if drift.stranger:
        return (
            f"host key: {drift.unreachable}\n  where  {where}. Nothing was changed on any device."
        )
    why = "the file changed for it" if drift.applied else "nothing was ever applied to it"
    return (
        f"unreachable: {drift.unreachable}\n"
        f"  where  {where}; {why}, so it has to be touched. Nothing was changed on any device.\n"
        "  fix    make it reachable; to preview without looking: "
        "pulumi config set railyard:observe never"
    )
