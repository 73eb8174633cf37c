"""Rules on what acceptance asks for, and on the jobs that prove it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.model.cluster import ClusterSpec
from components.model.jobs import ARENA_RESOURCE
from components.model.worker_kinds import fitting_kind, gpu_kinds, worker_kinds

_PAIR: Final = 2
_SHARED_MODE: Final = "ReadWriteMany"


def check_perftest_case(spec: ClusterSpec) -> Findings:
    """Perftest takes the options of a case together, and the case can be run.

    The tool prints the CPU's share in duration mode only, and refuses that mode with all sizes. The
    test runs in pods on a rail: it needs Kubernetes, a rail, and two workers.
    """
    path = ("acceptance", "perftest")
    names = Counter(case.name for case in spec.acceptance.perftest)
    for index, case in enumerate(spec.acceptance.perftest):
        place = (*path, index)
        if case.cpu_util and case.duration_s is None:
            yield Finding(
                f"perftest {case.name} asks for the CPU's share without duration_s.",
                (at((*place, "cpu_util"), case.cpu_util),),
                "add duration_s: 10, or remove cpu_util.",
            )
        if case.all_sizes and case.duration_s is not None:
            yield Finding(
                f"perftest {case.name} asks for all sizes and for a duration.",
                (at((*place, "all_sizes")), at((*place, "duration_s"), case.duration_s)),
                "remove one of the two; make two cases of it.",
            )
        if names[case.name] > 1:
            yield Finding(
                f"two perftest cases are called {case.name}.",
                (at((*place, "name"), case.name),),
                "rename one of them: each is a Job of its own.",
            )
    if spec.acceptance.perftest and not _has_pods_on_rails(spec):
        what = "between pods of two workers on a rail, and this site has none"
        fix = "every rail has its own test anyway"
        if spec.rdma.transport == "infiniband":
            what = "between pods on rails of RoCE, and this site is InfiniBand"
            fix = "on InfiniBand the NCCL jobs alone prove the adapters"
        yield Finding(
            f"perftest cases run {what}.",
            (at(path),),
            f"remove acceptance.perftest; {fix}.",
        )


def _has_pods_on_rails(spec: ClusterSpec) -> bool:
    return spec.kubernetes is not None and bool(spec.rails) and len(spec.workers) >= _PAIR


def check_deepspeed_scan(spec: ClusterSpec) -> Findings:
    """DeepSpeed's scan is run by DeepSpeed's workers, which the MPI operator starts."""
    scan, sample = spec.acceptance.deepspeed_scan, spec.jobs.deepspeed
    if scan is not None and sample is None:
        yield Finding(
            "acceptance asks for DeepSpeed's scan, and jobs.deepspeed is absent.",
            (at(("acceptance", "deepspeed_scan")),),
            "add jobs.deepspeed with an image and workers, or remove deepspeed_scan.",
        )
    if sample is not None and (spec.kubernetes is None or not spec.jobs.mpi_operator):
        reason = "there is no Kubernetes" if spec.kubernetes is None else "the MPI operator is off"
        yield Finding(
            f"DeepSpeed's jobs are MPIJobs, and {reason}.",
            (at(("jobs", "deepspeed")),),
            "remove jobs.deepspeed, or give the site Kubernetes and the MPI operator.",
        )


def check_deepspeed_workers(spec: ClusterSpec) -> Findings:
    """Each of DeepSpeed's workers fits on a node of its own; else they stay Pending for ever.

    They run on workers of one kind: with the same GPUs, rails and speeds.
    """
    sample = spec.jobs.deepspeed
    if sample is None or not spec.workers:
        return
    if fitting_kind(spec, sample.workers, sample.gpus) is not None:
        return
    # The kind that comes nearest is the one with the most GPUs among those with hosts enough.
    kinds = worker_kinds(spec)
    able = [kind for kind in kinds if len(kind.hosts) >= sample.workers] or [
        max(kinds, key=lambda kind: len(kind.hosts))
    ]
    best = max(able, key=lambda kind: kind.gpus)
    count, gpus = len(best.hosts), best.gpus
    if sample.workers > count:
        yield Finding(
            f"DeepSpeed wants {sample.workers} workers, one on a node, and there are {count}"
            f"{' of one kind' if len(kinds) > 1 else ''}.",
            places(spec, "jobs.deepspeed.workers"),
            f"set workers to {count} or less.",
        )
    if sample.gpus > gpus:
        yield Finding(
            f"DeepSpeed wants {sample.gpus} GPUs a worker, and a node has {gpus}.",
            places(spec, "jobs.deepspeed.gpus"),
            f"set gpus to {gpus} or less.",
        )


def check_shared_claim(spec: ClusterSpec) -> Findings:
    """Workers on several nodes share a volume that several nodes can mount.

    A claim that is `ReadWriteOnce` is mounted on one node, and a folder of a node (`hostPath`) is
    another folder on the next one: checkpoints of half of the workers would be lost.
    """
    sample = spec.jobs.deepspeed
    if sample is None or sample.workers < _PAIR:
        return
    path = ("jobs", "deepspeed")
    if sample.access_mode != _SHARED_MODE:
        yield Finding(
            f"{sample.workers} workers share {sample.claim}, which is {sample.access_mode}.",
            (at((*path, "access_mode"), sample.access_mode), at((*path, "workers"))),
            f"set access_mode to {_SHARED_MODE}.",
        )
    if sample.nfs_server is None:
        yield Finding(
            f"without nfs_server {sample.path} is another folder for each worker.",
            (at((*path, "path"), sample.path), at((*path, "workers"))),
            "set nfs_server to the server that exports it.",
        )


def check_arena_resource(spec: ClusterSpec) -> Findings:
    """With `rdma_shared`, the resource that Arena's `--rdma` requests is published.

    Arena asks for `rdma/hca` whatever the plugin publishes; under another name alone its workers
    stay Pending. Both names may select the same cards.
    """
    network = spec.pod_network
    if spec.jobs.deepspeed is None or network.mode != "rdma_shared":
        return
    names = [device.resource for device in network.shared_devices]
    if ARENA_RESOURCE not in names:
        listed = ", ".join(f"{network.resource_prefix}/{name}" for name in names) or "nothing"
        yield Finding(
            f"DeepSpeed's workers request {network.resource_prefix}/{ARENA_RESOURCE}, as Arena "
            f"does, and the plugin publishes {listed}.",
            (at(("pod_network", "shared_devices")), at(("jobs", "deepspeed"))),
            f"add a shared device with resource: {ARENA_RESOURCE} and the same selectors.",
        )


def check_nccl_floor(spec: ClusterSpec) -> Findings:
    """A floor in GB/s means the same algorithm, and the warning is not below it.

    With two workers NCCL takes a tree, whose bus bandwidth is above what the adapters carry: a
    floor made of the line rate would pass with an adapter missing. A ring shows what they carry.
    """
    floor, algo = spec.acceptance.nccl_floor, spec.acceptance.nccl_algo
    path = ("acceptance", "nccl_floor")
    if floor is None:
        return
    if floor.warn_gbyte_s is not None and floor.warn_gbyte_s < floor.min_gbyte_s:
        yield Finding(
            f"no warning below {floor.warn_gbyte_s:g} GB/s is given: {floor.min_gbyte_s:g} fails.",
            (at((*path, "warn_gbyte_s"), floor.warn_gbyte_s), at((*path, "min_gbyte_s"))),
            "make warn_gbyte_s the larger of the two.",
        )
    kinds = [kind for kind in gpu_kinds(spec) if kind.runs_collectives]
    if len(kinds) > 1:
        names = ", ".join(kind.name for kind in kinds)
        yield Finding(
            f"nccl_floor is one number, for {len(kinds)} kinds of workers: {names}.",
            (at((*path, "min_gbyte_s"), floor.min_gbyte_s),),
            "remove nccl_floor: nccl_min_fraction is of the line rate of each kind.",
        )
    if "all_reduce" in spec.acceptance.collectives and _is_tree(spec):
        shown = "NCCL may pick the tree algorithm" if algo is None else f"nccl_algo is {algo}"
        yield Finding(
            f"nccl_floor cannot be judged: with two workers {shown}, which has no line rate.",
            (at(("acceptance", "nccl_algo"), algo), at(path)),
            "set nccl_algo to RING.",
        )


def _is_tree(spec: ClusterSpec) -> bool:
    pairs = any(kind.gpus and len(kind.hosts) == _PAIR for kind in worker_kinds(spec))
    return spec.acceptance.nccl_algo != "RING" and pairs


def check_gid_index(spec: ClusterSpec) -> Findings:
    """On InfiniBand no GID index is set: it makes NCCL route packets that need no routing.

    A cloud's training job is reported to be ten times slower with index 3, which is RoCE's.
    """
    index = spec.jobs.gid_index
    if index is not None and spec.rdma.transport == "infiniband":
        yield Finding(
            f"NCCL would use GID {index} on InfiniBand, where addresses in one subnet need none.",
            places(spec, "jobs.gid_index", "rdma.transport"),
            "remove gid_index.",
        )


def check_topology_hint(spec: ClusterSpec) -> Findings:
    """A topology file is for virtual machines; on bare metal NCCL reads the PCIe tree itself.

    A file that differs from the machine makes NCCL take the wrong card for a GPU.
    """
    file = spec.jobs.topology_file
    if file is not None and spec.cloud is None and not spec.hypervisors:
        yield Finding(
            "NCCL is given a topology file on bare metal, where it sees the PCIe tree itself.",
            places(spec, "jobs.topology_file.host_path"),
            "remove topology_file, unless the machine hides its switches.",
            "warning",
        )
