"""MPIJobs: a launcher, and workers on the rails that it reaches by SSH."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from components.jobs.environment import job_environment
from components.jobs.ssh import ssh_port, sshd_command
from components.jobs.templates import (
    RUN,
    JsonObject,
    env_list,
    make_container,
    make_limits,
    make_metadata,
)
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.pod_network.attachment import PodAttachment
from components.pod_network.tolerations import tolerations

SHM_SIZE: Final = "16Gi"
"""Shared memory of a worker: NCCL's intra-node buffers outgrow the 64 MiB default."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOPOLOGY: Final = "nccl-topology"


@dataclass(frozen=True, slots=True)
class MpiWorkers:
    """What the workers of an MPIJob are."""

    image: str
    count: int
    gpus: int
    attachment: PodAttachment
    nodes: tuple[str, ...]
    """Names of the nodes that may take them."""
    mounts: tuple[JsonObject, ...] = ()
    """More mounts of every worker."""
    volumes: tuple[JsonObject, ...] = ()
    """The volumes behind them."""
    selector: dict[str, str] = field(default_factory=dict[str, str])
    """Labels of the nodes that take workers; empty for any."""


def mpi_job(
    spec: ClusterSpec, name: str, workers: MpiWorkers, launcher: JsonObject, **pod: JsonValue
) -> Body:
    """An MPIJob of one run.

    Args:
        spec: The site.
        name: Its name, without the number of the run.
        workers: Its workers.
        launcher: The launcher's container.
        pod: More keys of the launcher's pod.
    """
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": make_metadata(spec, name),
        "spec": {
            "slotsPerWorker": workers.gpus,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "activeDeadlineSeconds": int(spec.acceptance.timeout_s),
            },
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [launcher], **tolerations(spec), **pod}},
                },
                "Worker": {
                    "replicas": workers.count,
                    "restartPolicy": "Never",
                    "template": _worker(spec, f"{name}-{RUN}", workers),
                },
            },
        },
    }


def _worker(spec: ClusterSpec, job: str, workers: MpiWorkers) -> JsonObject:
    volumes: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}},
        *_topology_volume(spec),
        *workers.volumes,
    ]
    pod: JsonObject = {
        "affinity": {
            "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_on_nodes(workers)]}},
            "podAntiAffinity": {_REQUIRED: [_apart(job)]},
        },
        "containers": [_worker_container(spec, workers)],
        "volumes": volumes,
    }
    pod |= tolerations(spec)
    if workers.selector:
        pod["nodeSelector"] = {**workers.selector}
    if workers.attachment.host_network:
        # Its names are the cluster's all the same, or the launcher finds no worker.
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    template: JsonObject = {"spec": pod}
    if workers.attachment.annotations:
        template["metadata"] = {"annotations": {**workers.attachment.annotations}}
    return template


def _on_nodes(workers: MpiWorkers) -> JsonObject:
    """Workers of the file alone: in an update that removes some, those still are nodes."""
    names: list[JsonValue] = [*workers.nodes]
    here: JsonObject = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    return {"matchExpressions": [here]}


def _worker_container(spec: ClusterSpec, workers: MpiWorkers) -> JsonObject:
    limits = make_limits(workers.attachment.resources, workers.gpus)
    mounts: list[JsonValue] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a container's own
        *_topology_mount(spec),
        *workers.mounts,
    ]
    port = ssh_port(spec, host_network=workers.attachment.host_network)
    more: JsonObject = {
        "command": [*sshd_command(port)],
        "env": env_list(job_environment(spec)),
        # Started is not yet reachable: the launcher waits for workers that answer.
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
        "volumeMounts": mounts,
    }
    return make_container(workers.image, "worker", limits) | more


def _apart(job: str) -> JsonObject:
    """One worker a node."""
    return {
        "labelSelector": {
            "matchLabels": {
                "training.kubeflow.org/job-name": job,
                "training.kubeflow.org/job-role": "worker",
            }
        },
        "topologyKey": "kubernetes.io/hostname",
    }


def _topology_mount(spec: ClusterSpec) -> list[JsonValue]:
    file = spec.jobs.topology_file
    if file is None:
        return []
    return [{"name": _TOPOLOGY, "mountPath": file.mount_path, "readOnly": True}]


def _topology_volume(spec: ClusterSpec) -> list[JsonValue]:
    """`File`: a node without it refuses the pod, where an empty folder would be made otherwise."""
    file = spec.jobs.topology_file
    if file is None:
        return []
    return [{"name": _TOPOLOGY, "hostPath": {"path": file.host_path, "type": "File"}}]
