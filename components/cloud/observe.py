"""Compare the cloud with the objects that this stack made there; this only reads.

An object counts as gone only if a readable list lacks it and the API does not know its id. Any
other answer makes the object "not observed", and no decision follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from components.cloud import kinds
from components.cloud import request as requests
from components.cloud.cloud_plan import CloudObject, CloudPlan, InstancePlan
from components.cloud.crusoe_api import CloudError, Patience
from components.core.difference import ABSENT, Difference
from components.core.errors import Bug
from components.core.plain_text import fill, instances_in, parse_facts
from components.core.record import record, replace
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable, make_drift

OBSERVE_PATIENCE = Patience(request_s=10.0, poll_s=0.5, reads=3)
"""A preview waits for these reads, so each is tried only three times within seconds."""


@record
class Gone:
    """The stack made the object, and it no longer exists."""


CloudFacts = Mapping[str, kinds.Item | Gone | Unreachable]
"""Step of an object to the API's answer; never-made objects are left out."""


def observe_cloud(
    plan: CloudPlan,
    applied: Applied,
    secrets: Mapping[str, str],
    patience: Patience = OBSERVE_PATIENCE,
) -> CloudFacts:
    """Read every object that this stack made, with one list for each kind.

    Objects of the plan that were never applied are skipped; the recorded state has the ids.
    """
    api = requests.open_api(plan.api, secrets, patience)
    ids: dict[kinds.ObjectKind, dict[str, str]] = {}
    for item in plan.objects:
        recorded = applied.step(item.step)
        if recorded and (known := requests.previous_of(recorded.stdout).get("id")):
            ids.setdefault(item.kind, {})[item.step] = known
    seen: dict[str, kinds.Item | Gone | Unreachable] = {}
    for kind, known in ids.items():
        try:
            listed = {item.id: item for item in kinds.list_kind(api, kinds.KINDS[kind])}
        except CloudError as error:
            seen |= dict.fromkeys(known, Unreachable(str(error)))
            continue
        for step, each in known.items():
            try:
                there = listed.get(each) or kinds.get_by_id(api, kinds.KINDS[kind], each)
                seen[step] = there or Gone()
            except CloudError as error:
                seen[step] = Unreachable(str(error))
    return seen


def cloud_drift(plan: CloudPlan, applied: Applied, facts: CloudFacts) -> tuple[DeviceDrift, ...]:
    """Compare observed with applied: one entry for each object and each running instance."""
    objects = tuple(_drift_of_object(plan, item, applied, facts) for item in plan.objects)
    return objects + tuple(_drift_of_running(plan, each, applied, facts) for each in plan.instances)


def _drift_of_object(
    plan: CloudPlan, item: CloudObject, applied: Applied, facts: CloudFacts
) -> DeviceDrift:
    device = f"{kinds.KINDS[item.kind].words} {item.name}"
    recorded = applied.step(item.step)
    if recorded is None or not recorded.stdin:
        return make_drift(device, item.step, None, (), edited=True, note=None)
    request = requests.parse_request(requests.ObjectRequest, recorded.stdin)
    seen = facts.get(item.step)
    found: tuple[Difference, ...] = ()
    if isinstance(seen, Gone):
        found = (Difference(device, "presence", ABSENT, "present"),)
    elif isinstance(seen, kinds.Item):
        found = tuple(
            Difference(device, key, there or ABSENT, wanted)
            for key, there, wanted in kinds.differing(kinds.KINDS[item.kind], seen, request.body)
        )
    planned = plan.request(replace(item, generation=request.generation), request.repair)
    edited = _filled(planned, applied) != recorded.stdin
    return make_drift(device, item.step, seen, found, edited=edited, note=request.repair)


def _drift_of_running(
    plan: CloudPlan, item: InstancePlan, applied: Applied, facts: CloudFacts
) -> DeviceDrift:
    """Compare an instance's state, addresses and GUIDs with the recorded ones."""
    device, seen = f"running instance {item.name}", facts.get(item.create)
    recorded = applied.step(item.step)
    if recorded is None or not recorded.stdin:
        return make_drift(device, item.step, None, (), edited=True, note=None)
    was = requests.previous_of(recorded.stdout)
    wanted = {"state": kinds.RUNNING} | {
        key: was[key] for key in ("public_ip", "private_ip", "guids") if was.get(key)
    }
    found: tuple[Difference, ...] = ()
    if isinstance(seen, kinds.Item):
        found = tuple(
            Difference(device, key, seen.settings.get(key, ABSENT), value)
            for key, value in wanted.items()
            if seen.settings.get(key, ABSENT) != value
        )
    request = requests.parse_request(requests.ReadyRequest, recorded.stdin)
    edited = _filled(plan.ready_request(item, request.repair), applied) != recorded.stdin
    return make_drift(device, item.step, seen, found, edited=edited, note=request.repair)


def _filled(text: str, applied: Applied) -> str:
    """A request with the recorded ids; it stays unfilled if one of them is not recorded yet."""
    names = instances_in(text)
    recorded = [applied.step(name) for name in names]
    if not all(step and step.stdout for step in recorded):
        return text
    try:
        return fill(text, parse_facts(names, [step.stdout for step in recorded if step]))
    except Bug:  # recorded by another release, without that fact
        return text


def silent_instances(plan: CloudPlan, facts: CloudFacts) -> frozenset[str]:
    """Name the instances that no tool can read, because they are gone or stopped."""
    seen = ((each.name, facts.get(each.create)) for each in plan.instances)
    return frozenset(
        name
        for name, item in seen
        if isinstance(item, Gone)
        or (isinstance(item, kinds.Item) and item.settings.get("state") in kinds.STOPPED)
    )


def with_generations(plan: CloudPlan, applied: Applied, facts: CloudFacts) -> CloudPlan:
    """The plan with the recorded generations; a missing object has the next, which recreates it."""
    objects: list[CloudObject] = []
    for item in plan.objects:
        recorded, number = applied.step(item.step), item.generation
        if recorded is not None and recorded.stdin:
            request = requests.parse_request(requests.ObjectRequest, recorded.stdin)
            number = request.generation + isinstance(facts.get(item.step), Gone)
        objects.append(replace(item, generation=number))
    return replace(plan, objects=tuple(objects))
