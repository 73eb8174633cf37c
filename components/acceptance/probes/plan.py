"""Which probes a site gets, derived from the plan of the rails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from components.acceptance.between_leaves import ports_between
from components.acceptance.flows import flows_for
from components.acceptance.probes.image import image_jobs
from components.acceptance.probes.nccl import nccl_job
from components.acceptance.probes.perftest import RAIL_CASE, perftest_job, with_flows
from components.acceptance.probes.probe_job import ProbeJob, memlock_job
from components.acceptance.probes.scan import scan_job
from components.kubernetes.manifest import Body
from components.kubernetes.pods import pulling
from components.model.acceptance import PerftestCase
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.rail_subnets import leaves_of_hosts
from components.model.worker_kinds import RailPair, gpu_kinds, rail_pairs


@dataclass(frozen=True, slots=True)
class ClusterProbes:
    """The probes that run as jobs of a cluster; empty on a site without Kubernetes."""

    jobs: tuple[ProbeJob, ...] = ()
    images: tuple[ProbeJob, ...] = ()
    """Looks at the images of these jobs, which come before them."""
    memlock: tuple[Body, ...] = ()
    """One Job per worker that prints the pod's locked-memory limit; numbered like a probe."""


def plan_probes(spec: ClusterSpec) -> ClusterProbes:
    """Plan the jobs that prove the path.

    The images of the jobs are looked at first. Each rail is tested between neighbours of one
    speed, so that every worker takes part; the collectives need the MPI operator, and two workers
    of one kind with GPUs.
    """
    if spec.kubernetes is None:
        return ClusterProbes()
    jobs = [*_rail_probes(spec), *_case_probes(spec), *_collectives(spec), *_scan(spec)]
    return ClusterProbes(
        jobs=_pulling_jobs(spec, jobs),
        images=_pulling_jobs(spec, image_jobs(spec, jobs)),
        memlock=_pulling(spec, (memlock_job(spec, host) for host in spec.workers)),
    )


def _pulling_jobs(spec: ClusterSpec, jobs: Iterable[ProbeJob]) -> tuple[ProbeJob, ...]:
    return tuple(replace(job, objects=_pulling(spec, job.objects)) for job in jobs)


def _pulling(spec: ClusterSpec, bodies: Iterable[Body]) -> tuple[Body, ...]:
    return tuple(pulling(spec, body) for body in bodies)


def _rail_probes(spec: ClusterSpec) -> list[ProbeJob]:
    return [
        perftest_job(spec, rail, pair, _rail_case(spec, rail, pair))
        for rail in spec.rails
        for pair in rail_pairs(spec, rail)
    ]


def _rail_case(spec: ClusterSpec, rail: Rail, pair: RailPair) -> PerftestCase:
    """Between two leaves as many connections as it takes to see each link used."""
    leaves = leaves_of_hosts(spec)
    one, other = (leaves.get((host.name, rail.name), "") for host in (pair.client, pair.server))
    if not rail.leaves or not one or not other or one == other:
        return RAIL_CASE
    ways = ports_between(spec, one, other)
    return with_flows(flows_for(sum(role == "uplink_egress" for role, _, _ in ways)))


def _case_probes(spec: ClusterSpec) -> list[ProbeJob]:
    """The cases of the file, between the first two workers of the first rail."""
    pairs = [(rail, next(rail_pairs(spec, rail), None)) for rail in spec.rails[:1]]
    return [
        perftest_job(spec, rail, pair, case)
        for case in spec.acceptance.perftest
        for rail, pair in pairs
        if pair is not None
    ]


def _collectives(spec: ClusterSpec) -> list[ProbeJob]:
    if not spec.jobs.mpi_operator:
        return []
    return [
        nccl_job(spec, kind, collective)
        for kind in gpu_kinds(spec)
        if kind.runs_collectives
        for collective in spec.acceptance.collectives
    ]


def _scan(spec: ClusterSpec) -> list[ProbeJob]:
    sample, scan = spec.jobs.deepspeed, spec.acceptance.deepspeed_scan
    if sample is None or scan is None or not spec.jobs.mpi_operator:
        return []
    return [scan_job(spec, sample, scan)]
