"""Plan the MPI operator, and the samples that the file asks for."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from components.jobs.deepspeed import plan_deepspeed
from components.jobs.environment import job_environment, on_devices
from components.jobs.templates import JsonObject
from components.kubernetes.manifest import (
    Body,
    Manifest,
    load_vendored,
    login_manifests,
    make_manifest,
    name_of,
    pods_in,
    pulling,
    with_image,
)
from components.model.cluster import ClusterSpec
from components.model.jobs import TopologyFile
from components.model.owners import installs
from components.pod_network.attachment import pod_attachment
from components.pod_network.manifests import tolerations

ENVIRONMENT: Final = "railyard-rdma"
"""Name of the ConfigMap for `envFrom`, and of the policy."""
SCRIPTS: Final = "railyard-rdma-scripts"
"""Name of the ConfigMap with `on-rails`, to be mounted as a folder."""
ON_RAILS: Final = "on-rails"
_TOPOLOGY: Final = "railyard-topology"
_CONTAINER: Final = "Object.spec.containers"
"""CEL's type of a container: a map with values of two types does not compile."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_EMPTY: Final = "[]"
"""A list is made first, and filled by another patch: a list of objects in the `value` of a patch
ends the request in a panic of kube-apiserver 1.36.3 (seen in the lab)."""
_SH_C: Final = 2
"""Words before the script in `sh -c SCRIPT`."""


def plan_own_pods(spec: ClusterSpec, group: int) -> tuple[Manifest, ...]:
    """The objects for pods of users; empty if the file does not ask for them."""
    own = spec.jobs.own_pods
    if own is None:
        return ()
    bodies = [body for space in own_namespaces(spec) for body in _config_maps(spec, space)]
    if own.admission:
        bodies += [_policy(spec), _binding(own_namespaces(spec))]
    return tuple(_manifest(body, group) for body in bodies)


def own_namespaces(spec: ClusterSpec) -> tuple[str, ...]:
    """The namespaces that get these objects."""
    own = spec.jobs.own_pods
    given = own.namespaces if own else ()
    return given or (spec.pod_network.namespace,)


def _manifest(body: Body, group: int) -> Manifest:
    metadata = body["metadata"]
    space = metadata.get("namespace") if isinstance(metadata, dict) else None
    return make_manifest(f"own-pods-{space}" if space else "own-pods", body, group)


def _config_maps(spec: ClusterSpec, namespace: str) -> list[Body]:
    environment: JsonObject = {**job_environment(spec)}
    found = [_config_map(ENVIRONMENT, namespace, environment)]
    script = on_rails_script(spec)
    if script:
        found.append(_config_map(SCRIPTS, namespace, {ON_RAILS: script}))
    return found


def on_rails_script(spec: ClusterSpec) -> str:
    """The program that finds the pod's RDMA devices, then runs its arguments; empty for VFs."""
    words = on_devices(spec, ())
    return f"#!/bin/sh\n{words[_SH_C]}" if len(words) > _SH_C else ""


def _config_map(name: str, namespace: str, data: JsonObject) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def _policy(spec: ClusterSpec) -> Body:
    """Patch containers that ask for a resource of the rails, but keep their own values."""
    names = sorted(pod_attachment(spec).resources)
    limits = f"{json.dumps(names)}.exists(n, n in c.resources.limits)"
    asks = f"has(c.resources) && has(c.resources.limits) && {limits}"
    patches = _env_patches(asks)
    if spec.jobs.topology_file is not None:
        patches += _topology_patches(spec.jobs.topology_file, asks)
    rule: JsonObject = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    asking: JsonObject = {
        "name": "asks-for-rails",
        "expression": f"object.spec.containers.exists(c, {asks})",
    }
    mutation: JsonObject = {
        "patchType": "JSONPatch",
        "jsonPatch": {"expression": " + ".join(patches)},
    }
    return {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": ENVIRONMENT},
        "spec": {
            # A pod without the traffic class would harm the traffic of others.
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [asking],
            "mutations": [mutation],
        },
    }


def _binding(namespaces: tuple[str, ...]) -> Body:
    names: list[JsonValue] = [*namespaces]
    here: JsonObject = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}
    return {
        "apiVersion": _ADMISSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": ENVIRONMENT},
        "spec": {
            "policyName": ENVIRONMENT,
            "matchResources": {"namespaceSelector": {"matchExpressions": [here]}},
        },
    }


