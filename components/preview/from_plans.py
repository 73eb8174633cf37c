"""Predict interruptions of a change in the words of the rooms that decide them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from components.catalogue.switches import find_model
from components.cloud.cloud_plan import list_calls
from components.core.key_values import HostState
from components.core.problem import render_finding, render_path
from components.disruption.forecast import IN_SERVICE
from components.drift.applied import Applied, AppliedStep
from components.fabric.edit import MARKS, last_applied, preview_switch, render_waves
from components.fabric.state import SwitchState
from components.fabric.systems import system_of
from components.hosts.preview import class_changes
from components.kubernetes.planes.base import NODE_SUFFIX, REMOVAL_SUFFIX
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.owners import not_touched
from components.model.places import list_secrets
from components.plan.make import ClusterPlan
from components.preview import items
from components.preview.report import Preview
from components.remote.lines import parse_lines
from components.remote.step import RemoteStep
from components.update import servers
from components.update.refusals import host_departures, known_hosts
from components.update.seen import Facts, Seen, Situation

NOT_READ = "Nothing was read from devices: drift is not known."
PROVEN_AGAIN = "Acceptance proves the path again after the update."
_HERE = "runs on the machine that runs Pulumi, with all that its user may read"


def as_recorded(plan: ClusterPlan) -> Applied:
    """Return the state that records the nodes after this plan is applied."""
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
        # Before the first update nothing is recorded, so the factory state is assumed.
        before = system_of(switch.os).factory_state(tuple(was.ports))
        text = preview_switch(switch, was, was, spec.disruption.ports, before) or ""
        for line in text.splitlines():
            if line.strip().startswith(MARKS):
                yield f"{switch.name}: {line.strip()}"
                stops[switch.name] = text
    yield from render_waves(plan.switches, stops, spec.disruption.switch_waves.canary)


def replaced(before: ClusterPlan, after: ClusterPlan) -> tuple[str, ...]:
    """Name the cloud objects to recreate, because the API cannot change a field in place."""
    sides = (list_calls(plan.cloud, {}) if plan.cloud else () for plan in (before, after))
    was, wanted = ({each.step: each.triggers for each in side if each.triggers} for side in sides)
    return tuple(
        f"REPLACES {name}: an update removes it with everything on it, and makes it again"
        for name, trigger in wanted.items()
        if name in was and was[name] != trigger
    )


def preview_plans(
    spec: ClusterSpec, before: ClusterPlan, after: ClusterPlan, reference: str
) -> Preview:
    """Preview the difference of two files, for devices that match the first file."""
    was = items.renamed_items(items_of_plan(before, with_limits=True), spec)
    edits = items.compare_items(was, items_of_plan(after, with_limits=True))
    new = {old: name for name, old in spec.renamed.all.items()}
    facts: dict[str, Facts] = {each.name: each.desired for each in before.switches}
    for host in before.hosts:  # assume that it runs jobs, since no device was read
        facts[host.name] = HostState({**host.desired.values, IN_SERVICE: "yes"})
    facts = {new.get(name, name): each for name, each in facts.items()}
    found = _predicted(spec, after, facts, as_recorded(before).follow(spec))
    again = [PROVEN_AGAIN] if before.digest != after.digest else []
    return replace(
        found,
        basis=f"the file against that of {reference}; no device and no state was read",
        alarms=(*replaced(before, after), *found.alarms),
        edits=edits,
        notes=(*found.notes, *again),
    )


def preview_state(
    spec: ClusterSpec, plan: ClusterPlan, recorded: Mapping[str, items.Item], applied: Applied
) -> Preview:
    """Preview the file's effect on devices that match their last applied state."""
    edits = items.compare_items(recorded, items_of_plan(plan, with_limits=False))
    last = {each.name: last_applied(each, applied) for each in plan.switches}
    facts: dict[str, Facts] = {name: was for name, was in last.items() if was}
    facts |= known_hosts(plan, {}, applied)
    found = _predicted(spec, plan, facts, applied)
    programs = (f"Program: {words}" for words in programs_of(spec).values())
    notes = (*found.notes, *([PROVEN_AGAIN] if edits else []), *programs)
    basis = "the file against the recorded state; no device was read"
    return replace(found, basis=basis, edits=edits, notes=notes)


