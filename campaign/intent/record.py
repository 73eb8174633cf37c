"""What an update registers, from its plan: the steps, who they work on, and what undoes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from campaign.intent.decide import Decision, secret_of
from components.cloud.cloud_plan import list_calls
from components.core.record import field, record
from components.disruption.leave_plan import STEP as DRAIN
from components.drift.applied import Applied, AppliedStep
from components.fabric.state import SwitchState
from components.plan.make import ClusterPlan
from components.remote.sending import with_repair
from components.remote.step import (
    REPAIR_LINE,
    Endpoint,
    RemoteStep,
    railyard_program,
    render_request,
    render_step_command,
)

Machine = tuple[str, int, str]
"""Address, port and host key: what a device is, whatever the file calls it."""


@record
class Registered:
    """One step as the engine keeps it."""

    name: str
    kind: str
    """The name without that of its device: `-k3s` of `gpu01-k3s`."""
    machine: Machine | None
    """The device whose step it is; None for a step that is of no device."""
    step: AppliedStep
    has_undo: bool
    stdin_changes: bool = True
    """False: the engine ignores changes of its inputs."""


@record
class Registration:
    """All that one update registered."""

    steps: Mapping[str, Registered] = field(default_factory=dict[str, Registered])
    objects: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kubernetes objects and charts: resource name to what is asked for."""

    @property
    def applied(self) -> Applied:
        """The same as the next update reads it from its own state."""
        return Applied({name: each.step for name, each in self.steps.items()})


def machine_of(endpoint: Endpoint) -> Machine:
    """What a device is."""
    return endpoint.address, endpoint.port, endpoint.host_key


def machines_of(plan: ClusterPlan) -> dict[str, Machine]:
    """Device to machine."""
    found = {each.name: machine_of(each.endpoint) for each in plan.switches}
    for each in (*plan.hypervisors, *plan.hosts):
        found[each.name] = machine_of(each.converge.endpoint)
    return found


def register(decision: Decision, before: Registration, printed: Mapping[str, str]) -> Registration:
    """What an update that was not refused leaves in the state.

    Args:
        decision: Of this update.
        before: What the update before left.
        printed: Step to what it prints; others print nothing.
    """
    plan = decision.plan
    if plan is None:
        return before  # it was refused: the state stays
    found = {each.name: each for each in _steps(plan, decision, before, printed)}
    return Registration(found, _objects(plan))


def _objects(plan: ClusterPlan) -> dict[str, str]:
    rooms = (plan.operators, plan.pod_network, plan.jobs)
    found = {each.resource_name: repr(each.body) for room in rooms for each in room.manifests}
    return found | {chart.release: repr(chart) for chart in plan.operators.charts}


def _steps(
    plan: ClusterPlan, decision: Decision, before: Registration, printed: Mapping[str, str]
) -> Iterator[Registered]:
    notes = decision.notes
    yield from _cloud(plan, notes, printed)
    yield from _switches(plan, notes, before, printed)
    machines, noted = machines_of(plan), _with_reboots(plan, notes)
    for step in plan.steps:
        stdin = _stdin(step, noted.get(step.name, ""))
        yield _registered(step, machines, stdin, printed)
    for group in plan.upgrades:
        for each in group.steps:
            stdin = each.kept or each.request.render()
            yield Registered(
                each.name, "", None, _local("device upgrade-node", stdin), has_undo=False
            )
    if (left := plan.departures) is not None:
        stdin = left.kept or left.request.render()
        yield Registered(DRAIN, "", None, _local("device drain-nodes", stdin), has_undo=False)


def _local(words: str, stdin: str, stdout: str = "") -> AppliedStep:
    return AppliedStep(stdin, f"{railyard_program()} {words}", stdout)


def _cloud(
    plan: ClusterPlan, notes: Mapping[str, str], printed: Mapping[str, str]
) -> Iterator[Registered]:
    for call in list_calls(plan.cloud, notes) if plan.cloud else ():
        step = _local(f"cloud {call.verb}", call.stdin, printed.get(call.step, ""))
        yield Registered(call.step, "", None, step, call.delete is not None)


def _switches(
    plan: ClusterPlan,
    notes: Mapping[str, str],
    before: Registration,
    printed: Mapping[str, str],
) -> Iterator[Registered]:
    for switch in plan.switches:
        if switch.exec is not None:
            continue
        machine = machine_of(switch.endpoint)
        desired = switch.desired.model_dump(mode="json")
        name = switch.step_named("baseline")
        held = before.steps.get(name)
        words = f"device baseline --stack {plan.stack}"
        baseline = _local(words, "", printed.get(name, ""))
        yield held or Registered(
            name,
            "-baseline",
            machine,
            baseline,
            has_undo=False,
            stdin_changes=False,
        )
        policy = {"ports": switch.ports} if switch.ports == "deny" else {}
        note = notes.get(switch.step, "")
        stdin = render_request(
            switch.endpoint, os=switch.os, desired=desired, repair=note, **policy
        )
        yield Registered(
            switch.step, "-apply", machine, _local("device apply", stdin), has_undo=True
        )


def _with_reboots(plan: ClusterPlan, notes: Mapping[str, str]) -> Mapping[str, str]:
    """The notes of all steps; a reboot has that of the step that it serves too."""
    steps = [each for group in plan.reboots for each in group.steps]
    said = {each.name: (notes.get(each.serves, ""), notes.get(each.name, "")) for each in steps}
    return {**notes, **{name: "; ".join(filter(None, each)) for name, each in said.items()}}


def _stdin(step: RemoteStep, note: str) -> str:
    if step.secret_stdin:
        return secret_of(step.secret_stdin)
    if step.dialect == "device":
        return with_repair(step.desired, note)
    return f"{step.desired}{REPAIR_LINE}{note}\n" if note else step.desired


def _registered(
    step: RemoteStep, machines: Mapping[str, Machine], stdin: str, printed: Mapping[str, str]
) -> Registered:
    owners = [name for name in machines if step.name.startswith(f"{name}-")]
    owner = max(owners, key=len, default="")
    return Registered(
        step.name,
        step.name.removeprefix(owner),
        machines.get(owner),
        AppliedStep(stdin, render_step_command(step, step.apply), printed.get(step.name, "")),
        step.undo is not None,
    )


def switch_states(plan: ClusterPlan) -> dict[Machine, SwitchState]:
    """What is asked of each switch."""
    return {machine_of(each.endpoint): each.desired for each in plan.switches}
