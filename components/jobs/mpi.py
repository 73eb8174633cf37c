"""Jobs over several nodes: MPIJobs, whose launcher reaches workers by SSH, and PyTorch's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from components.jobs import templates
from components.jobs.environment import job_environment, job_script, on_devices
from components.jobs.templates import RUN, JsonObject, env_list, make, make_metadata, outside_meshes
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind
from components.pod_network.attachment import PodAttachment, pod_attachment
from components.pod_network.manifests import gpu_runtime, tolerations

SHM_SIZE: Final = "16Gi"
"""Shared memory of a worker: NCCL's intra-node buffers outgrow the 64 MiB default."""
_TOPOLOGY: Final = "nccl-topology"
TorchForm = Literal["job", "trainjob"]
PORT: Final = 29500
"""Where the first node waits for the others: torchrun's default."""
_NODE: Final = "node"
"""The container that Trainer looks for."""
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_ONCE: Final[Mapping[str, JsonValue]] = {"restartPolicy": "Never"}
"""A rank that begins again would wait for the others."""


@dataclass(frozen=True, slots=True)
class MpiWorkers:
    """The workers of an MPIJob."""

    image: str
    count: int
    gpus: int
    attachment: PodAttachment
    nodes: tuple[str, ...]
    mounts: tuple[JsonObject, ...] = ()
    volumes: tuple[JsonObject, ...] = ()
    selector: dict[str, str] = field(default_factory=dict[str, str])
    """Labels of the nodes that take workers; empty for any."""
    before: tuple[str, ...] = ()
    """The command of a worker; it takes the command of sshd as its last arguments."""


def mpi_job(
    spec: ClusterSpec, name: str, workers: MpiWorkers, launcher: JsonObject, **pod: JsonValue
) -> Body:
    """An MPIJob of one run, from its launcher's container; `pod` has more keys of that pod."""
    port = templates.ssh_port(spec, host_network=workers.attachment.host_network)
    container: JsonObject = {
        **rail_container(spec, workers, "worker"),
        "command": [*workers.before, *templates.sshd_command(port)],
        # Started is not yet reachable: the launcher waits for workers that answer.
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
    }
    own: JsonObject = {
        "training.kubeflow.org/job-name": f"{name}-{RUN}",
        "training.kubeflow.org/job-role": "worker",
    }
    return make(
        "mpi-job",
        metadata=make_metadata(spec, name),
        gpus=workers.gpus,
        count=workers.count,
        deadline_s=int(spec.acceptance.timeout_s),
        launcher=outside_meshes({"spec": {"containers": [launcher], **tolerations(spec), **pod}}),
        worker=rail_pod(spec, workers, own, container),
    )


def rail_pod(
    spec: ClusterSpec,
    workers: MpiWorkers,
    own: JsonObject,
    container: JsonObject,
    **more: JsonValue,
) -> JsonObject:
    """The pod template of a job's workers: on the rails, and one on a node.

    `own` are labels that the pods of this job alone have; `rail_container` makes the container.
    """
    volumes: list[JsonValue] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}},
        *workers.volumes,
    ]
    if file := spec.jobs.topology_file:
        # `File`: a node without it refuses the pod; another type would make an empty folder.
        source: JsonObject = {"path": file.host_path, "type": "File"}
        volumes.insert(1, {"name": _TOPOLOGY, "hostPath": source})
    more |= tolerations(spec) | (gpu_runtime(spec) if workers.gpus else {})
    if workers.selector:
        more["nodeSelector"] = {**workers.selector}
    if workers.attachment.host_network:
        # It still uses the cluster's DNS: otherwise the launcher would not find the workers.
        more |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    notes = {**workers.attachment.annotations}
    template = make(
        "rail-pod",
        metadata={"annotations": notes} if notes else None,
        nodes=[*workers.nodes],
        own=own,
        container=container,
        volumes=volumes,
        more=more,
    )
    return outside_meshes(template)


