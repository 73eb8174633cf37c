"""The upgrades of K3s in an update: what each node runs, what is refused, what a preview says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from components.core.key_values import split_key
from components.core.problem import Lines, Place, SpecPath, render_path
from components.disruption.plan import chosen, due, judge_versions, recorded_release
from components.disruption.upgrade import release_of
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift
from components.kubernetes.calls import Body
from components.kubernetes.live.judge import ClusterLook
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.update.seen import Seen

_VERSION: Final = ("kubernetes", "version")


def node_versions(plan: ClusterPlan, applied: Applied, seen: Seen) -> dict[str, str]:
    """Node to its release: as its kubelet reports it, else as it was last installed."""
    live: Mapping[str, Body] = seen.cluster.nodes if isinstance(seen.cluster, ClusterLook) else {}
    found: dict[str, str] = {}
    for step in (step for group in plan.upgrades for step in group.steps):
        name = step.request.name
        installed = recorded_release(applied, step.install)
        release = release_of(live.get(step.request.node_name, {})) if installed else ""
        if release or installed:
            found[name] = release or installed
    return found


def choose_upgrades(
    plan: ClusterPlan, applied: Applied, seen: Seen, drifts: Collection[DeviceDrift]
) -> ClusterPlan:
    """The plan with the upgrades of this update alone."""
    recreated = {drift.step for drift in drifts if drift.differences}
    new = {
        each.name
        for each in (plan.cloud.instances if plan.cloud else ())
        if recreated & {each.create, each.step}
    }
    groups = chosen(plan.upgrades, applied, node_versions(plan, applied, seen), new)
    return plan.with_upgrades(groups)


def with_ahead(
    plan: ClusterPlan, drifts: tuple[DeviceDrift, ...], applied: Applied
) -> tuple[DeviceDrift, ...]:
    """Tell nodes that an upgrade reached which did not end: what it set there is no drift."""
    if plan.kubernetes is None:
        return drifts
    now = plan.kubernetes.version
    watched = {each.step.name: each for each in plan.kubernetes.watched_nodes}
    upgraded = {
        step.install
        for group in chosen(plan.upgrades, applied, {})
        for step in group.steps
        if recorded_release(applied, step.install) != step.request.version
    }

    def told(drift: DeviceDrift) -> DeviceDrift:
        if drift.step not in upgraded:
            return drift
        settings = watched[drift.step].desired.values
        wanted = {split_key(key): value for key, value in settings.items()}
        left = tuple(
            each
            for each in drift.differences
            if each.actual != wanted.get((each.where, each.setting))
        )
        if len(left) == len(drift.differences):
            return drift
        was = recorded_release(applied, drift.step)
        words = f"it has K3s {now}, and {was} was last recorded: `pulumi up` ends the upgrade"
        return replace(drift, differences=left, ahead=words)

    return tuple(map(told, drifts))


def upgrades_refused(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, seen: Seen, lines: Lines
) -> tuple[str, ...]:
    """Refuse a release that the nodes cannot reach, and an upgrade that the file denies."""
    if plan.kubernetes is None or not plan.upgrades:
        return ()
    versions = node_versions(plan, applied, seen)
    groups = due(chosen(plan.upgrades, applied, versions))
    wanted = plan.kubernetes.version
    problem = judge_versions(versions, wanted)
    if problem is not None:
        where = place_of(lines, _VERSION, wanted)
        refused = f"kubernetes-version: {problem.what}\n  where  {where}\n  fix    {problem.fix}."
        return (f"{refused} Nothing was changed on any device.",)
    if not groups or spec.disruption.reboots == "allow":
        return ()
    names = ", ".join(name for group in groups for name in group.nodes)
    path = ("disruption", "reboots")
    upgraded = any(versions.get(name) != wanted for group in groups for name in group.nodes)
    what = f"upgraded to K3s {wanted}" if upgraded else "restarted with another alignment"
    key = "kubernetes.version" if upgraded else "kubernetes.alignment"
    words = (
        f"disruption: {names} would be {what}, each of them out of service meanwhile\n"
        f"  where  {place_of(lines, path, spec.disruption.reboots)}\n"
        "  fix    plan a window and set disruption.reboots to allow, or take the edit of"
        f" {key} back ({place_of(lines, _VERSION, wanted)})"
    )
    return (words,)


def place_of(lines: Lines, path: SpecPath, value: str) -> str:
    """File, line, path and value, as far as they are known."""
    found = lines.locate(Place(path, value))
    at = f"{found.file}:{found.line}  " if found.file and found.line else ""
    return f"{at}{render_path(path)} = {value}"


def describe_upgrades(plan: ClusterPlan, versions: Mapping[str, str]) -> tuple[str, ...]:
    """What the upgrades of this update interrupt, in the order in which the nodes go."""
    groups, said = due(plan.upgrades), list[str]()
    only = plan.kubernetes is not None and len(plan.kubernetes.servers) == 1
    for number, group in enumerate(groups, 1):
        for step in group.steps:
            name, request = step.request.name, step.request
            was = versions.get(name, "of an unknown release")
            way = f"K3s {was} -> {request.version}"
            if was == request.version:
                way = f"K3s starts again with its kubelet's {request.kubelet or 'own alignment'}"
            if request.role == "worker":
                what = "it is drained first, and its jobs end or move"
            elif only:
                what = "it is the only server: the API is away while K3s starts again; jobs go on"
            else:
                what = "the other servers answer while K3s starts again on it; jobs go on"
            verb = "RESTARTED" if was == request.version else "UPGRADED"
            said.append(f"WILL BE {verb} (group {number} of {len(groups)}): {name}: {way}; {what}")
    return tuple(said)
