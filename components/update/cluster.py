"""Choose the Kubernetes objects that an update reads, judge them, and write their repair notes.

For an existing cluster, also refuse conflicting parts that others installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, get_args

from components.catalogue.cluster_parts import Part
from components.core.difference import ABSENT
from components.core.errors import DeviceError
from components.core.problem import Finding
from components.core.templates import fault_text
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable, next_note
from components.kubernetes import manifest
from components.kubernetes.client import Calls, KubernetesCalls
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.live.compare import THERE, FieldDrift
from components.kubernetes.live.look import Asked, ClusterDrift, judge_look
from components.kubernetes.live.parts import PartsAsked, judge_parts, look_at_parts
from components.kubernetes.live.read import ReleaseRef
from components.kubernetes.live.why import NodeTrouble
from components.kubernetes.manifest import Body, Manifest, list_at, map_at, name_of, pods_in
from components.kubernetes.planes.base import KubernetesPlan, node_in
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.owners import Program, owners_of, part_of_program, plugin_of, toolkit_owner
from components.operators.restore import restore_step_name
from components.plan.make import ClusterPlan
from components.pod_network.attachment import GPU, expected_allocatable
from components.pod_network.manifests import tolerations
from components.pod_network.pod_network_plan import plan_pod_network
from components.remote.lines import parse_lines
from components.update.proof import is_edited
from components.update.seen import Seen
from components.update.servers import lost_servers

_OF_DISTRIBUTION: Final = "kube-system"
"""Its quotas and policies come with the distribution, and probe pods do not run there."""
_LONGEST: Final = 400
"""Characters of a repair note, which a preview shows."""
_PREFIXES: Final[Mapping[str, Part]] = {
    "multus-": "multus",
    "whereabouts-": "whereabouts",
    "nv-ipam-": "nv_ipam",
    "sriov-device-plugin-": "sriov_device_plugin",
    "rdma-shared-dp-ds-": "shared_device_plugin",
    "mpi-operator-": "mpi_operator",
    **{f"{name}-cni-": part_of_program(name) for name in get_args(Program)},
}
"""Start of a resource name to the part that the resource belongs to."""
_SHARED: Final = frozenset({"Namespace", "PersistentVolume", "PersistentVolumeClaim"})
"""Kinds that may safely exist before the first update."""
_DEMANDS: Final = ("'privileged': True", "'hostNetwork': True", "'hostPath'", "'IPC_LOCK'")
"""Demands of a pod on its node. Policies refuse them."""
_NOT_YET: Final = frozenset(
    {"serviceAccountName", "imagePullSecrets", "priorityClassName", "runtimeClassName"}
)


def asked_of_cluster(
    plan: ClusterPlan, applied: Applied, secrets: Mapping[str, str]
) -> Asked | None:
    """Return the objects to read, as last applied; None if nothing was applied.

    If the last proof has the same plan, the plan was applied, also after a refresh. Otherwise the
    state's record counts. The secrets contain the login of a registry.
    """
    if plan.kubernetes is None or not (applied.objects or applied.releases):
        return None
    acceptance, charts = plan.acceptance, plan.operators.charts
    if is_edited(plan, applied):
        every = applied.objects.values()
        objects = tuple(e for e in every if "kind" in e and "name" in map_at(e, "metadata"))
        names = [(str(e["name"]), str(e["namespace"])) for e in applied.releases.values()]
    else:
        # `watch` is not in the digest: its edit in the file is no drift.
        watch = {each.resource_name for each in plan.jobs.watch}
        made = [each.body for each in plan.manifests if each.resource_name not in watch]
        made += [body for name, body in applied.objects.items() if name in watch]
        account = plan.kubernetes.registry
        if account is not None and account.secret in secrets:
            value = manifest.login_value(account, secrets[account.secret])
            login: Body = {"data": dict.fromkeys(manifest.LOGIN_DATA, value)}
            made = [b | login if b.get("data") == manifest.LOGIN_DATA else b for b in made]
        objects = tuple(made)
        names = [(chart.release, chart.namespace) for chart in charts]
    jobs = (body for probe in acceptance.probes if probe.job for body in probe.job.objects)
    # Probe pods do not run in the distribution's own namespace.
    namespaces = {
        str(map_at(body, "metadata").get("namespace", "default"))
        for body in (*objects, *acceptance.memlock, *jobs)
        if [*pods_in(body)]
    }
    namespaces = {*namespaces, *(chart.namespace for chart in charts)} - {_OF_DISTRIBUTION}
    nodes = plan.kubernetes.own_nodes
    if plan.kubernetes.existing is not None:
        nodes = tuple(acceptance.nodes.get(name, name) for name in acceptance.workers)
    pods = (pod for body in acceptance.memlock for pod in pods_in(body))
    return Asked(
        objects=objects,
        releases=tuple(ReleaseRef(*each) for each in names),
        nodes=nodes,
        namespaces=tuple(sorted(namespaces)),
        tolerations=tuple(dict(each) for pod in pods for each in list_at(pod, "tolerations")),
    )


def judge_cluster(plan: ClusterPlan, applied: Applied, seen: Seen) -> ClusterDrift:
    """Compare the cluster with its last applied state, and find lost servers and balancers."""
    if isinstance(seen.cluster, Unreachable):
        found = ClusterDrift(unreachable=seen.cluster.reason)
    else:
        found = judge_look(seen.cluster) if seen.cluster is not None else ClusterDrift()
    # The engine installs a chart that the state lost in a refresh, so it counts as repaired.
    lost = (each for each in plan.operators.charts if each.release not in applied.releases)
    new = {str(ReleaseRef(each.release, each.namespace)) for each in lost}
    there = (FieldDrift("", ABSENT, THERE),)
    objects = (
        replace(each, fields=there) if each.absent and each.name in new else each
        for each in found.objects
    )
    return replace(found, objects=tuple(objects), lost=lost_servers(plan, applied, seen))


def is_held(plan: ClusterPlan, drift: ClusterDrift) -> bool:
    """Whether this update skips objects and charts because our own cluster's API is dead."""
    # A dead API of an existing cluster refuses the update earlier.
    ours = plan.kubernetes is not None and plan.kubernetes.existing is None
    return ours and drift.unreachable is not None