def rail_container(
    spec: ClusterSpec, workers: MpiWorkers, name: str, own: Sequence[JsonValue] = ()
) -> JsonObject:
    """A container with GPUs on the rails, the environment of jobs, and variables of its own."""
    limits = templates.make_limits(workers.attachment.resources, workers.gpus)
    if alignment := spec.kubernetes.alignment if spec.kubernetes else None:
        # kubelet's static policy gives CPUs only to pods with whole CPUs and memory.
        memory = f"{alignment.job_memory_gib}Gi"
        limits |= {"cpu": str(alignment.job_cpus), "memory": memory}
    mounts: list[JsonValue] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a container's own
        *workers.mounts,
    ]
    if file := spec.jobs.topology_file:
        mounts.insert(1, {"name": _TOPOLOGY, "mountPath": file.mount_path, "readOnly": True})
    env = [*env_list(job_environment(spec)), *own]
    more: JsonObject = {"env": env, "volumeMounts": mounts}
    return templates.make_container(workers.image, name, limits) | more


def _all_of(spec: ClusterSpec, kind: WorkerKind, image: str) -> MpiWorkers:
    attachment = pod_attachment(spec, kind.rails_of(spec))
    return MpiWorkers(image, len(kind.hosts), kind.gpus, attachment, kind.nodes)


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

    `twice` runs it again over TCP afterwards.
    """
    workers, script = _all_of(spec, kind, image), "mpi_compare" if twice else "mpi_launch"
    ssh = templates.ssh_options(
        templates.ssh_port(spec, host_network=workers.attachment.host_network)
    )
    launcher: JsonObject = {
        "name": "launcher",
        "image": image,
        # `mpirun` once the workers' host key is known.
        "command": ["/bin/sh", "-c", job_script(script), script, *command],
        # Open MPI 5 reads these options from its launcher's environment alone.
        "env": env_list({"PRTE_MCA_plm_ssh_args": ssh}),
    }
    return mpi_job(spec, name, workers, launcher)


def torch_objects(
    spec: ClusterSpec,
    name: str,
    kind: WorkerKind,
    image: str,
    program: tuple[str, ...],
    form: TorchForm,
) -> tuple[Body, ...]:
    """The objects of a training by `torchrun`, in the order of creation.

    `torchrun` takes its options from variables that begin with `PET_`. Trainer sets them itself in
    a container called `node`; in a plain Job they are set here, to the same values. Sources: the
    documentation of torchrun and of Indexed Jobs; Kubeflow Trainer v2.3.0 (lab/sources.md#trainer).

    One pod on each worker has all its GPUs. The form `job` is a headless Service and an Indexed
    Job; `trainjob` is a runtime of the site's own and a TrainJob.
    """
    workers, job, plain = _all_of(spec, kind, image), f"{name}-{RUN}", form == "job"
    env: list[JsonValue] = []
    if plain:
        values = {
            "PET_NNODES": str(workers.count),
            "PET_NPROC_PER_NODE": str(workers.gpus),
            "PET_MASTER_ADDR": f"{job}-0.{job}",
            "PET_MASTER_PORT": str(PORT),
        }
        rank: JsonObject = {"fieldRef": {"fieldPath": _INDEX}}
        env = [*env_list(values), {"name": "PET_NODE_RANK", "valueFrom": rank}]
    container = rail_container(spec, workers, _NODE, env)
    container["command"] = [*on_devices(spec, ("torchrun", *program), kind)]
    label = "batch.kubernetes.io/job-name" if plain else "jobset.sigs.k8s.io/jobset-name"
    own, more = JsonObject({label: job}), {**_ONCE, **({"subdomain": job} if plain else {})}
    words = {
        "count": workers.count,
        "gpus": workers.gpus,
        "job": job,
        "own": own,
        "template": rail_pod(spec, workers, own, container, **more),
    }
    labels = {} if plain else {"trainer.kubeflow.org/framework": "torch"}
    first, second = ("torch-service", "torch-job") if plain else ("torch-runtime", "torch-train")
    return (
        make(first, metadata=make_metadata(spec, name, **labels), **words),
        make(second, metadata=make_metadata(spec, name), **words),
    )
