"""Plan the probes of a site from the plan of its rails, and list what they do not prove."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from components.acceptance.evidence import Probe, Unproven, WorkerGroup
from components.acceptance.probes.probe_job import (
    PERFTEST_SECONDS,
    PairTest,
    ProbeJob,
    memlock_job,
    nccl_job,
    node_job,
    perftest_job,
    programs_of,
    scan_job,
)
from components.acceptance.probes.suites import (
    AT_ONCE,
    LIMIT_S,
    PODS_A_SECOND,
    START_S,
    Budget,
    Part,
    in_turn,
    plan_pairs,
)
from components.catalogue.upstream import NCCL_ON_MACVLAN, NCCL_SUSPECT_ON_V100
from components.jobs.environment import job_script, program_path
from components.jobs.templates import SSHD, JsonObject, make_job
from components.kubernetes.manifest import Body, pulling
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.owners import runs_on_foreign_fabric, way_of
from components.model.places import shares_resource
from components.model.worker_kinds import (
    PAIR,
    gpu_kinds,
    on_infiniband,
    rail_pairs,
    speed_classes,
    speeds_of,
    worker_kinds,
)

NODE_S: Final = 180
"""Seconds of one check of a node's GPUs: copies 60 s, diagnosis 30 s, load 10 s over NVLink
(recorded on an H200: 75 s in all); the rest is for PCIe."""
COLLECTIVE_S: Final = 60
"""Seconds of one collective with few ranks."""
MOST_RANKS: Final = 8192
"""Most ranks of a collective in `quick` and `soak`: more would use up their time."""
RANKS_A_SECOND: Final = 100
"""Ranks that mpirun starts and NCCL connects in a second (a choice, unproven on large sites)."""
TRIAL_PORT: Final = 2299
"""The port of the trial sshd in the pod, on its loopback address; above 1023, which every user may
open."""
_SSH: Final = (SSHD, "ssh", "ssh-keygen")
"""`ssh-keygen` makes the key of the trial; OpenSSH's client package has both."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def image_jobs(spec: ClusterSpec, jobs: Sequence[ProbeJob]) -> list[ProbeJob]:
    """One check for each image of the jobs, in the order of the jobs."""
    images = dict.fromkeys(job.image for job in jobs)
    named = {spec.jobs.image: "image-jobs"}
    return [_look(spec, named.get(image, "image-deepspeed"), image, jobs) for image in images]


