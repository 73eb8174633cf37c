"""Read an existing cluster once, without changes: parts, definitions, nodes, namespaces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.catalogue.cluster_parts import TABLE, Part, part_of_image
from components.kubernetes.client import Calls
from components.kubernetes.live.look import why_not_ready
from components.kubernetes.live.read import Key, Live, Reader
from components.kubernetes.live.why import state_of
from components.kubernetes.manifest import Body, containers_in, list_at, map_at, name_of
from components.model.kubernetes import Owner

_WORKLOADS: Final = {
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Deployment": "/apis/apps/v1/deployments",
}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REFUSED: Final = 403
_CILIUM: Final = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
_MESHES: Final = tuple(f"kuma.io/sidecar-injection={on}" for on in ("enabled", "true", "yes"))
"""Namespace labels by which a mesh takes pods that do not decline it. Our pods decline Istio and
Linkerd (components/jobs/templates.py). Kuma's releases differ in how a pod declines it, by a label
or by an annotation; each release takes three words for yes (kumahq/kuma,
`pkg/plugins/runtime/k8s/metadata/annotations.go`)."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    policies = [
        row.status.path
        for part, row in TABLE.items()
        if row.status is not None and asked.owners[part] == "theirs"
    ]
    paths = [
        *_WORKLOADS.values(),
        _DEFINITIONS,
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/apis/node.k8s.io/v1/runtimeclasses",
        *policies,
    ]
    lists = reader.each(reader.list, paths)
    definitions = {name_of(body): _served(body) for body in lists[_DEFINITIONS]}
    return PartsLook(
        workloads=tuple(_workloads(reader, lists)),
        definitions=definitions,
        states={
            part: tuple({**each, "kind": row.status.kind} for each in lists[row.status.path])
            for part, row in TABLE.items()
            if row.status is not None and asked.owners[part] == "theirs"
        },
        live=reader.read([body for _, body in asked.objects]),
        attachments=reader.read(asked.attachments),
        nodes={name_of(node): node for node in lists["/api/v1/nodes"]},
        namespaces=frozenset(name_of(each) for each in lists["/api/v1/namespaces"]),
        runtime_classes=frozenset(map(name_of, lists["/apis/node.k8s.io/v1/runtimeclasses"])),
        forbidden=dict(_forbidden(calls, asked)),
        meshed=dict(_meshed(lists["/api/v1/namespaces"])),
        cilium=map_at(calls.call("GET", _CILIUM).body, "data"),
    )


def _served(definition: Body) -> frozenset[str]:
    versions = list_at(definition, "spec", "versions")
    return frozenset(str(each["name"]) for each in versions if each.get("served"))


def _workloads(reader: Reader, lists: Mapping[str, Sequence[Body]]) -> Iterator[Workload]:
    for kind, path in _WORKLOADS.items():
        for item in lists[path]:
            body: Body = {**item, "apiVersion": "apps/v1", "kind": kind}
            images = [str(each.get("image")) for each in containers_in(body.get("spec"))]
            for image in images:
                if (part := part_of_image(image)) is not None:
                    yield _workload(reader, body, part, image)
                    break


def _workload(reader: Reader, body: Body, part: Part, image: str) -> Workload:
    metadata, notes = map_at(body, "metadata"), map_at(body, "metadata", "annotations")
    namespace, release = str(metadata["namespace"]), notes.get("meta.helm.sh/release-name")
    place = str(notes.get("meta.helm.sh/release-namespace", namespace))
    state = state_of(body)
    return Workload(
        key=Key("apps/v1", str(body["kind"]), namespace, str(metadata["name"])),
        part=part,
        image=image,
        state=state,
        why=why_not_ready(reader, body) if state else (),
        owners=frozenset(str(each["kind"]) for each in list_at(metadata, "ownerReferences")),
        release=(place, str(release)) if release else None,
        managers=managers_of(body),
        publishes=_published(reader, body) if TABLE[part].publishes else frozenset(),
    )


def managers_of(body: Body) -> frozenset[str]:
    """The managers that wrote fields of an object."""
    fields = list_at(body, "metadata", "managedFields")
    return frozenset(str(each.get("manager")) for each in fields)


def _published(reader: Reader, body: Body) -> frozenset[str]:
    """The resources that a device plugin's configuration names."""
    namespace = map_at(body, "metadata")["namespace"]
    volumes = list_at(body, "spec", "template", "spec", "volumes")
    names = [name for each in volumes if (name := map_at(each, "configMap").get("name"))]
    maps: list[Body] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
        }
        for name in names
    ]
    return frozenset(
        resource
        for _, _, live in reader.read(maps).objects
        for text in map_at(live, "data").values()
        for resource in _resource_names(str(text))
    )


def _resource_names(text: str) -> Iterator[str]:
    try:
        document: object = json.loads(text)
    except ValueError:
        return
    for entry in (*list_at(document, "resourceList"), *list_at(document, "configList")):
        yield str(entry.get("resourceName"))


def _meshed(namespaces: Sequence[Body]) -> Iterator[tuple[str, str]]:
    for each in namespaces:
        for key, value in map_at(each, "metadata", "labels").items():
            if key in _MESHES or f"{key}={value}" in _MESHES:
                yield name_of(each), f"{key}={value}"


def _forbidden(calls: Calls, asked: PartsAsked) -> Iterator[tuple[str, str]]:
    """Why a dry run refuses a pod: it goes through admission, and is never stored."""
    for namespace, spec in asked.pods:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "railyard-look-", "namespace": namespace},
            "spec": spec,
        }
        answer = calls.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
        if answer.status == _REFUSED:
            yield namespace, answer.words
