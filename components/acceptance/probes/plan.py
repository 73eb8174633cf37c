"""Which probes a site gets, derived from the plan of the rails."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from components.acceptance.probes.nccl import nccl_job
from components.acceptance.probes.perftest import Pair, perftest_job
from components.acceptance.probes.probe_job import ProbeJob, memlock_job
from components.acceptance.probes.scan import scan_job
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host


@dataclass(frozen=True, slots=True)
class ClusterProbes:
    """The probes that run as jobs of a cluster; empty on a site without Kubernetes."""

    jobs: tuple[ProbeJob, ...] = ()
    memlock: tuple[Body, ...] = ()
    """One Job per worker that prints the pod's locked-memory limit; numbered like a probe."""


def plan_probes(spec: ClusterSpec) -> ClusterProbes:
    """Plan the jobs that prove the path.

    Each rail is tested between neighbours in the order of the file, so that every worker takes
    part; the collectives need the MPI operator, two workers and GPUs.
    """
    if spec.kubernetes is None:
        return ClusterProbes()
    return ClusterProbes(
        jobs=(*_rail_probes(spec), *_case_probes(spec), *_collectives(spec), *_scan(spec)),
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
