"""Collectives of nccl-tests over all GPUs of the workers of one kind."""

from __future__ import annotations

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.acceptance.probes.rates import kind_suffix, other_rates
from components.jobs.environment import mpirun_command, program_path
from components.jobs.launched import launched_job
from components.model.acceptance import Collective
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import WorkerKind


def nccl_command(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce"
) -> tuple[str, ...]:
    """`mpirun` of one program of nccl-tests over all GPUs of a kind."""
    binary = program_path(spec.jobs.programs.nccl_tests, f"{collective}_perf")
    program = (binary, "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    return mpirun_command(spec, kind.ranks, (*program, "-g", "1"), kind)


def nccl_job(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce"
) -> ProbeJob:
    """One NCCL collective over all GPUs of all workers of a kind, on all rails that they have."""
    command = nccl_command(spec, kind, collective)
    name = f"nccl-{collective.replace('_', '-')}{kind_suffix(spec, kind)}"
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
        (launched_job(spec, name, kind, command, spec.jobs.image),),
        watched=0,
        command=command,
        image=spec.jobs.image,
    )
