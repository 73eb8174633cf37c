"""DeepSpeed's own all-reduce as a probe."""

from __future__ import annotations

from typing import Final

from components.acceptance.evidence import Probe
from components.acceptance.probes.probe_job import ProbeJob
from components.jobs.deepspeed import (
    EXAMPLES,
    deepspeed_call,
    deepspeed_kind,
    deepspeed_launcher,
    deepspeed_workers,
)
from components.jobs.mpi import mpi_job
from components.model.acceptance import DeepSpeedScan
from components.model.cluster import ClusterSpec
from components.model.jobs import DeepSpeed

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
