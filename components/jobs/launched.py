"""A program over MPI on all GPUs of some workers, as an MPIJob: nccl-tests, Horovod."""

from __future__ import annotations

from components.jobs.environment import launch_command
from components.jobs.mpi import MpiWorkers, mpi_job
from components.jobs.ssh import launcher_env, ssh_port
from components.jobs.templates import JsonObject, env_list
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind
from components.pod_network.attachment import pod_attachment


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