def _env_patches(asks: str) -> list[str]:
    """First in `envFrom`: of two sources the later one counts, and `env` counts more than both."""
    source = f'{_CONTAINER}.envFrom.configMapRef{{name: "{ENVIRONMENT}"}}'
    ours = f"{_CONTAINER}.envFrom{{configMapRef: {source}}}"
    mine = f'c.envFrom.exists(e, has(e.configMapRef) && e.configMapRef.name == "{ENVIRONMENT}")'
    lacks = f"({asks}) && !(has(c.envFrom) && {mine})"
    return [
        _each(f"{lacks} && !has(c.envFrom)", "envFrom", _EMPTY),
        _each(lacks, "envFrom/0", ours),
    ]


def _topology_patches(file: TopologyFile, asks: str) -> list[str]:
    path = f'mountPath: "{file.mount_path}", readOnly: true'
    mount = f'{_CONTAINER}.volumeMounts{{name: "{_TOPOLOGY}", {path}}}'
    there = f'c.volumeMounts.exists(m, m.mountPath == "{file.mount_path}")'
    lacks = f"({asks}) && !(has(c.volumeMounts) && {there})"
    source = f'Object.spec.volumes.hostPath{{path: "{file.host_path}", type: "File"}}'
    volume = f'Object.spec.volumes{{name: "{_TOPOLOGY}", hostPath: {source}}}'
    wanted = f"object.spec.containers.exists(c, {lacks})"
    return [
        _if(f"{wanted} && !has(object.spec.volumes)", "/spec/volumes", _EMPTY),
        _if(wanted, "/spec/volumes/-", volume),
        _each(f"{lacks} && !has(c.volumeMounts)", "volumeMounts", _EMPTY),
        _each(lacks, "volumeMounts/-", mount),
    ]


def _if(condition: str, path: str, value: str) -> str:
    """Patch the pod once if a condition holds."""
    return f'({condition} ? [JSONPatch{{op: "add", path: "{path}", value: {value}}}] : [])'


def _each(condition: str, path: str, value: str) -> str:
    """Patch every container for which a condition holds."""
    place = f'"/spec/containers/" + string(i) + "/{path}"'
    patch = f'JSONPatch{{op: "add", path: {place}, value: {value}}}'
    return f"object.spec.containers.transformList(i, c, {condition}, {patch})"


MPI_OPERATOR_FILE: Final = "mpi-operator-v0.8.2.json.gz"
MPI_NAMESPACE: Final = "mpi-operator"
_OF_PROFILES: Final = "kubeflow-"
"""Prefix of the roles of Kubeflow's profiles: without Kubeflow no user has such a role."""
_LAST_KINDS: Final = frozenset({"Deployment"})


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """The MPI operator, and the sample jobs of the file."""

    manifests: tuple[Manifest, ...]


def plan_jobs(spec: ClusterSpec) -> JobsPlan:
    """Plan the operator and the samples; a site without Kubernetes gets neither."""
    if spec.kubernetes is None:
        return JobsPlan(manifests=())
    operator = _mpi_operator(spec) if installs(spec, "mpi_operator") else ()
    login = login_manifests(spec, "jobs", spec.pod_network.namespace, 0)
    own = plan_own_pods(spec, 0)
    return JobsPlan(manifests=login + own + operator + plan_deepspeed(spec))


def _mpi_operator(spec: ClusterSpec) -> tuple[Manifest, ...]:
    vendored = load_vendored("components.jobs", MPI_OPERATOR_FILE)
    image = spec.sources.images.mpi_operator
    needed = [body for body in vendored if not name_of(body).startswith(_OF_PROFILES)]
    bodies = [_tolerant(spec, pulling(spec, with_image(body, image))) for body in needed]
    made = [make_manifest("mpi-operator", body, _group(body)) for body in bodies]
    made += login_manifests(spec, "mpi-operator", MPI_NAMESPACE, 1)
    return tuple(sorted(made, key=lambda manifest: manifest.group))


def _tolerant(spec: ClusterSpec, body: Body) -> Body:
    """The operator's pod with the file's tolerations: each node of a cluster may be tainted."""
    changed = deepcopy(body)
    for pod in pods_in(changed):
        pod.update(tolerations(spec))
    return changed


def _group(body: Body) -> int:
    """The namespace first, then what needs it, then the operator."""
    if body["kind"] == "Namespace":
        return 0
    return 2 if body["kind"] in _LAST_KINDS else 1
