"""The parts of an existing cluster: read once, without changes, and compared with the site."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

from components.catalogue.cluster_parts import TABLE, Part, Status, part_of_image, version_in
from components.catalogue.operator_versions import nri_works
from components.core.problem import Finding
from components.core.record import field, record
from components.core.templates import finding_of
from components.kubernetes.client import Calls
from components.kubernetes.live.look import CLUSTER, why_not_ready
from components.kubernetes.live.read import Key, Live, Reader
from components.kubernetes.live.why import state_of, troubles_of
from components.kubernetes.manifest import Body, containers_in, list_at, map_at, name_of
from components.model.kubernetes import Owner

_WORKLOADS: Final = {kind: f"/apis/apps/v1/{kind.lower()}s" for kind in ("DaemonSet", "Deployment")}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NODES: Final = "/api/v1/nodes"
_NAMESPACES: Final = "/api/v1/namespaces"
_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_CILIUM: Final = f"{_NAMESPACES}/kube-system/configmaps/cilium-config"
_MESHES: Final = tuple(f"kuma.io/sidecar-injection={on}" for on in ("enabled", "true", "yes"))
"""Namespace labels by which a mesh takes pods that do not decline it. Our pods decline Istio and
Linkerd (components/jobs/templates.py). Kuma's releases differ in how a pod declines it, by a label
or by an annotation; each release takes three words for yes (kumahq/kuma,
`pkg/plugins/runtime/k8s/metadata/annotations.go`)."""
RESOURCE: Final = "k8s.v1.cni.cncf.io/resourceName"
"""The annotation from which Multus learns a device's resource."""
_DECIDING: Final = ("type", "vlan", "master", "pkey")
"""Keys of a CNI configuration whose change puts a pod onto another network."""
_OPERANDS: Final[Mapping[str, Part]] = {
    "ClusterPolicy": "gpu_operator",
    "NicClusterPolicy": "network_operator",
}
"""Kind of the owner of an operator's workloads, to that operator."""
_OURS: Final = "pulumi-kubernetes"
"""Prefix of the manager of an object that an update made and failed to record."""
_MAJOR: Final = re.compile(r"v?(\d+)\.")


@record
class PartsAsked:
    """The parts to read, and the objects that the site makes from each."""

    owners: Mapping[Part, Owner]
    objects: tuple[tuple[Part | None, Body], ...] = field(default=(), repr=False)
    """The objects of the plan, each with its part."""
    attachments: tuple[Body, ...] = field(default=(), repr=False)
    """The attachments that others should provide, as Railyard would make them."""
    applied: frozenset[str] = frozenset()
    """Objects that this stack made already: `DaemonSet kube-system/multus`."""
    releases: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of Helm releases of this stack."""
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Node to the resources that others publish there for this site."""
    tolerations: tuple[Body, ...] = ()
    namespace: str = ""
    """Namespace of jobs; it must exist."""
    runtime_class: str | None = None
    pods: tuple[tuple[str, Body], ...] = field(default=(), repr=False)
    """Namespace and spec of our pods that a policy may forbid."""
    nri: bool = False
    """The GPU operator's toolkit works through NRI of containerd."""


@record
class Workload:
    """A DaemonSet or Deployment that runs a part."""

    key: Key
    part: Part
    image: str
    state: str
    """Why it is not ready; empty if it is."""
    why: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()
    """Kinds of its owner: an operator's policy."""
    release: tuple[str, str] | None = None
    """Namespace and name of its Helm release."""
    managers: frozenset[str] = frozenset()
    publishes: frozenset[str] = frozenset()
    """Resources in its configuration, without prefix."""


@record
class PartsLook:
    """The parts as read from the cluster."""

    workloads: tuple[Workload, ...] = ()
    definitions: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Definition to the versions that it serves."""
    states: Mapping[Part, tuple[Body, ...]] = field(default_factory=dict[Part, tuple[Body, ...]])
    """Operator to its policies."""
    live: Live = field(default_factory=Live, repr=False)
    attachments: Live = field(default_factory=Live, repr=False)
    nodes: Mapping[str, Body] = field(default_factory=dict[str, Body], repr=False)
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()
    forbidden: Mapping[str, str] = field(default_factory=dict[str, str])
    """Namespace to why a policy forbids one of our pods there."""
    meshed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Namespace to the label by which a service mesh puts a sidecar into each pod there."""
    cilium: Mapping[str, str] = field(default_factory=dict[str, str])
    """The settings of Cilium's agents; empty without Cilium."""