def _predicted(
    spec: ClusterSpec, plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> Preview:
    """Predict interruptions, reboots and upgrades from these assumed present states."""
    seen = Seen()
    chosen = servers.choose_upgrades(plan, applied, seen, ())
    refused = tuple(map(render_finding, servers.judge_upgrades(Situation(spec, plan, applied))))
    versions = servers.node_versions(plan, applied, seen)
    upgrades = refused or servers.describe_upgrades(chosen, versions)
    devices = (*(switch.name for switch in plan.switches), *(host.name for host in plan.hosts))
    new = ", ".join(name for name in devices if name not in facts)
    first = f"Never applied: {new}. The impact of a first update there is unknown."
    return Preview(
        stack=plan.stack,
        basis="",
        alarms=(  # most severe first
            *host_departures(plan, facts, applied),
            *_interruptions(spec, plan, facts),
            *class_changes(plan.hosts, facts),
            *upgrades,
        ),
        edits=(),
        repairs=(),
        notes=(NOT_READ, *([first] if new else []), *not_touched(plan.unreached)),
        ports=port_orders(plan),
    )


def edited_names(plan: ClusterPlan, recorded: Mapping[str, items.Item]) -> frozenset[str]:
    """Return the resources that the file edits; their differences are not drift."""
    sides, edited = (recorded, items_of_plan(plan, with_limits=False)), set[str]()
    for name in {*sides[0], *sides[1]}:
        before, after = ({name: side[name]} if name in side else {} for side in sides)
        if items.compare_items(before, after):
            edited.add(name)
    return frozenset(edited)


def port_orders(plan: ClusterPlan) -> dict[str, dict[str, int]]:
    """Return the ports of each switch in front panel order."""
    found: dict[str, dict[str, int]] = {}
    for switch in plan.switches:
        model = find_model(switch.model)
        known = model.ports.get(switch.os, ()) if model else ()
        found[switch.name] = {name: number for number, name in enumerate(known)}
    return found


def items_of_plan(plan: ClusterPlan, *, with_limits: bool) -> dict[str, items.Item]:
    """Return the items of a plan by resource name.

    `with_limits` includes acceptance limits and names of sent secrets, which no state has.
    """
    found = dict(_items_of_apis(plan))
    for switch in plan.switches:
        found[switch.step] = items.Item("switch", switch.name, switch.desired.settings())
    hypervisors = {each.converge.name for each in plan.hypervisors}
    for step in plan.steps:
        # A host step's stdin holds settings; a reboot repeats the settings of its host.
        if step.dialect != "device" and step.secret_stdin is None:
            kind = "hypervisor" if step.name in hypervisors else "host"
            settings = items.settings_of_text(step.desired)
            found[step.name] = items.Item(kind, _subject(step), settings)
        elif step.secret_stdin is not None and with_limits:
            name = step.name.removeprefix(f"{step.endpoint.device}-")
            sent = {("", f"{name} secret"): step.secret_stdin}
            found[step.name] = items.Item("host", _subject(step), sent)
    if with_limits:
        limits = plan.acceptance.limits.model_dump(mode="json")
        found["acceptance"] = items.item_of("acceptance", "acceptance", limits)
    return found


def _items_of_apis(plan: ClusterPlan) -> Iterator[tuple[str, items.Item]]:
    """Yield what a cloud or a cluster keeps."""
    for call in list_calls(plan.cloud, {}) if plan.cloud else ():
        if call.verb == "ensure":
            yield call.step, items.item_of("cloud", call.step, parse_lines(call.stdin))
    for chart in plan.operators.charts:
        inputs = {key: getattr(chart, key) for key in ("chart", "version", "namespace", "values")}
        inputs["repositoryOpts"] = {"repo": chart.repo} if chart.repo else None
        yield chart.release, items.item_of("release", chart.release, items.release_fields(inputs))
    for room in (plan.operators, plan.pod_network, plan.jobs):
        for each in room.manifests:
            subject = items.object_subject(each.body, each.kind)
            yield each.resource_name, items.item_of("object", subject, each.body)


def _subject(step: RemoteStep) -> str:
    """Return the owner of a step's settings: a node, although the first server writes them."""
    for suffix in (NODE_SUFFIX, REMOVAL_SUFFIX):
        if step.name.endswith(suffix):
            return step.name.removesuffix(suffix)
    return step.endpoint.device


def programs_of(spec: ClusterSpec) -> Mapping[object, str]:
    """Map each program that runs to words about its file and name, without its arguments.

    Arguments may hold a token, so they are compared and never shown.
    """
    found: dict[object, str] = {}
    for reference, path in list_secrets(spec):
        if reference.command is not None:
            found[reference.command] = f"{reference.command[0]} of {render_path(path)} {_HERE}"
    if (plane := spec.kubespray) is not None:
        source = plane.source
        found["python", plane.python] = f"{plane.python} of kubernetes.python {_HERE}"
        tree = f"kubespray {source.release} of kubernetes.source, with {plane.requirements},"
        found[source.pin, plane.requirements] = f"{tree} {_HERE}"
    if isinstance(spec.kubernetes, ExistingPlane):
        users = "a user of kubernetes.kubeconfig may name one with `exec` in the secret, and that"
        found["kubeconfig", spec.kubernetes.kubeconfig.name] = f"{users} {_HERE}"
    for key in ("gpu", "network", "gpu_device_plugin"):
        operator = getattr(spec.operators, key)
        chart = operator.chart if operator is not None else None
        if chart is not None and chart.repo is None and not chart.chart.startswith("oci://"):
            words = f"the chart {chart.chart} of operators.{key} is a folder of this project: Helm"
            words += " renders it on this machine, and its objects run as pods"
            found["chart", chart.chart] = words
    return found


def added_programs(before: ClusterSpec, after: ClusterSpec) -> tuple[str, ...]:
    """Return an alarm for each program that only `after` has, or has with other arguments."""
    known = programs_of(before)
    again = ", one of before with other arguments"
    return tuple(
        f"this edit adds a program{again if words in known.values() else ''}: {words}"
        for key, words in programs_of(after).items()
        if key not in known
    )
