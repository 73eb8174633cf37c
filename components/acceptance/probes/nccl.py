"""Collectives of nccl-tests over all GPUs of all workers."""

from __future__ import annotations

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.jobs.environment import mpirun_command
from components.jobs.mpi import MpiWorkers, mpi_job
from components.jobs.templates import JsonObject
from components.model.acceptance import Collective
from components.model.cluster import ClusterSpec
from components.pod_network.attachment import pod_attachment


def nccl_job(spec: ClusterSpec, collective: Collective = "all_reduce") -> ProbeJob:
    """One NCCL collective over all GPUs of all workers and all rails."""
    ranks = sum(host.gpus for host in spec.workers)
    program = (f"{collective}_perf", "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    command = mpirun_command(spec, ranks, (*program, "-g", "1"))
    name = f"nccl-{collective.replace('_', '-')}"
    workers = MpiWorkers(
        image=spec.jobs.image,
        count=len(spec.workers),
        gpus=spec.workers[0].gpus,
        attachment=pod_attachment(spec),
    )
    launcher: JsonObject = {
        "name": "launcher",
        "image": spec.jobs.image,
        "command": [*command],
    }
    probe = Probe(
        name=name,
        kind="nccl",
        rails=tuple(rail.name for rail in spec.rails),
        nodes=tuple(host.name for host in spec.workers),
        ranks=ranks,
        collective=collective,
    )
    return ProbeJob(probe, (mpi_job(spec, name, workers, launcher),), watched=0, command=command)