def look_at_parts(calls: Calls, asked: PartsAsked) -> PartsLook:
    """Read the requested parts; a dry run of pods changes nothing."""
    reader = Reader(calls)
    policies: dict[Part, Status] = {
        part: row.status
        for part, row in TABLE.items()
        if row.status is not None and asked.owners[part] == "theirs"
    }
    paths = [*_WORKLOADS.values(), _DEFINITIONS, _NODES, _NAMESPACES, _CLASSES]
    lists = reader.each(reader.list, [*paths, *(status.path for status in policies.values())])
    forbidden: dict[str, str] = {}
    for namespace, spec in asked.pods:
        metadata = {"generateName": "railyard-look-", "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        # A dry run goes through admission, and the pod is never stored.
        answer = calls.call("POST", f"{_NAMESPACES}/{namespace}/pods?dryRun=All", body)
        if answer.status == HTTPStatus.FORBIDDEN:
            forbidden[namespace] = answer.words
    return PartsLook(
        workloads=tuple(_workloads(reader, lists)),
        definitions={
            name_of(body): frozenset(
                str(it["name"]) for it in list_at(body, "spec", "versions") if it.get("served")
            )
            for body in lists[_DEFINITIONS]
        },
        states={
            part: tuple(Body(each, kind=status.kind) for each in lists[status.path])
            for part, status in policies.items()
        },
        live=reader.read([body for _, body in asked.objects]),
        attachments=reader.read(asked.attachments),
        nodes={name_of(node): node for node in lists[_NODES]},
        namespaces=frozenset(map(name_of, lists[_NAMESPACES])),
        runtime_classes=frozenset(map(name_of, lists[_CLASSES])),
        forbidden=forbidden,
        meshed={
            name_of(each): f"{key}={value}"
            for each in lists[_NAMESPACES]
            for key, value in map_at(each, "metadata", "labels").items()
            if key in _MESHES or f"{key}={value}" in _MESHES
        },
        cilium=map_at(calls.call("GET", _CILIUM).body, "data"),
    )


def _workloads(reader: Reader, lists: Mapping[str, Sequence[Body]]) -> Iterator[Workload]:
    for kind, path in _WORKLOADS.items():
        for item in lists[path]:
            body: Body = {**item, "apiVersion": "apps/v1", "kind": kind}
            images = (str(each.get("image")) for each in containers_in(body.get("spec")))
            image = next(filter(part_of_image, images), "")
            if (part := part_of_image(image)) is None:
                continue
            metadata, notes = map_at(body, "metadata"), map_at(body, "metadata", "annotations")
            namespace, release = str(metadata["namespace"]), notes.get("meta.helm.sh/release-name")
            place = str(notes.get("meta.helm.sh/release-namespace", namespace))
            state = state_of(body)
            # Of a device plugin, the resources that its configuration names.
            volumes = list_at(body, "spec", "template", "spec", "volumes")
            names = [map_at(each, "configMap").get("name") for each in volumes]
            maps: list[Body] = [
                {"apiVersion": "v1", "kind": "ConfigMap",
                 "metadata": {"name": name, "namespace": namespace}}
                for name in (names if TABLE[part].publishes else ()) if name
            ]  # fmt: skip
            lives = [map_at(live, "data").values() for _, _, live in reader.read(maps).objects]
            documents = [_json(str(text)) for texts in lives for text in texts]
            entries = (
                entry
                for document in documents
                for key in ("resourceList", "configList")
                for entry in list_at(document, key)
            )
            yield Workload(
                key=Key("apps/v1", kind, namespace, str(metadata["name"])),
                part=part,
                image=image,
                state=state,
                why=why_not_ready(reader, body) if state else (),
                owners=frozenset(str(it["kind"]) for it in list_at(metadata, "ownerReferences")),
                release=(place, str(release)) if release else None,
                managers=_managers_of(body),
                publishes=frozenset(str(entry.get("resourceName")) for entry in entries),
            )


def _managers_of(body: Body) -> frozenset[str]:
    """The managers that wrote fields of an object."""
    fields = list_at(body, "metadata", "managedFields")
    return frozenset(str(each.get("manager")) for each in fields)


def _json(text: str) -> object:
    """The value of a text; None if it is not JSON."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return None


def attachment_differences(want: Body, live: Body) -> Iterator[str]:
    """Yield why an attachment does not lead onto the rail; its owner chooses addresses."""
    asked, found = (
        str(map_at(body, "metadata", "annotations").get(RESOURCE, "")) for body in (want, live)
    )
    if asked != found:
        yield f"{RESOURCE} is {found or 'absent'}, want {asked or 'none'}"
    wanted, plugins = _plugins(want) or [{}], _plugins(live)
    if plugins is None:
        yield "its configuration is not JSON"
        return
    for key in _DECIDING:
        value, actual = wanted[0].get(key), plugins[0].get(key, "absent")
        if plugins[0].get(key) != value:
            yield f"{key} is {actual}, want {'none' if value is None else value}"
    mtu, least = _mtu(plugins), _mtu(wanted)
    if mtu and least and mtu < least:
        yield f"mtu is {mtu}, want {least}"


def _plugins(body: Body) -> list[Mapping[str, Any]] | None:
    document = _json(str(map_at(body, "spec").get("config") or ""))
    return None if document is None else list_at(document, "plugins") or [map_at(document)]


def _mtu(plugins: list[Mapping[str, Any]]) -> int:
    return max((int(each["mtu"]) for each in plugins if each.get("mtu")), default=0)


def judge_parts(asked: PartsAsked, look: PartsLook) -> tuple[Finding, ...]:
    """Each part that differs from the site's description, in the order of the table."""
    found = [*_places(asked, look), *_habits(asked, look)]
    for part, owner in asked.owners.items():
        if owner == "ours":
            found += _ours(asked, look, part)
        elif owner == "theirs":
            found += _theirs(asked, look, part)
    return (*found, *_taken_over(asked, look, None, "an object of this site"))


def _finding(cause: str, actual: str, **words: object) -> Finding:
    """The finding of a cause in `findings.yaml`, with its words filled in."""
    return finding_of(__file__, cause, device=CLUSTER, actual=actual, **words)


def _places(asked: PartsAsked, look: PartsLook) -> Iterator[Finding]:
    """Report absent or closed nodes, and namespaces that do not take our pods."""
    absent = [name for name in asked.nodes if name not in look.nodes]
    if absent:
        there = ", ".join(sorted(look.nodes)) or "none"
        yield _finding("node-name", f"no {', '.join(absent)}; there are {there}")
    for name in (each for each in asked.nodes if each not in absent):
        for trouble in troubles_of(look.nodes[name], asked.tolerations):
            yield _finding("node-closed", trouble.words(name))
    if asked.namespace and asked.namespace not in look.namespaces:
        yield _finding("namespace", f"no namespace {asked.namespace}", name=asked.namespace)
    if asked.runtime_class is not None and asked.runtime_class not in look.runtime_classes:
        there = ", ".join(sorted(look.runtime_classes)) or "none"
        yield _finding("runtime-class", f"no RuntimeClass {asked.runtime_class}; there are {there}")
    for namespace, why in look.forbidden.items():
        yield _finding("pod-policy", why, namespace=namespace)


def _habits(asked: PartsAsked, look: PartsLook) -> Iterator[Finding]:
    """Settings in the cluster, made by others, that break a complete installation."""
    outside = [name for name in asked.nodes if not nri_works(_runtime(look.nodes.get(name, {})))]
    if asked.nri and outside:
        actual = ", ".join(f"{name} has {_runtime(look.nodes[name])}" for name in outside)
        yield _finding("runtime-nri", actual)
    attaches = asked.attachments or any(part == "attachments" for part, _ in asked.objects)
    if attaches and look.cilium.get("cni-exclusive") == "true":
        actual = "cni-exclusive is true in ConfigMap kube-system/cilium-config"
        yield _finding("cilium-exclusive", actual)
    for namespace in dict.fromkeys((asked.namespace, *(name for name, _ in asked.pods))):
        if label := look.meshed.get(namespace):
            actual, key = f"the namespace has the label {label}", label.partition("=")[0]
            yield _finding("service-mesh", actual, namespace=namespace, key=key)


def _runtime(node: Body) -> str:
    return str(map_at(node, "status", "nodeInfo").get("containerRuntimeVersion") or "")


def _ours(asked: PartsAsked, look: PartsLook, part: Part) -> Iterator[Finding]:
    """Report a second installation of a part that we install."""
    row = TABLE[part]
    planned = {(str(body["kind"]), name_of(body)) for _, body in asked.objects}
    operators = {kind for kind, operator in _OPERANDS.items() if asked.owners[operator] == "ours"}
    foreign = [
        each
        for each in look.workloads
        if each.part == part
        and not (row.shared or _is_applied(asked, each) or each.owners & operators)
        and not ((each.key.kind, each.key.name) in planned and _by_us(each.managers))
    ]
    if foreign:
        actual = ", ".join(f"{each.key} ({_version(each)})" for each in foreign)
        yield _finding("foreign", actual, part=part, title=row.title)
    else:
        yield from _taken_over(asked, look, part, row.title)


def _is_applied(asked: PartsAsked, workload: Workload) -> bool:
    return str(workload.key) in asked.applied or workload.release in asked.releases


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
        and not _by_us(_managers_of(live))
    ]
    if names:
        row = "there" if part else "object-there"
        yield _finding(row, ", ".join(names), part=part, title=title)


