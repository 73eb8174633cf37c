"""What runs jobs, and the jobs of acceptance, derived from the plan of the rails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from components.jobs.templates import (
    ProbeJob,
    memlock_job,
    nccl_job,
    number_objects,
    perftest_job,
)
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.model.hosts import Host

__all__ = ["JobsPlan", "ProbeJob", "number_objects", "plan_jobs"]

MPI_OPERATOR_FILE: Final = "mpi-operator-v0.8.2.json.gz"
_LAST_KINDS: Final = frozenset({"Deployment"})


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """The MPI operator, and the probes that acceptance runs."""

    manifests: tuple[Manifest, ...]
    probes: tuple[ProbeJob, ...]
    memlock: tuple[Body, ...]
    """One Job per worker that prints the pod's locked-memory limit; numbered like a probe."""


def plan_jobs(spec: ClusterSpec) -> JobsPlan:
    """Plan the operator and the probes.

    Each rail is tested between neighbours in the order of the file, so that every worker takes
    part; the all-reduce needs the MPI operator, two workers and GPUs.
    """
    pairs = [
        perftest_job(spec, rail, sender, receiver)
        for rail in spec.rails
        for sender, receiver in pairwise(
            host for host in spec.workers if _has_rail(host, rail.name)
        )
    ]
    collective = (
        [nccl_job(spec)]
        if spec.jobs.mpi_operator and len(spec.workers) > 1 and spec.workers[0].gpus
        else []
    )
    return JobsPlan(
        manifests=_mpi_operator() if spec.jobs.mpi_operator else (),
        probes=(*pairs, *collective),
        memlock=tuple(memlock_job(spec, host) for host in spec.workers),
    )


def _has_rail(host: Host, rail: str) -> bool:
    return any(nic.rail == rail for nic in host.nics)


def _mpi_operator() -> tuple[Manifest, ...]:
    bodies = load_vendored("components.jobs", MPI_OPERATOR_FILE)
    ordered = sorted(bodies, key=_group)
    return tuple(make_manifest("mpi-operator", body, _group(body)) for body in ordered)


def _group(body: Body) -> int:
    """The namespace first, then what needs it, then the operator itself."""
    if body["kind"] == "Namespace":
        return 0
    return 2 if body["kind"] in _LAST_KINDS else 1
