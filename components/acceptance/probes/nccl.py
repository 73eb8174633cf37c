"""Collectives of nccl-tests over all GPUs of the workers of one kind."""

from __future__ import annotations

from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob, kind_suffix, other_rates
from components.jobs.deepspeed import (
    EXAMPLES,
    deepspeed_call,
    deepspeed_kind,
    deepspeed_launcher,
    deepspeed_workers,
)
from components.jobs.environment import mpirun_command, program_path
from components.jobs.mpi import launched_job, mpi_job
from components.jobs.templates import fit_name
from components.model.cluster import ClusterSpec
from components.model.jobs import Collective, DeepSpeed, DeepSpeedScan
from components.model.worker_kinds import WorkerKind

SCAN_PROBE: Final = "deepspeed-scan"


def scan_call(maxsize_exponent: int) -> tuple[str, ...]:
    """DeepSpeed's all-reduce in all sizes up to 2^(exponent - 1) elements a rank."""
    options = ("--scan", "--maxsize", str(maxsize_exponent), "--dist", "torch")
    return deepspeed_call((f"{EXAMPLES}/benchmarks/communication/all_reduce.py", *options))


def scan_job(spec: ClusterSpec, sample: DeepSpeed, scan: DeepSpeedScan) -> ProbeJob:
    """DeepSpeed's own all-reduce over all its workers, in sizes up to 1 GiB a rank and more."""
    call = scan_call(scan.maxsize_exponent)
    kind = deepspeed_kind(spec, sample)
    probe = Probe(
        name=SCAN_PROBE,
        kind="deepspeed_scan",
        rails=tuple(kind.speeds),
        nodes=kind.names[: sample.workers],
        ranks=sample.workers * sample.gpus,
    )
    body = mpi_job(
        spec, SCAN_PROBE, deepspeed_workers(spec, sample), deepspeed_launcher(spec, sample, call)
    )
    return ProbeJob(probe, (body,), watched=0, command=call, image=sample.image)


def nccl_command(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce"
) -> tuple[str, ...]:
    """`mpirun` of one program of nccl-tests over all GPUs of a kind."""
    binary = program_path(spec.jobs.programs.nccl_tests, f"{collective}_perf")
    program = (binary, "-b", "8", "-e", spec.acceptance.nccl_max_size, "-f", "2")
    return mpirun_command(spec, kind.ranks, (*program, "-g", "1"), kind)


def nccl_job(
    spec: ClusterSpec, kind: WorkerKind, collective: Collective = "all_reduce", ending: str = ""
) -> ProbeJob:
    """One NCCL collective over all GPUs of the workers of a kind, on all rails that they have."""
    command = nccl_command(spec, kind, collective)
    name = f"nccl-{collective.replace('_', '-')}{kind_suffix(spec, kind)}{ending}"
    probe = Probe(
        name=name,
        kind="nccl",
        rails=tuple(kind.speeds),
        nodes=kind.names,
        ranks=kind.ranks,
        collective=collective,
        rates=other_rates(spec, kind.speeds),
    )
    # The last worker's name must be a DNS label for the operator (`validateMPIJobName` of
    # kubeflow/mpi-operator), and a kind may be called as its first host is.
    job = fit_name(name, f"-worker-{len(kind.hosts) - 1}")
    return ProbeJob(
        probe,
        (launched_job(spec, job, kind, command, spec.jobs.image),),
        watched=0,
        command=command,
        image=spec.jobs.image,
    )