def _theirs(asked: PartsAsked, look: PartsLook, part: Part) -> Iterator[Finding]:
    row = TABLE[part]
    if part == "attachments":
        yield from _attachments(look)
        return
    workloads = [it for it in look.workloads if it.part == part and not _is_applied(asked, it)]
    if not workloads:
        # Without an API of its own, a part may be on the nodes without a pod.
        needed = row.definitions or row.publishes or row.status is not None
        actual = f"no DaemonSet or Deployment of {' or '.join(row.images)}"
        yield _finding("absent" if needed else "unseen", actual, part=part, title=row.title)
    for each in row.definitions:
        served = look.definitions.get(each.name, frozenset())
        if each.version not in served:
            actual = f"{each.name} serves {', '.join(sorted(served)) or 'nothing'}"
            known, own = row.known or "a release with it", each.version
            words = {"part": part, "title": row.title, "version": own, "known": known}
            yield _finding("definition", actual, **words)
    for workload in workloads:
        yield from _one_of_theirs(part, workload)
    yield from _policies(look, part)
    if row.publishes:
        yield from _resources(asked, look, part, workloads)


def _one_of_theirs(part: Part, workload: Workload) -> Iterator[Finding]:
    row = TABLE[part]
    if workload.state:
        why = f" ({'; '.join(workload.why)})" if workload.why else ""
        actual = f"{workload.key}: {workload.state}{why}"
        yield _finding("not-ready", actual, part=part, title=row.title)
    found, known = _MAJOR.match(version_in(workload.image)), _MAJOR.match(row.known)
    if found and known and found[1] != known[1]:
        actual = f"{workload.key}: {_version(workload)}"
        yield _finding("version", actual, part=part, title=row.title, known=row.known)