def hold_objects(plan: ClusterPlan, applied: Applied) -> ClusterPlan:
    """Keep only objects and charts that exist already, since no new ones can be made now."""

    def there(manifests: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
        return tuple(each for each in manifests if each.resource_name in applied.objects)

    operators = plan.operators
    charts = tuple(each for each in operators.charts if each.release in applied.releases)
    return replace(
        plan,
        operators=replace(operators, charts=charts, manifests=there(operators.manifests)),
        pod_network=replace(plan.pod_network, manifests=there(plan.pod_network.manifests)),
        jobs=replace(plan.jobs, manifests=there(plan.jobs.manifests), watch=there(plan.jobs.watch)),
    )


def cluster_notes(
    plan: ClusterPlan, applied: Applied, drift: ClusterDrift, notes: Mapping[str, str]
) -> dict[str, str]:
    """Return the repair notes for the cluster, which the engine itself does not read.

    The last notes of `applied` stay, since a removed input would be a change. A node's own note in
    `notes` may say more.
    """
    found: dict[str, str] = {}
    changed = {each.name: each for each in drift.objects if each.ours and not each.release}
    for each in plan.manifests:
        was = manifest.annotations_of(applied.objects.get(each.resource_name, {}))
        found[each.resource_name] = last = str(was.get(manifest.REPAIR, ""))
        place = map_at(each.body, "metadata").get("namespace", "default")
        names = (f"{each.body['kind']} {place}/{each.name}", f"{each.body['kind']} {each.name}")
        if (other := next((changed[name] for name in names if name in changed), None)) is None:
            continue
        found[each.resource_name] = next_note(last, str(other)[:_LONGEST])
        if (other.absent or each.body.get("immutable")) and not each.is_patch:
            found[each.resource_name + manifest.AGAIN] = str(other)
    for chart in plan.operators.charts:
        step = restore_step_name(chart.release)
        own = [each for each in drift.objects if each.release == chart.release and each.ours]
        last = str(parse_lines(applied.stdin(step)).get("repair", ""))
        words = "; ".join(map(str, own))[:_LONGEST]
        found[step] = next_note(last, words) if words else last
        # With a new description, the engine upgrades an undeployed release again.
        description = str(applied.releases.get(chart.release, {}).get("description") or "")
        if status := drift.undeployed.get(chart.release):
            description = next_note(description, f"the release was {status}")
        found[chart.release] = description
    for step in plan.kubernetes.installs if plan.kubernetes and drift.absent_nodes else ():
        if (node := node_in(step)) in drift.absent_nodes:
            words = NodeTrouble("absent").words(node)
            found[step.name] = next_note(notes.get(step.name, ""), words)
    return {step: note for step, note in found.items() if note}


def open_existing(
    plan: KubernetesPlan | None, secrets: Mapping[str, str]
) -> KubernetesCalls | None:
    """Open the API of an existing cluster; None for one of our own, and without a kubeconfig.

    DeviceError: a kubeconfig or context that cannot be used, or another minor version.
    """
    existing = plan.existing if plan is not None else None
    kubeconfig = secrets.get(existing.kubeconfig_secret) if existing is not None else None
    if plan is None or existing is None or not kubeconfig:
        return None
    calls = KubernetesCalls(choose_context(kubeconfig, existing.context, plan.cluster))
    answer = calls.call("GET", "/version")
    found = str(answer.body.get("gitVersion") or "")
    if not found:
        words = f"{answer.status} {answer.words}"
        raise DeviceError(f"the existing cluster refuses the kubeconfig: {words}")
    if minor_of(found) != minor_of(plan.version):
        raise DeviceError(fault_text(__file__, "other-version", found=found, wanted=plan.version))
    return calls


def minor_of(version: str) -> tuple[int, int] | None:
    """Return major and minor of a version such as `v1.36.3+k3s1`; None for another text."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def judge_existing(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, calls: Calls
) -> tuple[Finding, ...]:
    """Judge the parts of an existing cluster against the site."""
    asked = asked_of_parts(spec, plan, applied)
    return judge_parts(asked, look_at_parts(calls, asked))


def asked_of_parts(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> PartsAsked:
    """Return the parts to read in an existing cluster."""
    plane, owners = spec.kubernetes, owners_of(spec)
    gpus = "theirs" in {owners["gpu_operator"], owners["gpu_device_plugin"]}
    cards = owners[plugin_of(spec)] == "theirs"
    names = {host.name: host.node for host in spec.workers}
    attachments: list[Body] = []  # that Railyard would make, to compare with the site's own ones
    if owners["attachments"] == "theirs" and isinstance(plane, ExistingPlane):
        parts = plane.components.model_copy(update={"attachments": "ours"})
        ours = plane.model_copy(update={"components": parts})
        made = {name_of(each.body) for each in plan_pod_network(spec).manifests}
        attachments += (
            each.body
            for each in plan_pod_network(spec.model_copy(update={"kubernetes": ours})).manifests
            if each.kind == "NetworkAttachmentDefinition" and each.name not in made
        )
    return PartsAsked(
        owners=owners,
        objects=tuple(
            (part_of(each), each.body)
            for each in plan.manifests
            if not each.kind.endswith("Patch") and each.kind not in _SHARED
        ),
        attachments=tuple(attachments),
        applied=frozenset(
            f"{body['kind']} {f'{place}/' if place else ''}{name_of(body)}"
            for body in applied.objects.values()
            for place in (map_at(body, "metadata").get("namespace"),)
            if "kind" in body
        ),
        releases=frozenset(
            (str(each["namespace"]), str(each["name"])) for each in applied.releases.values()
        ),
        nodes={  # the resources that others publish for this site
            names[host]: {
                name: count for name, count in offered.items() if (gpus if name == GPU else cards)
            }
            for host, offered in expected_allocatable(spec).items()
        },
        tolerations=tuple(map(dict, list_at(tolerations(spec), "tolerations"))),
        namespace=spec.pod_network.namespace,
        runtime_class=plane.runtime_class if isinstance(plane, ExistingPlane) else None,
        pods=tried_pods(plan),
        nri=spec.operators.gpu is not None and toolkit_owner(spec) == "operator",
    )


def part_of(made: Manifest) -> Part | None:
    """Return the part that one of our objects belongs to, or None."""
    if made.kind == "NetworkAttachmentDefinition":
        return "attachments"
    name = made.resource_name
    return next((part for start, part in _PREFIXES.items() if name.startswith(start)), None)


def tried_pods(plan: ClusterPlan) -> tuple[tuple[str, Body], ...]:
    """Return the most demanding pod of each namespace: a policy that admits it admits all.

    Each is as the default account makes it, since our account does not exist before the first
    update, and without a RuntimeClass: another finding names a missing one.
    """
    found: dict[str, tuple[int, Body]] = {}
    jobs = (probe.job for probe in plan.acceptance.probes if probe.job)
    probes = (body for job in jobs for body in job.objects)
    for body in (*(each.body for each in plan.manifests), *probes):
        namespace = str(map_at(body, "metadata").get("namespace") or "default")
        for pod in pods_in(body):
            asks = sum(mark in str(pod) for mark in _DEMANDS)
            if asks > found.get(namespace, (0, {}))[0]:
                plain = {key: value for key, value in pod.items() if key not in _NOT_YET}
                found[namespace] = asks, plain
    return tuple((namespace, pod) for namespace, (_, pod) in sorted(found.items()))
