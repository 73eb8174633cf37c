"""Which probes a site gets, derived from the plan of the rails."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from components.acceptance.between_leaves import flows_for, ports_between
from components.acceptance.evidence import Probe
from components.acceptance.probes.nccl import nccl_job, scan_job
from components.acceptance.probes.perftest import RAIL_CASE, perftest_job, with_flows
from components.acceptance.probes.probe_job import ProbeJob, memlock_job
from components.catalogue.upstream import NCCL_ON_MACVLAN, NCCL_SUSPECT_ON_V100
from components.jobs.environment import job_script, program_path
from components.jobs.templates import SSHD, JsonObject, make_job
from components.kubernetes.manifest import Body, pulling
from components.model.acceptance import PerftestCase
from components.model.cluster import ClusterSpec
from components.model.cni import way_of
from components.model.fabric import Rail
from components.model.rail_subnets import leaves_of_hosts
from components.model.worker_kinds import RailPair, gpu_kinds, rail_pairs

TRIAL_PORT: Final = 2299
"""Where sshd is tried in the pod, on its loopback address; above 1023, so that any user may."""
_SSH: Final = (SSHD, "ssh", "ssh-keygen")
"""`ssh-keygen` makes the key of the trial; OpenSSH's client package has both."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def image_jobs(spec: ClusterSpec, jobs: Sequence[ProbeJob]) -> list[ProbeJob]:
    """One look for each image that the jobs use, in the order of the jobs."""
    images = dict.fromkeys(job.image for job in jobs)
    named = {spec.jobs.image: "image-jobs"}
    return [_look(spec, named.get(image, "image-deepspeed"), image, jobs) for image in images]


def _look(spec: ClusterSpec, name: str, image: str, jobs: Iterable[ProbeJob]) -> ProbeJob:
    mine = [job.probe for job in jobs if job.image == image]
    kinds = {probe.kind for probe in mine}
    programs = spec.jobs.programs
    linked = [
        program_path(programs.nccl_tests, f"{probe.collective}_perf")
        for probe in mine
        if probe.kind == "nccl"
    ]
    mpirun = (programs.mpirun or "mpirun") if linked else ""
    needed = [
        *((mpirun, *linked, *_SSH) if linked else ()),
        *(_perftests(spec) if "perftest" in kinds else ()),
        *(("deepspeed", "pdsh", "getent", *_SSH) if "deepspeed_scan" in kinds else ()),
    ]
    probe = Probe(
        name=name,
        kind="image",
        rails=(),
        nodes=(),
        image=image,
        programs=tuple(needed),
        nccl_least=NCCL_ON_MACVLAN if any(_hides_gids(spec, kind) for kind in kinds) else "",
        nccl_suspect=NCCL_SUSPECT_ON_V100 if _has_v100(spec) else "",
    )
    settings = {
        "programs": " ".join(needed),
        "linked": " ".join(linked),
        "mpirun": mpirun,
        "port": str(TRIAL_PORT),
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in settings.items()]
    script = "".join(lines) + job_script("image_check")
    return ProbeJob(
        probe, (make_job(spec, name, _pod(spec, image, script)),), 0, ("image_check", image), image
    )


def _hides_gids(spec: ClusterSpec, kind: str) -> bool:
    """Whether a probe runs NCCL in pods from which the driver may hide GIDs of the same card."""
    sample = spec.jobs.deepspeed
    in_host = kind == "deepspeed_scan" and sample is not None and sample.host_network
    runs_nccl = kind in ("nccl", "deepspeed_scan") and spec.jobs.gid_index is None
    return runs_nccl and way_of(spec) == "macvlan" and not in_host


def _has_v100(spec: ClusterSpec) -> bool:
    return any("V100" in (host.gpu_model or "").upper() for host in spec.workers if host.gpus)


def _perftests(spec: ClusterSpec) -> list[str]:
    cases: tuple[PerftestCase, ...] = spec.acceptance.perftest
    tools = dict.fromkeys(["ib_write_bw", *(case.tool for case in cases)])
    return [program_path(spec.jobs.programs.perftest, tool) for tool in tools]


def _pod(spec: ClusterSpec, image: str, script: str) -> JsonObject:
    """On a worker with GPUs where there is one, and without any: it must not wait for them."""
    nodes = [host.node for host in spec.workers if host.gpus] or [h.node for h in spec.workers]
    here: JsonObject = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    terms: JsonObject = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    return {
        "spec": {
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": {_REQUIRED: terms}},
            "containers": [{"name": "image", "image": image, "command": ["/bin/sh", "-c", script]}],
        }
    }


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
