"""MPIJobs: a launcher, and workers that it reaches by SSH on their rails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from components.jobs.environment import job_environment, launch_command
from components.jobs.templates import (
    RUN,
    JsonObject,
    env_list,
    launcher_env,
    make_container,
    make_limits,
    make_metadata,
    outside_meshes,
    ssh_port,
    sshd_command,
)
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind
from components.pod_network.attachment import PodAttachment, pod_attachment
from components.pod_network.manifests import gpu_runtime, tolerations

SHM_SIZE: Final = "16Gi"
"""Shared memory of a worker: NCCL's intra-node buffers outgrow the 64 MiB default."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOPOLOGY: Final = "nccl-topology"


@dataclass(frozen=True, slots=True)
class MpiWorkers:
    """The workers of an MPIJob."""

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
    before: tuple[str, ...] = ()
    """The command of a worker; it takes the command of sshd as its last arguments."""


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
                    "template": outside_meshes(
                        {"spec": {"containers": [launcher], **tolerations(spec), **pod}}
                    ),
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
    port = ssh_port(spec, host_network=workers.attachment.host_network)
    container: JsonObject = {
        **rail_container(spec, workers, "worker"),
        "command": [*workers.before, *sshd_command(port)],
        # Started is not yet reachable: the launcher waits for workers that answer.
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
    }
    own: JsonObject = {
        "training.kubeflow.org/job-name": job,
        "training.kubeflow.org/job-role": "worker",
    }
    return rail_pod(spec, workers, own, container)


def rail_pod(
    spec: ClusterSpec, workers: MpiWorkers, own: JsonObject, container: JsonObject
) -> JsonObject:
    """The pod template of a job's workers: on the rails, and one on a node.

    Args:
        spec: The site.
        workers: The workers of the job.
        own: Labels that the pods of this job alone have.
        container: The container, from `rail_container`.
    """
    volumes: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}},
        *_topology_volume(spec),
        *workers.volumes,
    ]
    apart: JsonObject = {
        "labelSelector": {"matchLabels": own},
        "topologyKey": "kubernetes.io/hostname",
    }
    pod: JsonObject = {
        "affinity": {
            "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_on_nodes(workers)]}},
            "podAntiAffinity": {_REQUIRED: [apart]},
        },
        "containers": [container],
        "volumes": volumes,
    }
    pod |= tolerations(spec) | (gpu_runtime(spec) if workers.gpus else {})
    if workers.selector:
        pod["nodeSelector"] = {**workers.selector}
    if workers.attachment.host_network:
        # It still uses the cluster's DNS: otherwise the launcher would not find the workers.
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    template: JsonObject = {"spec": pod}
    if workers.attachment.annotations:
        template["metadata"] = {"annotations": {**workers.attachment.annotations}}
    return outside_meshes(template)


def _on_nodes(workers: MpiWorkers) -> JsonObject:
    """Workers of the file alone: in an update that removes some, those still are nodes."""
    names: list[JsonValue] = [*workers.nodes]
    here: JsonObject = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    return {"matchExpressions": [here]}


def rail_container(spec: ClusterSpec, workers: MpiWorkers, name: str) -> JsonObject:
    """A container with GPUs on the rails, and the environment of jobs."""
    limits = make_limits(workers.attachment.resources, workers.gpus) | _own_cpus(spec)
    mounts: list[JsonValue] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a container's own
        *_topology_mount(spec),
        *workers.mounts,
    ]
    more: JsonObject = {"env": env_list(job_environment(spec)), "volumeMounts": mounts}
    return make_container(workers.image, name, limits) | more


def _own_cpus(spec: ClusterSpec) -> JsonObject:
    """Whole CPUs and memory: kubelet's static policy gives CPUs to pods with both alone."""
    alignment = spec.kubernetes.alignment if spec.kubernetes else None
    if alignment is None:
        return {}
    return {"cpu": str(alignment.job_cpus), "memory": f"{alignment.job_memory_gib}Gi"}


def _topology_mount(spec: ClusterSpec) -> list[JsonValue]:
    file = spec.jobs.topology_file
    if file is None:
        return []
    return [{"name": _TOPOLOGY, "mountPath": file.mount_path, "readOnly": True}]


def _topology_volume(spec: ClusterSpec) -> list[JsonValue]:
    """`File`: a node without the file refuses the pod; another type would make an empty folder."""
    file = spec.jobs.topology_file
    if file is None:
        return []
    return [{"name": _TOPOLOGY, "hostPath": {"path": file.host_path, "type": "File"}}]


def launched_job(
    spec: ClusterSpec,
    name: str,
    kind: WorkerKind,
    command: tuple[str, ...],
    image: str,
    *,
    twice: bool = False,
) -> Body:
    """The MPIJob that runs a command of `mpirun_command` over all workers of a kind.

    Args:
        spec: The site.
        name: Its name, without the number of the run.
        kind: The workers.
        command: `mpirun` with all its arguments.
        image: Of launcher and workers.
        twice: Run it again over TCP afterwards.
    """
    workers = MpiWorkers(
        image=image,
        count=len(kind.hosts),
        gpus=kind.gpus,
        attachment=pod_attachment(spec, kind.rails_of(spec)),
        nodes=kind.nodes,
    )
    port = ssh_port(spec, host_network=workers.attachment.host_network)
    launcher: JsonObject = {
        "name": "launcher",
        "image": image,
        "command": [*launch_command(command, twice=twice)],
        "env": env_list(launcher_env(port)),
    }
    return mpi_job(spec, name, workers, launcher)
