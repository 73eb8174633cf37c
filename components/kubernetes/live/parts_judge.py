"""Compare the cluster's parts with the site's description: plain findings. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from components.catalogue.cluster_parts import TABLE, ClusterPart, Part, version_in
from components.catalogue.operator_versions import nri_works
from components.core.problem import Finding, Severity, on_device
from components.kubernetes.live.look import CLUSTER
from components.kubernetes.live.parts_look import PartsAsked, PartsLook, Workload, managers_of
from components.kubernetes.live.why import state_of, troubles_of
from components.kubernetes.manifest import Body, list_at, map_at, name_of

RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
"""The annotation from which Multus learns a device's resource."""
_DECIDING: Final = ("type", "vlan", "master", "pkey")
"""Keys of a CNI configuration whose change puts a pod onto another network."""


def attachment_differences(want: Body, live: Body | None) -> tuple[str, ...]:
    """Why an attachment does not lead onto the rail; its owner chooses addresses."""
    if live is None:
        return ()
    return tuple(_differences(want, live))


def _differences(want: Body, live: Body) -> Iterator[str]:
    asked, found = _resource(want), _resource(live)
    if asked != found:
        yield f"{RESOURCE} is {found or 'absent'}, want {asked or 'none'}"
    ours, theirs = _main_plugin(want), _main_plugin(live)
    if theirs is None:
        yield "its configuration is not JSON"
        return
    for key in _DECIDING:
        value = (ours or {}).get(key)
        if theirs.get(key) != value:
            wanted = "none" if value is None else value
            yield f"{key} is {theirs.get(key, 'absent')}, want {wanted}"
    mtu, least = _mtu(live), _mtu(want)
    if mtu and least and mtu < least:
        yield f"mtu is {mtu}, want {least}"


def _resource(body: Body) -> str:
    return str(map_at(body, "metadata", "annotations").get(RESOURCE, ""))


def _plugins(body: Body) -> list[Mapping[str, Any]] | None:
    text = map_at(body, "spec").get("config") or ""
    try:
        document: object = json.loads(text)
    except ValueError:
        return None
    return list_at(document, "plugins") or [map_at(document)]


def _main_plugin(body: Body) -> Mapping[str, Any] | None:
    plugins = _plugins(body)
    return plugins[0] if plugins else None


def _mtu(body: Body) -> int:
    return max((int(each["mtu"]) for each in _plugins(body) or [] if each.get("mtu")), default=0)


_OPERANDS: Final[Mapping[str, Part]] = {
    "ClusterPolicy": "gpu_operator",
    "NicClusterPolicy": "network_operator",
}
"""Kind of the owner of an operator's workloads, to that operator."""
_OURS: Final = "pulumi-kubernetes"
"""Prefix of the manager of an object that an update made and failed to record."""
_MAJOR: Final = re.compile(r"v?(\d+)\.")
_POLICIES: Final = "pod-security.kubernetes.io/enforce"


def judge_parts(asked: PartsAsked, look: PartsLook) -> tuple[Finding, ...]:
    """Each part that differs from the site's description, in the order of the table."""
    found = [*_nodes(asked, look), *_namespace(asked, look), *_habits(asked, look)]
    for part, owner in asked.owners.items():
        if owner == "ours":
            found += _ours(asked, look, part)
        elif owner == "theirs":
            found += _theirs(asked, look, part)
    return (*found, *_taken_over(asked, look, None, "an object of this site"))


def _finding(
    cause: str, what: str, actual: str, wanted: str, fix: str, severity: Severity = "error"
) -> Finding:
    return on_device(CLUSTER, cause, what, actual, wanted, fix).rated(severity)


def _nodes(asked: PartsAsked, look: PartsLook) -> Iterator[Finding]:
    absent = [name for name in asked.nodes if name not in look.nodes]
    if absent:
        yield _finding(
            "node-name",
            "the cluster lacks a node with that name.",
            f"no {', '.join(absent)}; there are {', '.join(sorted(look.nodes)) or 'none'}",
            "each worker is a node",
            "write the node's own name as hosts[].node_name: `kubectl get nodes` shows it",
        )
    for name in asked.nodes:
        for trouble in (
            troubles_of(look.nodes[name], asked.tolerations) if name not in absent else ()
        ):
            yield _finding(
                "node-closed",
                "a node refuses the pods of jobs.",
                trouble.words(name),
                "a node that takes them",
                "open it, or write the taint under kubernetes.tolerations",
                "warning",
            )


def _namespace(asked: PartsAsked, look: PartsLook) -> Iterator[Finding]:
    if asked.namespace and asked.namespace not in look.namespaces:
        yield _finding(
            "namespace",
            "the namespace of jobs is not there.",
            f"no namespace {asked.namespace}",
            "the namespace of pod_network.namespace",
            f"kubectl create namespace {asked.namespace}",
        )
    if asked.runtime_class is not None and asked.runtime_class not in look.runtime_classes:
        there = ", ".join(sorted(look.runtime_classes)) or "none"
        yield _finding(
            "runtime-class",
            "the RuntimeClass of pods with GPUs is not there.",
            f"no RuntimeClass {asked.runtime_class}; there are {there}",
            "the one of kubernetes.runtime_class",
            "write an existing one, or install NVIDIA's container toolkit on the nodes",
        )
    for namespace, why in look.forbidden.items():
        yield _finding(
            "pod-policy",
            f"a policy forbids pods of this site in {namespace}.",
            why,
            "pods that may use the node's devices, network and locked memory",
            f"kubectl label --overwrite namespace {namespace} {_POLICIES}=privileged, or add an "
            "exception to the policy above",
        )


