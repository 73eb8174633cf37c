"""The probes of a cluster as jobs: numbered when they run, deleted afterwards.

They run in pods on the rails' own attachments: a test on the PF would prove a path that no job
uses.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.evidence import Probe
from components.core.to_json import OMIT_EMPTY
from components.jobs.deepspeed import (
    EXAMPLES,
    deepspeed_call,
    deepspeed_kind,
    deepspeed_launcher,
    deepspeed_workers,
)
from components.jobs.environment import job_script, mpirun_command, program_path
from components.jobs.mpi import launched_job, mpi_job
from components.jobs.templates import JsonObject, fit_name, make_container, make_limits, make_pod
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Collective, DeepSpeed, DeepSpeedScan
from components.model.once import once
from components.model.worker_kinds import WorkerKind, gpu_kinds, speed_classes
from components.pod_network.manifests import gpu_runtime


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe and its objects."""

    probe: Probe
    objects: tuple[Body, ...]
    """The objects in the order of creation; their names have a placeholder for the run's number."""
    watched: int
    """Index of the object that ends the probe, and whose log is the result."""
    command: tuple[str, ...]
    """Its command, for people."""
    image: str
    """The image that it runs in."""
    runs_s: int = field(default=0, metadata=OMIT_EMPTY)
    """Seconds of its intended run, which are added to its deadline."""


def memlock_job(spec: ClusterSpec, host: Host) -> Body:
    """Print the locked-memory limit of a pod on one worker; it should be `unlimited`."""
    container: JsonObject = {
        "name": "memlock",
        "image": spec.jobs.image,
        "command": ["/bin/sh", "-c", "ulimit -l"],
    }
    pod: JsonObject = {
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": host.node},
            "containers": [container],
        }
    }
    return make_pod(spec, f"memlock-{host.name}", pod)


@once
def rail_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """Each rail to the slowest speed of a worker there, in Gbit/s; 0 if the rail has no worker."""
    return {rail.name: min(speed_classes(spec, rail), default=0) for rail in spec.rails}


def other_rates(spec: ClusterSpec, speeds: Mapping[str, int]) -> dict[str, float]:
    """The rails on which a probe is faster than the slowest worker of the rail, in Gbit/s.

    Without these rates a fast pair would pass with the speed of the slowest worker.
    """
    slowest = rail_speeds(spec)
    return {rail: float(speed) for rail, speed in speeds.items() if speed != slowest[rail]}


def kind_suffix(spec: ClusterSpec, kind: WorkerKind) -> str:
    """A suffix for the probes of one kind of workers; empty if the site has one kind."""
    return f"-{kind.name}" if len(gpu_kinds(spec)) > 1 else ""


LOAD_ITERATIONS: Final = 400
"""All-reduces of 2 GiB, in place and out of place: 8 s at 400 GB/s over NVLink, long enough to read
the clocks three times, and 150 s at 20 GB/s over PCIe."""


def node_job(spec: ClusterSpec, host: Host, ending: str = "") -> ProbeJob:
    """Make the check of a node's GPUs, with NCCL between them as the load if it has several."""
    programs = spec.jobs.programs
    load: tuple[str, ...] = ()
    if host.gpus > 1:
        size = spec.acceptance.nccl_max_size
        load = (program_path(programs.nccl_tests, "all_reduce_perf"), "-b", size, "-e", size)
        load += ("-n", str(LOAD_ITERATIONS), "-g", str(host.gpus))
    settings = {
        "load": shlex.join(("env", "NCCL_DEBUG=INFO", *load)) if load else "",
        "bandwidth": "nvbandwidth",
        "diagnose": "1",
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in settings.items()]
    container = make_container(spec.jobs.image, "node", make_limits({}, host.gpus))
    container["command"] = ["/bin/sh", "-c", "".join(lines) + job_script("node_health")]
    pod: JsonObject = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": host.node},
        "containers": [container],
        **gpu_runtime(spec),
    }
    name = f"node-{host.name}{ending}"
    probe = Probe(name=name, kind="node", rails=(), nodes=(host.name,), ranks=host.gpus)
    job = make_pod(spec, name, {"spec": pod})
    return ProbeJob(probe, (job,), watched=0, command=("node_health", *load), image=spec.jobs.image)


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
