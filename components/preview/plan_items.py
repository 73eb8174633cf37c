"""The items of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from components.cloud.calls import list_calls
from components.kubernetes.manifest import Manifest
from components.kubernetes.planes.base import NODE_SUFFIX, REMOVAL_SUFFIX
from components.operators.plan import ChartPlan
from components.plan.make import ClusterPlan
from components.preview.items import (
    Item,
    object_subject,
    release_fields,
    settings_of_fields,
    settings_of_text,
)
from components.remote.lines import flatten, parse_lines
from components.remote.step import RemoteStep


def items_of_plan(plan: ClusterPlan, *, with_limits: bool) -> dict[str, Item]:
    """Resource name to item.

    Args:
        plan: The plan.
        with_limits: With what acceptance expects; a recorded state knows its digest alone.
    """
    found = dict(_cloud(plan))
    for switch in plan.switches:
        found[switch.step] = Item("switch", switch.name, switch.desired.settings())
    hypervisors = {each.converge.name for each in plan.hypervisors}
    for step in plan.steps:
        if is_told(step):
            kind = "hypervisor" if step.name in hypervisors else "host"
            found[step.name] = Item(kind, _subject(step), settings_of_text(step.desired))
    found |= {chart.release: _release(chart) for chart in plan.operators.charts}
    rooms = (plan.operators, plan.pod_network, plan.jobs)
    found |= {each.resource_name: _object(each) for room in rooms for each in room.manifests}
    if with_limits:
        limits = flatten(plan.acceptance.limits.model_dump(mode="json"))
        found["acceptance"] = Item("acceptance", "acceptance", settings_of_fields(limits))
    return found


def is_told(step: RemoteStep) -> bool:
    """Whether the step's stdin is settings; a reboot repeats those of its host."""
    return step.dialect != "device" and step.secret_stdin is None


def _subject(step: RemoteStep) -> str:
    """Whose settings a step carries: a node's are written on the first server, and are its own."""
    for suffix in (NODE_SUFFIX, REMOVAL_SUFFIX):
        if step.name.endswith(suffix):
            return step.name.removesuffix(suffix)
    return step.endpoint.device


def _cloud(plan: ClusterPlan) -> Iterator[tuple[str, Item]]:
    for call in list_calls(plan.cloud, {}) if plan.cloud else ():
        if call.verb == "ensure":
            fields = flatten(parse_lines(call.stdin))
            yield call.step, Item("cloud", call.step, settings_of_fields(fields))


def _release(chart: ChartPlan) -> Item:
    inputs = {
        "chart": chart.chart,
        "version": chart.version,
        "namespace": chart.namespace,
        "values": chart.values,
        "repositoryOpts": {"repo": chart.repo} if chart.repo else None,
    }
    return Item("release", chart.release, settings_of_fields(flatten(release_fields(inputs))))


def _object(manifest: Manifest) -> Item:
    subject = object_subject(manifest.body, manifest.kind)
    return Item("object", subject, settings_of_fields(flatten(manifest.body)))
