"""Decide from the observed state: repair notes, refusals, and whether to run acceptance again.

A new kind of refusal is one function of a `Situation`, and one row of `JUDGES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from components.acceptance.handover import EVIDENCE_STEP, UNASKED
from components.cloud.observe import cloud_drift, with_generations
from components.core.judge import Judge, When, describe
from components.core.key_values import HostState
from components.core.plain_text import matches
from components.core.problem import Finding, Place
from components.core.record import field, record, replace
from components.core.templates import fault_text, finding_of
from components.disruption.forecast import departure_notes, forecast_departures
from components.disruption.leave_plan import choose_departures, leaving_nodes, renamed_nodes
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Watched, drift_of_step
from components.fabric import edit
from components.fabric.cabling import find_wrong_cables
from components.fabric.state import SwitchState, diff_states
from components.hosts.harms import find_foreign_settings
from components.hosts.look import judge_placement, parse_look
from components.hosts.preview import hosts_refused, judge_settings
from components.kubernetes.kubeconfig import renewal_note
from components.kubernetes.live.look import ClusterDrift
from components.kubernetes.manifest import HELD
from components.kubernetes.planes.base import AGAIN
from components.model.places import each_ssh
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines, render_lines
from components.remote.sending import TOOL_LACKS, lacking_tools, missing_note
from components.remote.step import REPAIR_LINE, RemoteStep, render_step_command
from components.update import refusals, servers
from components.update.cluster import cluster_notes, hold_objects, is_held, judge_cluster
from components.update.identity import judge_identity
from components.update.pieces import judge_moved
from components.update.proof import Accept, is_asked, last_run, passed, proven_repairs, repairs_of
from components.update.seen import Facts, Seen, Situation

_AGAIN: Final = re.compile(rf" {AGAIN}\d+(?=[' ]|$)")
_UPDATE: Final = frozenset[When]({"update"})
_BOTH: Final = frozenset[When]({"update", "preflight"})


@record
class Intentions:
    """The decisions of a run, made before its first resource."""

    drifts: tuple[DeviceDrift, ...]
    notes: Mapping[str, str]
    """Step name to repair note."""
    run: int
    """Number of the acceptance run; unchanged if no new proof is needed."""
    plan: ClusterPlan
    """The plan. Deleted cloud objects have a new generation."""
    changed: frozenset[str] | None = None
    """Devices that this update changes; None if acceptance covers the whole site."""
    cluster: ClusterDrift = field(default_factory=ClusterDrift)


def judge_drift(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[DeviceDrift, ...]:
    """Compare every device and cloud object of the plan with its last applied state."""
    objects = cloud_drift(plan.cloud, applied, seen.cloud) if plan.cloud else ()
    networks = edit.networks_of(plan.switches, applied)
    switches: list[DeviceDrift] = []
    for switch in plan.switches:
        # With its last applied state; its cables and routes with the file.
        facts = seen.switch(switch.name)
        neighbours = facts.neighbours if isinstance(facts, SwitchState) else None
        found = replace(
            edit.drift_of_switch(switch, applied, facts),
            cabling=find_wrong_cables(switch.cables, neighbours),
            beside=edit.foreign_settings_of(switch, applied, facts),
            routing=edit.routing_faults(switch, applied, facts, networks),
        )
        switches.append(found)
    hosts, known = {host.converge.name: host for host in plan.hosts}, applied.instances
    sent = {
        each.name: recorded.stdin
        for each in (*plan.hypervisors, *plan.hosts)
        if (recorded := applied.step(each.sending.name)) is not None
    }

    def of_step(watched: Watched) -> DeviceDrift:
        facts = seen.host(watched.device)
        drift = drift_of_step(watched.known(known), applied, facts)
        if not isinstance(facts, HostState):
            return drift
        host = hosts.get(watched.step.name)
        if host is not None and host.placement:
            look = parse_look(f"{key}={value}" for key, value in facts.values.items())
            drift = replace(drift, placement=judge_placement(host.placement, look))
        if host is not None:
            found = find_foreign_settings(host.guarded, host.desired, facts)
            drift = replace(drift, beside=found)
        stdin, lacking = sent.get(watched.step.endpoint.device), _lacking(facts)
        return replace(drift, tools=lacking_tools(stdin, lacking)) if stdin and lacking else drift

    steps = servers.with_ahead(plan, tuple(map(of_step, plan.watched)), applied)
    return (*objects, *switches, *steps)


def _lacking(seen: HostState) -> tuple[str, ...]:
    """Return the digests of tools that are missing or altered on a host."""
    return tuple(key.removeprefix(TOOL_LACKS) for key in seen.values if key.startswith(TOOL_LACKS))


def intend(plan: ClusterPlan, applied: Applied, seen: Seen, accept: Accept) -> Intentions:
    """Decide repair notes, the acceptance run, and recreations for this update."""
    if plan.cloud:
        plan = replace(plan, cloud=with_generations(plan.cloud, applied, seen.cloud))
    drifts = judge_drift(plan, applied, seen)
    plan = servers.choose_upgrades(plan, applied, seen, drifts)
    left = choose_departures(plan.departures, plan.kubernetes, applied)
    plan = replace(plan, departures=left, switches=edit.ordered(plan.switches, applied))
    hosts = {name: fact for name, fact in seen.devices.items() if isinstance(fact, HostState)}
    notes = {**seen.repairs, **_repair_notes(plan, applied, drifts, hosts)}
    cluster = judge_cluster(plan, applied, seen)
    notes |= cluster_notes(plan, applied, cluster, notes)
    if is_held(plan, cluster):
        notes[HELD] = "the API is dead"
        plan = hold_objects(plan, applied)
    touched = (
        cluster.touched
        or any(drift.differences or drift.edited for drift in drifts)
        or bool(forecast_departures(plan.reboots, hosts))
        or repairs_of(notes) != proven_repairs(applied)
    )
    again = is_asked(plan, applied, touched=touched, accept=accept)
    if not again:
        notes[EVIDENCE_STEP] = UNASKED
    run = last_run(applied) + 1 if again else last_run(applied)
    before = notes | {drift.step: drift.last_note for drift in drifts}
    whole = cluster.touched or repairs_of(before) != proven_repairs(applied)
    evidence, changed = applied.stdin(EVIDENCE_STEP), None
    shared = parse_lines(evidence).get("shared", "")
    if not whole and evidence and passed(applied) and shared == plan.acceptance.shared:
        found = {drift.device for drift in drifts if drift.differences or drift.edited}
        changed = frozenset(found | _pending(plan, applied))
    return Intentions(drifts, notes, run, plan, changed, cluster)


def _repair_notes(
    plan: ClusterPlan,
    applied: Applied,
    drifts: tuple[DeviceDrift, ...],
    hosts: Mapping[str, HostState],
) -> dict[str, str]:
    """Collect the notes that make the steps of drifted devices, tools and access run again."""
    notes = {drift.step: drift.note for drift in drifts if drift.note}
    notes |= refusals.exec_notes(plan.switches, applied, drifts)
    notes |= departure_notes(plan.reboots, hosts, applied)
    access = plan.kubernetes.access if plan.kubernetes else None
    recorded = applied.step(access.name) if access else None
    if access and recorded and recorded.stdout:
        # The last reason stays, else the step would flap.
        last = recorded.stdin.partition(REPAIR_LINE)[2].strip()
        notes |= {access.name: note} if (note := renewal_note(recorded.stdout) or last) else {}
    lacking: dict[str, list[str]] = {}
    for watched in plan.watched:
        if watched.device in hosts:
            found = _lacking(hosts[watched.device])
            lacking.setdefault(watched.step.endpoint.device, []).extend(found)
    for each in (*plan.hypervisors, *plan.hosts):
        sent = applied.stdin(each.sending.name)
        if sent and (note := missing_note(sent, lacking.get(each.name, ()))):
            notes[each.sending.name] = note
    return notes


def _pending(plan: ClusterPlan, applied: Applied) -> set[str]:
    """Return the devices on which this update runs a step."""
    known = applied.instances
    steps = (step.known(known) for step in plan.steps)
    return {step.endpoint.device for step in steps if is_pending(step, applied)}


def unrecorded_switches(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """Warn of switches that match the plan but have no record: the state may be lost."""
    new = {drift.device for drift in drifts if not drift.applied}
    return tuple(
        fault_text(__file__, "unrecorded", name=switch.name, stack=plan.stack)
        for switch in plan.switches
        if switch.name in new
        and switch.exec is None
        and isinstance(found := facts.get(switch.name), SwitchState)
        and not diff_states(found, switch.desired)
    )


def judge_unreachable(at: Situation) -> Iterator[Finding]:
    """Refuse an update that would change a device which could not be read."""
    pending = _pending(at.plan, at.applied)
    cloud = at.plan.cloud.api.endpoint if at.plan.cloud else ""
    paths = {name: path for name, _, path in each_ssh(at.spec)}
    for drift in at.drifts:
        needed = drift.edited or drift.stranger or drift.device in pending
        if drift.unreachable is None or not needed:
            continue
        why = "the file changed for it" if drift.applied else "nothing was ever applied to it"
        reason, _, own = drift.unreachable.partition("\n  fix ")
        words = {"why": why, "place": at.addresses.get(drift.device, cloud)}
        words |= {"mend": " ".join(own.split()) or "make it reachable"}
        words |= {"reason": drift.unreachable if drift.stranger else reason}
        row = "stranger" if drift.stranger else "unreachable"
        found = finding_of(__file__, row, device=drift.device, **words)
        line = at.lines.locate(Place(paths.get(drift.device, ())))
        yield replace(found, where=(replace(line, path=(), value=found.where[0].value),))


def judge_placements(at: Situation) -> Iterator[Finding]:
    """Refuse cards and GPUs in places with which the site cannot work."""
    for drift in at.drifts:
        name, place = drift.device, at.addresses.get(drift.device, "")
        for fault in (each.text for each in drift.placement if each.refused):
            yield finding_of(__file__, "placement", device=name, place=place, fault=fault)


def judge_stranded(at: Situation) -> Iterator[Finding]:
    """Refuse to remove nodes while the first server is lost: their recorded undo runs on it."""
    plane = at.plan.kubernetes
    leaving = leaving_nodes(plane, at.applied) if plane and plane.nodes else ()
    if plane is None or not leaving:
        return
    first = plane.nodes[0].endpoint.device
    instances = at.plan.cloud.instances if at.plan.cloud else ()
    lost = [step for each in instances if each.name == first for step in (each.create, each.step)]
    is_lost = any(
        (drift.step in lost and drift.differences)
        or (drift.device == first and drift.unreachable is not None)
        for drift in at.drifts
    )
    if is_lost:
        yield finding_of(__file__, "stranded", device=first, names=", ".join(leaving))


def is_pending(step: RemoteStep, applied: Applied) -> bool:
    """Whether this update would run the step; only the engine notices a changed secret."""
    recorded = applied.step(step.name)
    if recorded is None or _AGAIN.sub("", recorded.create) != render_step_command(step, step.apply):
        return True
    if step.secret_stdin is not None:
        return False
    was = recorded.stdin.partition(REPAIR_LINE)[0]
    if step.dialect == "device":
        was = render_lines({**parse_lines(recorded.stdin), "repair": ""})
    return not matches(step.desired, was)


def judge_node_names(at: Situation) -> Iterator[Finding]:
    """Refuse another name for an existing node."""
    return renamed_nodes(at.plan.kubernetes, at.applied)


def judge_hosts(at: Situation) -> Iterator[Finding]:
    """Refuse cards and users of hosts that cannot get the wanted settings."""
    yield from hosts_refused(at.spec, at.plan.hosts, at.seen.devices)


def judge_host_settings(at: Situation) -> Iterator[Finding]:
    """Report settings of hosts that no step may change, and that differ from the file."""
    for plan in at.plan.hosts:
        facts = at.seen.devices.get(plan.name)
        if isinstance(facts, HostState):
            yield from judge_settings(plan, facts.values)


JUDGES: Final = tuple(
    # Preflight reports every device that does not answer.
    Judge(check, *describe(check), _UPDATE if check is judge_unreachable else _BOTH)
    for check in (
        judge_identity, judge_moved, servers.judge_roles, refusals.judge_losses, judge_unreachable,
        refusals.judge_executors, judge_placements, judge_stranded, refusals.judge_guards,
        refusals.judge_disruptions, servers.judge_quorum, refusals.judge_first_install,
        refusals.judge_alignment, judge_node_names, refusals.judge_api, refusals.judge_balancers,
        servers.judge_upgrades, judge_hosts, judge_host_settings, refusals.judge_playbooks,
    )
)  # fmt: skip
"""In print order."""


def judge_situation(at: Situation, when: When) -> tuple[Finding, ...]:
    """Return the findings of every judge that this command asks, with the lines of the file."""
    found = (each for judge in JUDGES if when in judge.when for each in judge.findings(at))
    return tuple(map(at.lines.locate_all, found))