def _look(spec: ClusterSpec, name: str, image: str, jobs: Iterable[ProbeJob]) -> ProbeJob:
    mine = [job.probe for job in jobs if job.image == image]
    has_v100 = any("V100" in (host.gpu_model or "").upper() for host in spec.workers if host.gpus)
    kinds = {probe.kind for probe in mine}
    programs = spec.jobs.programs
    linked = [
        program_path(programs.nccl_tests, f"{probe.collective}_perf")
        for probe in mine
        if probe.kind == "nccl"
    ]
    mpirun = (programs.mpirun or "mpirun") if linked else ""
    calls = [job.command for job in jobs if job.image == image and job.probe.kind == "perftest"]
    called = [("ib_write_bw",), *calls] if calls else []
    needed = [
        *((mpirun, *linked, *_SSH) if linked else ()),
        # Every program of perftest, with the name that it has there.
        *dict.fromkeys(each for call in called for each in programs_of(call)),
        *(("deepspeed", "pdsh", "getent", *_SSH) if "deepspeed_scan" in kinds else ()),
    ]
    sample = spec.jobs.deepspeed
    scans = "deepspeed_scan" in kinds and not (sample and sample.host_network)
    # In such pods the driver may hide the GIDs of the same card from NCCL.
    hides = way_of(spec) == "macvlan" and spec.jobs.gid_index is None
    probe = Probe(
        name=name,
        kind="image",
        rails=(),
        nodes=(),
        image=image,
        programs=tuple(needed),
        nccl_least=NCCL_ON_MACVLAN if hides and ("nccl" in kinds or scans) else "",
        nccl_suspect=NCCL_SUSPECT_ON_V100 if has_v100 else "",
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


def _pod(spec: ClusterSpec, image: str, script: str) -> JsonObject:
    """Make a pod on a worker with GPUs if there is one; it asks for none, to avoid waiting."""
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
    rounds: tuple[int, ...] = ()
    """The round of each job, in the same order: jobs with the same number run at once; 0 runs
    alone."""
    images: tuple[ProbeJob, ...] = ()
    """Checks of these jobs' images, which come first."""
    memlock: tuple[Body, ...] = ()
    """One pod per worker that prints its locked-memory limit; numbered like a probe."""
    budget: Budget | None = None


def plan_probes(spec: ClusterSpec) -> ClusterProbes:
    """Plan the probes of the path: as many as the file's suite has time for.

    The images of the jobs come first, then the GPUs of each node, then pairs in rounds; the
    collectives need the MPI operator, and two workers of one kind with GPUs.
    """
    if spec.kubernetes is None:
        return ClusterProbes()
    # Choose the hosts whose GPUs are checked: all, or as many as fit a third of the time.
    hosts = [host for host in spec.workers if host.gpus]
    turns = max(LIMIT_S[spec.acceptance.suite] // 3 // (START_S + NODE_S), 1)
    looked = _spaced(hosts, turns * AT_ONCE)
    looks = [node_job(spec, host) for host in looked]
    alone = _alone(spec)
    # Seconds of everything except rounds of pairs: first of the pods for locked memory.
    others_s = START_S + len(spec.workers) / PODS_A_SECOND
    times = 2 if spec.acceptance.suite == "soak" else 1
    others_s += times * ((START_S + NODE_S) * in_turn(len(looks)) + len(looks) / PODS_A_SECOND)
    for job in alone:
        ranks_s = job.probe.ranks / RANKS_A_SECOND
        others_s += START_S + (COLLECTIVE_S + ranks_s if job.probe.ranks else PERFTEST_SECONDS)
    parts = plan_pairs(spec, others_s)
    found = [(1, job) for job in looks]
    rounds = [each for part in parts for each in part.rounds]
    found += [
        (number, perftest_job(spec, pair, test))
        for number, tests in enumerate(rounds, 2)
        for pair, test in tests
    ]
    found += [(0, job) for job in alone]
    if spec.acceptance.suite == "soak":
        found += [(len(rounds) + 2, node_job(spec, host, "-after")) for host in looked]
    jobs = [job for _, job in found]
    return ClusterProbes(
        jobs=_pulling_jobs(spec, jobs),
        rounds=tuple(number for number, _ in found),
        images=_pulling_jobs(spec, image_jobs(spec, jobs)),
        memlock=tuple(pulling(spec, memlock_job(spec, host)) for host in spec.workers),
        budget=_budget(spec, parts, len(looks), alone, others_s),
    )


def _spaced(hosts: Sequence[Host], most: int) -> tuple[Host, ...]:
    count = min(len(hosts), most)
    return tuple(hosts[place * len(hosts) // count] for place in range(count))


def _budget(
    spec: ClusterSpec, parts: Sequence[Part], looks: int, alone: Sequence[ProbeJob], others_s: float
) -> Budget:
    suite = spec.acceptance.suite
    soak_s = spec.acceptance.soak_s if suite == "soak" else 0
    most = f", {AT_ONCE}" if looks > AT_ONCE else ""
    gpus = sum(host.gpus > 0 for host in spec.workers)
    nodes = f"{looks} of {gpus}" if looks < gpus else str(looks)
    lines = [f"the GPUs of each node: {nodes} nodes{most} at once"] if looks else []
    lines += [part.line for part in parts]
    lines += [f"alone: {', '.join(job.probe.name for job in alone)}"] if alone else []
    expected_s = round(others_s + sum(part.expected_s for part in parts))
    return Budget(suite, expected_s, LIMIT_S[suite] + soak_s, tuple(lines))


def _pulling_jobs(spec: ClusterSpec, jobs: Iterable[ProbeJob]) -> tuple[ProbeJob, ...]:
    return tuple(
        replace(job, objects=tuple(pulling(spec, body) for body in job.objects)) for job in jobs
    )


def _alone(spec: ClusterSpec) -> list[ProbeJob]:
    """The file's cases between the first two workers of the first rail, then the collectives."""
    first = [(pair, rail.name) for rail in spec.rails[:1] for pair in rail_pairs(spec, rail)][:1]
    found = [
        perftest_job(spec, pair, PairTest(case.name, rail, (case,)))
        for case in spec.acceptance.perftest
        for pair, rail in first
    ]
    if not spec.jobs.mpi_operator:
        return found
    kinds = [kind for kind in gpu_kinds(spec) if kind.runs_collectives]
    if spec.acceptance.suite != "full":
        spaced = ((kind, _spaced(kind.hosts, MOST_RANKS // kind.gpus)) for kind in kinds)
        kinds = [replace(kind, hosts=hosts) for kind, hosts in spaced]
    names = spec.acceptance.collectives
    found += [nccl_job(spec, kind, name) for kind in kinds for name in names]
    if spec.acceptance.suite == "full":
        found += [
            nccl_job(spec, replace(kind, hosts=hosts), name, f"-half-{number}")
            for kind in kinds
            if len(kind.hosts) >= 2 * PAIR
            for middle in (len(kind.hosts) // 2,)
            for number, hosts in enumerate((kind.hosts[:middle], kind.hosts[middle:]), 1)
            for name in names
        ]
    sample, scan = spec.jobs.deepspeed, spec.acceptance.deepspeed_scan
    return found + ([scan_job(spec, sample, scan)] if sample and scan else [])


def worker_groups(spec: ClusterSpec) -> tuple[WorkerGroup, ...]:
    """The kinds of workers, and the reason if one runs no collective; empty for a single kind."""
    kinds = worker_kinds(spec)
    if len(kinds) <= 1:
        return ()
    found: list[WorkerGroup] = []
    for kind in kinds:
        why = "" if kind.gpus else "no GPUs, so no collective runs there"
        if kind.gpus and len(kind.hosts) < PAIR:
            why = (
                f"{kind.name} is the only worker of its kind, so no collective reaches another host"
            )
        rails, names = tuple(kind.speeds), kind.names
        found.append(
            WorkerGroup(name=kind.name, hosts=names, gpus=kind.gpus, rails=rails, unproven=why)
        )
    return tuple(found)


def list_unproven(spec: ClusterSpec) -> tuple[Unproven, ...]:
    """Rails, speeds and hosts that no probe of the site proves."""
    found = [
        Unproven(
            subject=host.name,
            what=f"its link to {rail}",
            why=f"a {host.role.replace('_', ' ')} host runs no probe",
        )
        for host in spec.hosts
        if host.role != "worker"
        for rail in speeds_of(spec, host)
    ]
    # Only a login shows these; pods prove bandwidth, transport and memory limits.
    what = "counters, driver, firmware and settings of its cards"
    what += ", its InfiniBand ports and partitions" if spec.infiniband is not None else ""
    strangers = (host.name for host in spec.workers if host.ssh is None)
    found += [Unproven(subject=name, what=what, why="no login") for name in strangers]
    if runs_on_foreign_fabric(spec):
        what = "queues, ECN, PFC, MTU and drops of every hop between the cards"
        found.append(Unproven(subject="fabric", what=what, why="the file lists no switches"))
    if spec.rdma.transport == "roce":
        found += [*_on_rails(spec)]
        why = "the worker is on no rail"
        fitted = {host.name for host in spec.workers if speeds_of(spec, host)}
    else:
        why = "the worker lacks an InfiniBand adapter"
        fitted = {host.name for host in on_infiniband(spec)}
    lacking = (host.name for host in spec.workers if host.name not in fitted)
    return (*found, *(Unproven(subject=name, what="RDMA", why=why) for name in lacking))


def _on_rails(spec: ClusterSpec) -> Iterator[Unproven]:
    if shares_resource(spec) and spec.kubernetes is not None:
        why = "all rails share one resource, so a pod cannot choose the rail of its VF"
        yield Unproven(subject="rails", what="the bandwidth of each one alone", why=why)
        return
    for rail in spec.rails:
        classes = speed_classes(spec, rail)
        only = next(iter(classes.values())) if len(classes) == 1 else ()
        if len(only) == 1:
            why = "no other worker is on that rail"
            yield Unproven(subject=only[0].name, what=rail.name, why=why)
            continue
        proven = {pair.speed_gbit_s for pair in rail_pairs(spec, rail)}
        why = f"no other worker has it there; proven at {min(classes, default=0)} Gbit/s"
        for speed in (each for each in classes if each not in proven):
            what = f"{speed} Gbit/s on {rail.name}"
            yield Unproven(subject=classes[speed][0].name, what=what, why=why)
