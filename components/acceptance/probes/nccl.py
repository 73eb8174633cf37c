"""Collectives of nccl-tests over all GPUs of the workers of one kind."""

from __future__ import annotations

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.acceptance.probes.rates import kind_suffix, other_rates
from components.jobs.environment import launch_command, mpirun_command, program_path
from components.jobs.mpi import MpiWorkers, mpi_job
from components.jobs.ssh import launcher_env, ssh_port
from components.jobs.templates import JsonObject, env_list
from components.model.acceptance import Collective
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind
from components.pod_network.attachment import pod_attachment


def nccl_job(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce"
) -> ProbeJob:
    """One NCCL collective over all GPUs of all workers of a kind, on all rails that they have."""
    binary = program_path(spec.jobs.programs.nccl_tests, f"{collective}_perf")
    program = (binary, "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    command = mpirun_command(spec, kind.ranks, (*program, "-g", "1"), kind)
    name = f"nccl-{collective.replace('_', '-')}{kind_suffix(spec, kind)}"
    workers = MpiWorkers(
        image=spec.jobs.image,
        count=len(kind.hosts),
        gpus=kind.gpus,
        attachment=pod_attachment(spec, kind.rails_of(spec)),
        nodes=kind.nodes,
    )
    port = ssh_port(spec, host_network=workers.attachment.host_network)
    launcher: JsonObject = {
        "name": "launcher",
        "image": spec.jobs.image,
        "command": [*launch_command(command)],
        "env": env_list(launcher_env(port)),
    }
    probe = Probe(
        name=name,
        kind="nccl",
        rails=tuple(kind.speeds),
        nodes=kind.names,
        ranks=kind.ranks,
        collective=collective,
        rates=other_rates(spec, kind.speeds),
    )
    return ProbeJob(
        probe,
        (mpi_job(spec, name, workers, launcher),),
        watched=0,
        command=command,
        image=spec.jobs.image,
    )