def _version(workload: Workload) -> str:
    return workload.image.rpartition("/")[2]


def _policies(look: PartsLook, part: Part) -> Iterator[Finding]:
    if (status := TABLE[part].status) is None:
        return
    policies, kind = look.states.get(part, ()), status.kind
    states = [(each, state_of(each)) for each in policies]
    words = [f"{kind} {name_of(each)}: {state}" for each, state in states if state]
    if words or not policies:
        actual = "; ".join(words) or f"no {kind}"
        yield _finding("policy", actual, part=part, title=TABLE[part].title, kind=kind)


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
        actual = f"none on {', '.join(nodes)}; it has {', '.join(names) or 'nothing'}"
        yield _finding("resource", actual, part=part, title=TABLE[part].title, name=name)


def _allocatable(node: Mapping[str, Any]) -> dict[str, int]:
    offered = map_at(node, "status", "allocatable")
    counts = {name: str(count) for name, count in offered.items()}
    return {name: int(count) for name, count in counts.items() if count.isdigit() and int(count)}


def _attachments(look: PartsLook) -> Iterator[Finding]:
    for key, want, live in look.attachments.objects:
        differs = () if live is None else tuple(attachment_differences(want, live))
        if live is None:
            yield _finding("attachments-absent", f"no {key}")
        elif differs:
            yield _finding("attachments-differ", f"{key}: {'; '.join(differs)}")