def _habits(asked: PartsAsked, look: PartsLook) -> Iterator[Finding]:
    """Settings in the cluster, made by others, that break a complete installation."""
    outside = [name for name in asked.nodes if not nri_works(_runtime(look.nodes.get(name, {})))]
    if asked.nri and outside:
        yield _finding(
            "runtime-nri",
            "the GPU operator's toolkit does not work with the nodes' container runtime.",
            ", ".join(f"{name} has {_runtime(look.nodes[name])}" for name in outside),
            "containerd 1.7.30, a later 1.7, or 2.1 and later; CRI-O 1.34 and later",
            "upgrade the runtime, or bring NVIDIA's container toolkit with the node's image and set"
            " host_defaults.toolkit: {kind: present}",
        )
    attaches = asked.attachments or any(part == "attachments" for part, _ in asked.objects)
    if attaches and look.cilium.get("cni-exclusive") == "true":
        yield _finding(
            "cilium-exclusive",
            "Cilium takes the configuration of Multus away.",
            "cni-exclusive is true in ConfigMap kube-system/cilium-config",
            "false: Cilium renames 00-multus.conf, and pods get no network of a rail",
            "set cni.exclusive: false in Cilium's Helm values, and restart its agents",
        )
    for namespace in dict.fromkeys((asked.namespace, *(name for name, _ in asked.pods))):
        if label := look.meshed.get(namespace):
            yield _finding(
                "service-mesh",
                f"a service mesh puts a sidecar into each pod of {namespace}.",
                f"the namespace has the label {label}",
                "none: a sidecar takes over the connections by which ranks find each other",
                f"kubectl label namespace {namespace} {label.partition('=')[0]}-, or choose another"
                " pod_network.namespace",
            )


def _runtime(node: Body) -> str:
    return str(map_at(node, "status", "nodeInfo").get("containerRuntimeVersion") or "")


def _ours(asked: PartsAsked, look: PartsLook, part: Part) -> Iterator[Finding]:
    """Report a second installation of a part that we install."""
    row = TABLE[part]
    foreign = [
        each
        for each in look.workloads
        if each.part == part and not row.shared and not _is_ours(asked, each)
    ]
    if foreign:
        yield _finding(
            f"{part}-foreign",
            f"the file lets Railyard install {row.title}, but the cluster already runs another "
            "one.",
            ", ".join(f"{each.key} ({_version(each)})" for each in foreign),
            "only Railyard's: two would undo each other's work",
            f"write kubernetes.components.{part}: theirs, or uninstall it first",
        )
    else:
        yield from _taken_over(asked, look, part, row.title)


def _is_applied(asked: PartsAsked, workload: Workload) -> bool:
    return str(workload.key) in asked.applied or workload.release in asked.releases


def _is_ours(asked: PartsAsked, workload: Workload) -> bool:
    if _is_applied(asked, workload):
        return True
    for kind, operator in _OPERANDS.items():
        if kind in workload.owners and asked.owners[operator] == "ours":
            return True
    planned = {(str(body["kind"]), name_of(body)) for _, body in asked.objects}
    named = (workload.key.kind, workload.key.name) in planned
    return named and _by_us(workload.managers)


def _by_us(managers: frozenset[str]) -> bool:
    return any(name.startswith(_OURS) for name in managers)


def _taken_over(
    asked: PartsAsked, look: PartsLook, part: Part | None, title: str
) -> Iterator[Finding]:
    """Objects that an update would overwrite although it did not make them."""
    parts = {id(body): of for of, body in asked.objects}
    names = [
        str(key)
        for key, want, live in look.live.objects
        if live is not None
        and parts.get(id(want)) == part
        and str(key) not in asked.applied
        and not _by_us(managers_of(live))
    ]
    if names:
        yield _finding(
            f"{part or 'object'}-there",
            f"the file lets Railyard install {title}, but the cluster already has objects with its "
            "names.",
            ", ".join(names),
            "no objects with these names: an update would overwrite them",
            f"write kubernetes.components.{part}: theirs, or delete them"
            if part
            else "delete them, or rename the objects with their names",
        )


