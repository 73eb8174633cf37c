"""What runs jobs, and the jobs of acceptance, derived from the plan of the rails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from components.jobs.deepspeed import plan_deepspeed, scan_job
from components.jobs.mpi import nccl_job
from components.jobs.perftest import Pair, perftest_job
from components.jobs.templates import ProbeJob, memlock_job, number_objects
from components.kubernetes.manifest import Body, Manifest, make_manifest
from components.kubernetes.vendored import load_vendored
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
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
    """Plan the operator and the probes; nothing of it on a site without Kubernetes.

    Each rail is tested between neighbours in the order of the file, so that every worker takes
    part; the collectives need the MPI operator, two workers and GPUs.
    """
    if spec.kubernetes is None:
        return JobsPlan(manifests=(), probes=(), memlock=())
    return JobsPlan(
        manifests=(_mpi_operator() if spec.jobs.mpi_operator else ()) + plan_deepspeed(spec),
        probes=(*_rail_probes(spec), *_case_probes(spec), *_collectives(spec), *_scan(spec)),
        memlock=tuple(memlock_job(spec, host) for host in spec.workers),
    )


def _rail_probes(spec: ClusterSpec) -> list[ProbeJob]:
    return [perftest_job(spec, pair) for rail in spec.rails for pair in _pairs(spec, rail)]


def _case_probes(spec: ClusterSpec) -> list[ProbeJob]:
    """The cases of the file, between the first two workers of the first rail."""
    pairs = [pair for rail in spec.rails[:1] for pair in _pairs(spec, rail)[:1]]
    return [perftest_job(spec, pair, case) for case in spec.acceptance.perftest for pair in pairs]


def _pairs(spec: ClusterSpec, rail: Rail) -> list[Pair]:
    hosts = [host for host in spec.workers if _has_rail(host, rail.name)]
    return [Pair(rail, client, server) for client, server in pairwise(hosts)]


def _collectives(spec: ClusterSpec) -> list[ProbeJob]:
    if not (spec.jobs.mpi_operator and len(spec.workers) > 1 and spec.workers[0].gpus):
        return []
    return [nccl_job(spec, collective) for collective in spec.acceptance.collectives]


def _scan(spec: ClusterSpec) -> list[ProbeJob]:
    sample, scan = spec.jobs.deepspeed, spec.acceptance.deepspeed_scan
    if sample is None or scan is None or not spec.jobs.mpi_operator:
        return []
    return [scan_job(spec, sample, scan)]


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
