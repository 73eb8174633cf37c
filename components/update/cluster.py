"""The objects of Kubernetes in an update: what to look at, what it shows, and the repair notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from components.core.difference import ABSENT
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable, next_note
from components.kubernetes.live.compare import THERE, FieldDrift
from components.kubernetes.live.judge import (
    Asked,
    ClusterDrift,
    ObjectDrift,
    judge_look,
)
from components.kubernetes.live.nodes import NodeTrouble
from components.kubernetes.live.release import ReleaseRef
from components.kubernetes.login import LOGIN_DATA, login_value
from components.kubernetes.manifest import AGAIN, REPAIR, Body, Manifest, annotations_of, pods_in
from components.kubernetes.planes.base import node_in
from components.operators.restore import restore_step_name
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update.proof import is_edited
from components.update.seen import Seen
from components.update.servers import lost_servers

_OF_DISTRIBUTION: Final = "kube-system"
"""Its quotas and policies come with the distribution, and pods of probes do not run there."""
_LONGEST: Final = 400
"""Characters of a repair note: a preview shows it."""


def manifests_of(plan: ClusterPlan) -> tuple[Manifest, ...]:
    """Every object that the plan asks for."""
    return (*plan.operators.manifests, *plan.pod_network.manifests, *plan.jobs.manifests)


def asked_of_cluster(
    plan: ClusterPlan, applied: Applied, secrets: Mapping[str, str]
) -> Asked | None:
    """What to look at, as it was last applied; None where nothing was.

    Where the state's last proof is of this very plan, the plan is what was applied, whole and also
    after a refresh. Else the state's own record counts: drift is never from an edited file.

    Args:
        plan: The plan of today's file.
        applied: What the state recorded.
        secrets: By name; the login of a registry is compared by its value.
    """
    if plan.kubernetes is None or not (applied.objects or applied.releases):
        return None
    if is_edited(plan, applied):
        objects = tuple(body for body in applied.objects.values() if _is_object(body))
        releases = [
            (str(each["name"]), str(each["namespace"])) for each in applied.releases.values()
        ]
    else:
        objects = tuple(_with_login(plan, each.body, secrets) for each in manifests_of(plan))
        releases = [(chart.release, chart.namespace) for chart in plan.operators.charts]
    return Asked(
        objects=objects,
        releases=tuple(ReleaseRef(name, namespace) for name, namespace in releases),
        nodes=_nodes(plan),
        namespaces=tuple(sorted({*_namespaces(plan, objects)} - {_OF_DISTRIBUTION})),
        tolerations=tuple(_tolerations(plan)),
    )


def _is_object(body: Body) -> bool:
    metadata = body.get("metadata")
    return "kind" in body and isinstance(metadata, dict) and "name" in metadata


def _with_login(plan: ClusterPlan, body: Body, secrets: Mapping[str, str]) -> Body:
    account = plan.kubernetes.registry if plan.kubernetes else None
    if body.get("data") != LOGIN_DATA or account is None or account.secret not in secrets:
        return body
    return {
        **body,
        "data": dict.fromkeys(LOGIN_DATA, login_value(account, secrets[account.secret])),
    }


def _nodes(plan: ClusterPlan) -> tuple[str, ...]:
    """The names of all nodes of our own cluster, or of the workers in an existing one."""
    if plan.kubernetes is not None and plan.kubernetes.existing is None:
        return plan.kubernetes.own_nodes
    return tuple(plan.acceptance.nodes.get(name, name) for name in plan.acceptance.workers)


def _probe_objects(plan: ClusterPlan) -> Iterator[Body]:
    yield from plan.acceptance.memlock
    for probe in plan.acceptance.probes:
        yield from probe.job.objects if probe.job else ()


def _namespaces(plan: ClusterPlan, objects: tuple[Body, ...]) -> Iterator[str]:
    for body in (*objects, *_probe_objects(plan)):
        if any(True for _ in pods_in(body)):
            yield str(cast("Any", body["metadata"]).get("namespace", "default"))
    yield from (chart.namespace for chart in plan.operators.charts)


def _tolerations(plan: ClusterPlan) -> Iterator[Body]:
    """Those of the probes: they run on every worker."""
    for body in plan.acceptance.memlock:
        for pod in pods_in(body):
            yield from cast("list[Body]", pod.get("tolerations") or [])


def judge_cluster(plan: ClusterPlan, applied: Applied, seen: Seen) -> ClusterDrift:
    """The cluster against what was applied, and who of its servers and balancers is lost."""
    if isinstance(seen.cluster, Unreachable):
        found = ClusterDrift(unreachable=seen.cluster.reason)
    else:
        found = judge_look(seen.cluster) if seen.cluster is not None else ClusterDrift()
    # What the state has no more, after a refresh, the engine installs: so it is repaired.
    new = {
        f"Helm release {each.namespace}/{each.release}"
        for each in plan.operators.charts
        if each.release not in applied.releases
    }
    there = (FieldDrift("", ABSENT, THERE),)
    objects = (
        replace(each, fields=there) if each.absent and each.name in new else each
        for each in found.objects
    )
    return replace(found, objects=tuple(objects), lost=lost_servers(plan, applied, seen))


def is_held(plan: ClusterPlan, drift: ClusterDrift) -> bool:
    """Whether this update leaves objects and charts as they are: the API of our cluster is dead.

    That of a cluster which is not ours refuses the update before.
    """
    ours = plan.kubernetes is not None and plan.kubernetes.existing is None
    return ours and drift.unreachable is not None


def hold_objects(plan: ClusterPlan, applied: Applied) -> ClusterPlan:
    """The plan with the objects and charts that are there already: no other can be made now."""

    def there(manifests: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
        return tuple(each for each in manifests if each.resource_name in applied.objects)

    operators = plan.operators
    charts = tuple(each for each in operators.charts if each.release in applied.releases)
    return replace(
        plan,
        operators=replace(operators, charts=charts, manifests=there(operators.manifests)),
        pod_network=replace(plan.pod_network, manifests=there(plan.pod_network.manifests)),
        jobs=replace(plan.jobs, manifests=there(plan.jobs.manifests)),
    )


def cluster_notes(
    plan: ClusterPlan, applied: Applied, drift: ClusterDrift, notes: Mapping[str, str]
) -> dict[str, str]:
    """The repair notes: the engine itself does not look at the cluster.

    Args:
        plan: The plan.
        applied: It has the last notes, which stay: an input that went away would be a change.
        drift: What was found.
        notes: Those of devices in this run: a node's own may say more.
    """
    found = dict(_object_notes(plan, applied, drift))
    for chart in plan.operators.charts:
        step, of_chart = restore_step_name(chart.release), _of_release(drift, chart.release)
        recorded = applied.step(step)
        last = str(parse_lines(recorded.stdin).get("repair", "")) if recorded else ""
        words = "; ".join(map(str, of_chart))[:_LONGEST]
        found[step] = next_note(last, words) if words else last
        found[chart.release] = _description(applied, drift, chart.release)
    for node in drift.absent_nodes:
        steps = (*plan.kubernetes.servers, *plan.kubernetes.agents) if plan.kubernetes else ()
        for step in steps:
            if node_in(step) == node:
                found[step.name] = next_note(
                    notes.get(step.name, ""), NodeTrouble("absent").words(node)
                )
    return {step: note for step, note in found.items() if note}


def _object_notes(
    plan: ClusterPlan, applied: Applied, drift: ClusterDrift
) -> Iterator[tuple[str, str]]:
    """What was found of each object; the last note of one that is as it was applied."""
    changed = {each.name: each for each in drift.objects if each.ours and not each.release}
    for each in manifests_of(plan):
        last = str(annotations_of(applied.objects.get(each.resource_name, {})).get(REPAIR, ""))
        metadata = cast("Body", each.body["metadata"])
        place = metadata.get("namespace", "default")
        names = (f"{each.body['kind']} {place}/{each.name}", f"{each.body['kind']} {each.name}")
        found = next((changed[name] for name in names if name in changed), None)
        if found is None:
            yield each.resource_name, last
            continue
        yield each.resource_name, next_note(last, str(found)[:_LONGEST])
        if (found.absent or each.body.get("immutable")) and not each.is_patch:
            yield each.resource_name + AGAIN, str(found)


def _of_release(drift: ClusterDrift, release: str) -> list[ObjectDrift]:
    return [each for each in drift.objects if each.release == release and each.ours]


def _description(applied: Applied, drift: ClusterDrift, release: str) -> str:
    """A release that is not deployed is upgraded again for the sake of its description."""
    last = str(applied.releases.get(release, {}).get("description") or "")
    status = drift.undeployed.get(release)
    return next_note(last, f"the release was {status}") if status else last
