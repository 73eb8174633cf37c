"""The parts that all jobs of a site share: names with the number of a run, limits, containers, SSH.

The MPI operator mounts one key pair of the job at `/root/.ssh` of launcher and workers. Workers
show that key as their host key and the launcher trusts only that one, so an image needs no host
keys and every check stays on. Sources: the controller and the base image of the MPI operator;
sshd(8), ssh(1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter

from components.core.templates import object_of
from components.kubernetes.manifest import Body, map_at
from components.model.cluster import ClusterSpec
from components.pod_network.manifests import tolerations

RUN: Final = "RUN-NUMBER"
"""Placeholder for the run's number in names."""
LONGEST_NAME: Final = 63
"""Kubernetes copies a Job's name into a label of its pods and refuses a longer name
(kubernetes/kubernetes#50850: "spec.template.labels: must be no more than 63 characters")."""
_DIGITS: Final = 10
"""Room for the number of a run."""
_HASH: Final = 8
"""Hexadecimal digits that keep shortened names apart."""
_BODIES: Final = TypeAdapter(list[Body])
GPU: Final = "nvidia.com/gpu"
PART_OF: Final = "app.kubernetes.io/part-of"
ACCEPTANCE: Final = "railyard-acceptance"
"""The value of that label for all that a run creates."""

JsonObject = dict[str, JsonValue]
SSHD: Final = "/usr/sbin/sshd"
"""sshd must be started by its full path: it runs itself again for every connection."""
POD_PORT: Final = 22
HOST_NETWORK_PORT: Final = 2222
"""In the host's network the host's own sshd has port 22."""
KNOWN_HOSTS: Final = "/tmp/railyard_known_hosts"  # noqa: S108 - the launcher's own container
_CONNECT: Final = "-o ConnectionAttempts=10"
"""The MPI operator sets it too, but our options replace the operator's: a worker may need a
moment."""


_NO_MESH: Final[Mapping[str, JsonObject]] = {
    "labels": {"sidecar.istio.io/inject": "false", "istio.io/dataplane-mode": "none"},
    "annotations": {"linkerd.io/inject": "disabled"},
}
"""Labels and annotations that keep a mesh away from the connections by which ranks find each other.

istio/istio 00af2c55, `pkg/kube/inject/inject.go`, `injectRequired`: the pod's label wins over its
namespace; the second label is that of ambient mode. linkerd/linkerd2 1071ec2e, `pkg/k8s/labels.go`.
"""


def make(template: str, /, **words: object) -> dict[str, Any]:
    """An object of this room; see `object_of`."""
    return object_of("components.jobs", template, **words)


def outside_meshes(template: JsonObject) -> JsonObject:
    """Mark a pod's template to keep Istio and Linkerd away from its connections."""
    found: JsonObject = {**map_at(template, "metadata")}
    for key, ours in _NO_MESH.items():
        found[key] = {**map_at(found, key), **ours}
    return {**template, "metadata": found}


def number_objects(objects: tuple[Body, ...], run: int) -> list[Body]:
    """The objects of one run: every name carries the run's number."""
    text = json.dumps([*objects]).replace(RUN, str(run))
    return _BODIES.validate_json(text)


def make_metadata(spec: ClusterSpec, name: str, **labels: JsonValue) -> JsonObject:
    """The metadata of an object of a run."""
    return {
        "name": f"{name}-{RUN}",
        "namespace": spec.pod_network.namespace,
        "labels": {PART_OF: ACCEPTANCE, **labels},
    }


def fit_name(name: str, ending: str = "") -> str:
    """A job's name with room for the run's number: a hash replaces the end of a long one.

    `ending` is what Kubernetes or an operator adds to it to name a pod.
    """
    longest = LONGEST_NAME - len("-") - _DIGITS - len(ending)
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: longest - _HASH - 1].rstrip('-')}-{digest}"


def make_limits(resources: Mapping[str, int], gpus: int = 0) -> JsonObject:
    """The limits of a container: RDMA resources, and GPUs if it has any."""
    limits: JsonObject = {**resources}
    return limits | ({GPU: gpus} if gpus else {})


def make_container(image: str, name: str, limits: JsonObject) -> JsonObject:
    """A container that may pin memory."""
    return {
        "name": name,
        "image": image,
        "resources": {"limits": limits},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }


def env_list(values: Mapping[str, str]) -> list[JsonValue]:
    """Variables as Kubernetes takes them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def make_job(spec: ClusterSpec, name: str, pod: JsonObject) -> Body:
    """Make a Job with one pod that never retries: a failure is a result."""
    return make(
        "job",
        metadata=make_metadata(spec, fit_name(name)),
        deadline_s=int(spec.acceptance.timeout_s),
        template=outside_meshes(_tolerant(spec, pod)),
    )


def make_pod(spec: ClusterSpec, name: str, template: JsonObject, runs_s: int = 0) -> Body:
    """Make a pod without a Job: on a large site, creating the Jobs would take an hour.

    kube-controller-manager sends 20 requests a second by default, and a Job takes about five. The
    seconds of the intended run are added to its deadline.
    """
    metadata: JsonObject = {**make_metadata(spec, fit_name(name)), **map_at(template, "metadata")}
    timed: JsonObject = {**map_at(template, "spec")}
    timed["activeDeadlineSeconds"] = int(spec.acceptance.timeout_s) + runs_s
    # A server whose client failed waits on, and by default it would get 30 s to end.
    timed["terminationGracePeriodSeconds"] = 1
    whole = outside_meshes(_tolerant(spec, {"metadata": metadata, "spec": timed}))
    return {"apiVersion": "v1", "kind": "Pod", **whole}


def _tolerant(spec: ClusterSpec, template: JsonObject) -> JsonObject:
    return {**template, "spec": {**map_at(template, "spec"), **tolerations(spec)}}


def ssh_port(spec: ClusterSpec, *, host_network: bool) -> int:
    """The port of the workers' sshd."""
    if spec.jobs.ssh_port is not None:
        return spec.jobs.ssh_port
    return HOST_NETWORK_PORT if host_network else POD_PORT


def sshd_command(port: int) -> tuple[str, ...]:
    """The command of a worker.

    `StrictModes`: a mounted Secret is a folder on its own file system, and everybody may write to
    it.
    """
    options = ("-o", "HostKey=/root/.ssh/id_rsa", "-o", "StrictModes=no")
    return (SSHD, "-De", "-p", str(port), *options)


def ssh_options(port: int) -> str:
    """The options of ssh with which mpirun reaches the workers."""
    trust = f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={KNOWN_HOSTS}"
    return f"{_CONNECT} -p {port} {trust}"
