"""What a cluster has already, in an update: what to look at, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from components.catalogue.cluster_parts import Part
from components.core.finding import Finding
from components.drift.applied import Applied
from components.kubernetes.calls import Calls, KubernetesCalls
from components.kubernetes.kubeconfig import choose_context
from components.kubernetes.manifest import Body, Manifest, map_at, name_of, pods_in
from components.kubernetes.parts.judge import judge_parts
from components.kubernetes.parts.look import PartsAsked, look_at_parts
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.operator_owned import toolkit_owner
from components.model.owners import owners_of, plugin_of
from components.plan.make import ClusterPlan
from components.pod_network.attachment import GPU, expected_allocatable
from components.pod_network.manifests import tolerations
from components.pod_network.plan import plan_pod_network
from components.update.cluster import manifests_of

_PREFIXES: Final[Mapping[str, Part]] = {
    "multus-": "multus",
    "whereabouts-": "whereabouts",
    "nv-ipam-": "nv_ipam",
    "sriov-cni-": "sriov_cni",
    "ib-sriov-cni-": "ib_sriov_cni",
    "ipoib-cni-": "ipoib_cni",
    "rdma-cni-": "rdma_cni",
    "tuning-cni-": "cni_plugins",
    "macvlan-cni-": "cni_plugins",
    "sbr-cni-": "cni_plugins",
    "static-cni-": "cni_plugins",
    "dhcp-cni-": "cni_plugins",
    "sriov-device-plugin-": "sriov_device_plugin",
    "rdma-shared-dp-ds-": "shared_device_plugin",
    "mpi-operator-": "mpi_operator",
}
"""How the name of a resource begins to the part that it is of."""
_SHARED: Final = frozenset({"Namespace", "PersistentVolume", "PersistentVolumeClaim"})
"""Kinds that may be there before us without a loss."""


def look_at_existing(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, kubeconfig: str
) -> tuple[Finding, ...]:
    """What an existing cluster has against what the site says; nothing for one of our own.

    Raises:
        DeviceError: The API does not answer, or refuses.
    """
    if plan.kubernetes is None or (existing := plan.kubernetes.existing) is None:
        return ()
    text = choose_context(kubeconfig, existing.context, plan.kubernetes.cluster)
    return judge_existing(spec, plan, applied, KubernetesCalls(text))


def judge_existing(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, calls: Calls
) -> tuple[Finding, ...]:
    """The same, over a connection that is there."""
    asked = asked_of_parts(spec, plan, applied)
    return judge_parts(asked, look_at_parts(calls, asked))


def parts_refused(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """Why an update must not start, in the words of a refusal."""
    return tuple(
        f"{each.device}: {each.what}\n  where  {each.actual}; wanted: {each.wanted}. Nothing was"
        f" changed.\n  fix    {each.fix}"
        for each in findings
        if each.severity == "problem"
    )


def asked_of_parts(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> PartsAsked:
    """What to look at in an existing cluster."""
    plane = spec.kubernetes
    return PartsAsked(
        owners=owners_of(spec),
        objects=tuple(
            (part_of(each), each.body)
            for each in manifests_of(plan)
            if not each.kind.endswith("Patch") and each.kind not in _SHARED
        ),
        attachments=tuple(_attachments_of_others(spec)),
        applied=frozenset(_key(body) for body in applied.objects.values() if "kind" in body),
        releases=frozenset(
            (str(each["namespace"]), str(each["name"])) for each in applied.releases.values()
        ),
        nodes=_resources(spec),
        tolerations=tuple(cast("list[Body]", tolerations(spec).get("tolerations") or [])),
        namespace=spec.pod_network.namespace,
        runtime_class=plane.runtime_class if isinstance(plane, ExistingPlane) else None,
        pods=tried_pods(plan),
        nri=spec.operators.gpu is not None and toolkit_owner(spec) == "operator",
    )


def part_of(manifest: Manifest) -> Part | None:
    """The part that an object of ours is of; None for what no part needs."""
    if manifest.kind == "NetworkAttachmentDefinition":
        return "attachments"
    name = manifest.resource_name
    return next((part for start, part in _PREFIXES.items() if name.startswith(start)), None)


def _key(body: Body) -> str:
    """As reports name an object: `DaemonSet kube-system/multus`."""
    namespace = map_at(body, "metadata").get("namespace")
    return f"{body['kind']} {f'{namespace}/' if namespace else ''}{name_of(body)}"


def _attachments_of_others(spec: ClusterSpec) -> Iterator[Body]:
    """Ours of a site that makes them itself: what those of others are compared with."""
    plane = spec.kubernetes
    if owners_of(spec)["attachments"] != "theirs" or not isinstance(plane, ExistingPlane):
        return
    parts = plane.components.model_copy(update={"attachments": "ours"})
    own = spec.model_copy(update={"kubernetes": plane.model_copy(update={"components": parts})})
    made = {name_of(each.body) for each in plan_pod_network(spec).manifests}
    for each in plan_pod_network(own).manifests:
        if each.kind == "NetworkAttachmentDefinition" and each.name not in made:
            yield each.body


def _resources(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """Node to the resources that others publish for this site."""
    owners = owners_of(spec)
    gpus = "theirs" in {owners["gpu_operator"], owners["gpu_device_plugin"]}
    cards = owners[plugin_of(spec)] == "theirs"
    names = {host.name: host.node for host in spec.workers}
    return {
        names[host]: {
            name: count for name, count in offered.items() if (gpus if name == GPU else cards)
        }
        for host, offered in expected_allocatable(spec).items()
    }


def tried_pods(plan: ClusterPlan) -> tuple[tuple[str, Body], ...]:
    """Of each namespace the pod that asks for most: a policy that lets it in lets in all."""
    found: dict[str, tuple[int, Body]] = {}
    jobs = (probe.job for probe in plan.acceptance.probes if probe.job)
    probes = (body for job in jobs for body in job.objects)
    for body in (*(each.body for each in manifests_of(plan)), *probes):
        namespace = str(map_at(body, "metadata").get("namespace") or "default")
        for pod in pods_in(body):
            asks = _asks(pod)
            if asks > found.get(namespace, (0, {}))[0]:
                found[namespace] = asks, _plain(pod)
    return tuple((namespace, pod) for namespace, (_, pod) in sorted(found.items()))


def _asks(pod: Body) -> int:
    """How much of the node a pod asks for: a policy of Kubernetes' own level refuses any of it."""
    text = str(pod)
    marks = ("'privileged': True", "'hostNetwork': True", "'hostPath'", "'IPC_LOCK'")
    return sum(mark in text for mark in marks)


def _plain(pod: Body) -> Body:
    """The pod as the account of its namespace would make it: ours may not be there yet."""
    return {
        key: value
        for key, value in pod.items()
        if key not in {"serviceAccountName", "imagePullSecrets", "priorityClassName"}
    }