def _theirs(asked: PartsAsked, look: PartsLook, part: Part) -> Iterator[Finding]:
    row = TABLE[part]
    workloads = [
        each for each in look.workloads if each.part == part and not _is_applied(asked, each)
    ]
    if part == "attachments":
        yield from _attachments(look)
        return
    lacking = [each for each in row.definitions if each.version not in _versions(look, each.name)]
    if not workloads:
        yield from _absent(row, part)
    for each in lacking:
        versions = ", ".join(sorted(_versions(look, each.name))) or "nothing"
        yield _finding(
            f"{part}-definition",
            f"{row.title} is theirs, and does not serve what this site writes.",
            f"{each.name} serves {versions}",
            each.version,
            f"bring {row.title} to {row.known or 'a release with it'}, or write {part}: ours",
        )
    for workload in workloads:
        yield from _one_of_theirs(row, part, workload)
    yield from _policies(look, row, part)
    if row.publishes:
        yield from _resources(asked, look, part, workloads)


def _versions(look: PartsLook, name: str) -> frozenset[str]:
    return look.definitions.get(name, frozenset())


def _absent(row: ClusterPart, part: Part) -> Iterator[Finding]:
    """Report a missing part; its program may be on the nodes without a pod."""
    unseen = not row.definitions and not row.publishes and row.status is None
    yield _finding(
        f"{part}-absent",
        f"{row.title} is theirs, and is not seen."
        if unseen
        else f"{row.title} is theirs, and is not there.",
        f"no DaemonSet or Deployment of {' or '.join(row.images)}",
        "its program in the nodes' CNI folder" if unseen else f"{row.title}, ready",
        f"look for it on a node, or write kubernetes.components.{part}: ours"
        if unseen
        else f"install it, or write kubernetes.components.{part}: ours",
        "warning" if unseen else "error",
    )


def _one_of_theirs(row: ClusterPart, part: Part, workload: Workload) -> Iterator[Finding]:
    if workload.state:
        why = f" ({'; '.join(workload.why)})" if workload.why else ""
        yield _finding(
            f"{part}-not-ready",
            f"{row.title} is theirs, and is not ready.",
            f"{workload.key}: {workload.state}{why}",
            "all of its pods ready",
            "mend it, or wait until it is ready",
        )
    found, known = _MAJOR.match(version_in(workload.image)), _MAJOR.match(row.known)
    if found and known and found[1] != known[1]:
        yield _finding(
            f"{part}-version",
            f"{row.title} is theirs, and of a release that Railyard was not made with.",
            f"{workload.key}: {_version(workload)}",
            row.known,
            "read its release notes; acceptance proves what works",
            "warning",
        )


def _version(workload: Workload) -> str:
    return workload.image.rpartition("/")[2]


def _policies(look: PartsLook, row: ClusterPart, part: Part) -> Iterator[Finding]:
    if row.status is None:
        return
    policies = look.states.get(part, ())
    states = [(each, state_of(each)) for each in policies]
    words = [f"{row.status.kind} {name_of(each)}: {state}" for each, state in states if state]
    if words or not policies:
        yield _finding(
            f"{part}-policy",
            f"{row.title} is theirs, and has not done its work.",
            "; ".join(words) or f"no {row.status.kind}",
            f"one {row.status.kind} whose state is ready",
            "look at its operator's log, and at the pods that it starts",
        )


def _resources(
    asked: PartsAsked, look: PartsLook, part: Part, workloads: list[Workload]
) -> Iterator[Finding]:
    """Check that each node publishes the pods' resources, or will once its devices exist."""
    gpus = part in {"gpu_device_plugin", "gpu_operator"}
    configured = {name for each in workloads for name in each.publishes}
    lacking: dict[str, list[str]] = {}
    for node, wanted in asked.nodes.items():
        offered = _allocatable(look.nodes.get(node, {}))
        for name in wanted:
            mine = name.startswith("nvidia.com/gpu") == gpus
            if mine and not offered.get(name) and name.rpartition("/")[2] not in configured:
                lacking.setdefault(name, []).append(node)
    for name, nodes in lacking.items():
        offered = _allocatable(look.nodes.get(nodes[0], {}))
        there = sorted(each for each in offered if "/" in each)
        names = sorted(configured) or there
        yield _finding(
            f"{part}-resource",
            f"{TABLE[part].title} belongs to its owner, but it does not publish {name}.",
            f"none on {', '.join(nodes)}; it has {', '.join(names) or 'nothing'}",
            f"{name} on each node",
            "write its names as rails[].resource and pod_network.resource_prefix, or let it "
            "publish the names of the file",
        )


def _allocatable(node: Mapping[str, Any]) -> dict[str, int]:
    offered = map_at(node, "status", "allocatable")
    counts = {name: str(count) for name, count in offered.items()}
    return {name: int(count) for name, count in counts.items() if count.isdigit() and int(count)}


def _attachments(look: PartsLook) -> Iterator[Finding]:
    for key, want, live in look.attachments.objects:
        differs = attachment_differences(want, live)
        if live is None or differs:
            yield _finding(
                "attachments-absent" if live is None else "attachments-differ",
                "the file leaves the attachment of a rail to its owner, but the cluster lacks it."
                if live is None
                else "the attachment of a rail, which its owner made, does not fit the site.",
                f"no {key}" if live is None else f"{key}: {'; '.join(differs)}",
                "the one that jobs of this site ask for",
                "ask its owner to correct it, or write kubernetes.components.attachments: ours",
            )
