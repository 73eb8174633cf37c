"""Rules on the settings of jobs, and on the proofs of acceptance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from typing import Final

from components.catalogue.operator_versions import parse_numbers
from components.checks.rule import Finding, Findings, at, find, places, walk
from components.core.judge import needs
from components.core.problem import render_path
from components.fabric.links import leaves_of_hosts
from components.jobs.templates import HOST_NETWORK_PORT, POD_PORT, nccl_environment
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.jobs import ARENA_RESOURCE, DeepSpeed, PerftestCase, Watch
from components.model.places import device_secrets, has_way
from components.model.texts import fold_names
from components.model.worker_kinds import PAIR, fitting_kind, gpu_kinds, worker_kinds
from components.pod_network.attachment import pod_attachment

_KEYS: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "acceptance.nccl_algo",
    "NCCL_IB_GID_INDEX": "jobs.gid_index",
    "NCCL_IB_TC": "rdma.dscp",
    "UCX_IB_TRAFFIC_CLASS": "rdma.dscp",
    "NCCL_NET_GDR_LEVEL": "jobs.gdr_level",
    "NCCL_TOPO_FILE": "jobs.topology_file",
}
"""Variables that another key of the file decides."""
POLICY_SINCE: Final = (1, 36)
"""The release from which on MutatingAdmissionPolicy is served by default (KEP-3962)."""
_FOUND: Final = "the adapters that each pod finds on its node"
_DECIDED: Final[Mapping[str, str]] = {
    "NCCL_IB_HCA": _FOUND,
    "UCX_NET_DEVICES": _FOUND,
    "NCCL_NET": "RDMA, which NCCL chooses",
    "RAIL_INTERFACE": "the interface of the rail",
}
"""Variables that a job's pod sets when it starts, and their values."""
_PXN_OFF: Final = "NCCL_PXN_DISABLE"
_SHARED_MODE: Final = "ReadWriteMany"
_BY_CRON: Final = "remove watch, and let cron or a systemd timer run `railyard watch`."


def check_job_environment(spec: ClusterSpec) -> Findings:
    """`jobs.env` changes no variable that the plan decides.

    With two values, the one that a shell, mpirun or NCCL reads last would count. The plan's own
    value is allowed.
    """
    planned = {**_DECIDED, **nccl_environment(spec)}
    for name, value in sorted(spec.jobs.env.items()):
        key = _KEYS.get(name)
        wanted = planned.get(name)
        if value == wanted or (wanted is None and key is None):
            continue
        decided = f"the plan sets {wanted}" if wanted else f"{key} decides it"
        where = (at(("jobs", "env", name), value),)
        fix = f"remove it; set {key} if the plan's value is wrong." if key else "remove it."
        yield Finding(f"jobs.env sets {name} to {value}, but {decided}.", where, fix)


def check_pxn(spec: ClusterSpec) -> Findings:
    """Alltoall with PXN off needs routes between the rails.

    Without PXN each card sends to the cards of all rails, and without routes `ibv_modify_qp` fails
    (ROCm/rccl#1303, NVIDIA/nccl#2193).
    """
    value = spec.jobs.env.get(_PXN_OFF, "0")
    asked = "alltoall" in spec.acceptance.collectives and spec.rdma.transport == "roce"
    pairs = permutations(spec.rails, 2) if asked and value != "0" else ()
    for one, other in [pair for pair in pairs if not has_way(spec, *pair)][:1]:
        where = (at(("jobs", "env", _PXN_OFF), value), at(("acceptance", "collectives")))
        yield find("pxn", *where, key=_PXN_OFF, value=value, one=one, other=other)


def check_ssh_port(spec: ClusterSpec) -> Findings:
    """In the host's network, the workers' sshd does not take port 22, which is the host's own.

    The launcher would meet the host's sshd, which refuses the job's key.
    """
    keys = ("pod_network.host_network", "jobs.deepspeed.host_network")
    in_host = [place for place in places(spec, *keys) if place.value == "true"]
    for place in in_host[:1] if spec.jobs.ssh_port == POD_PORT else ():
        words = {"port": POD_PORT, "key": render_path(place.path), "own": HOST_NETWORK_PORT}
        yield find("ssh-port", *places(spec, "jobs.ssh_port"), place, **words)


def check_topology_hint(spec: ClusterSpec) -> Findings:
    """A topology file is for virtual machines; on bare metal NCCL reads the PCIe tree itself.

    With a wrong file NCCL takes the wrong card.
    """
    if spec.jobs.topology_file is not None and spec.cloud is None and not spec.hypervisors:
        yield find("topology-hint", *places(spec, "jobs.topology_file.host_path"))


def check_wave_order(spec: ClusterSpec) -> Findings:
    """If the file orders its switches, each host has two leaves or is drained first.

    With `disruption.switches` and `ports: allow` redundant switches change one after the other. A
    host on a single leaf loses its path in any order. Without the block such hosts are normal.
    """
    if spec.disruption.switches is None or spec.disruption.ports != "allow":
        return
    alone = {host: next(iter(on)) for host, on in leaves_of_hosts(spec).items() if len(on) == 1}
    for switch, here in walk(spec, "switches.*", Switch):
        ends = {port.to.partition("/")[0]: name for name, port in reversed(switch.ports.items())}
        cut = [host for host in alone if alone[host] == switch.name and host in ends]
        if cut:
            what = f"{fold_names(cut)} {'have' if len(cut) > 1 else 'has'} only the leaf "
            what += f"{switch.name}, so its change cuts them off."
            where = here(f"ports.{ends[cut[0]]}") + places(spec, "disruption.switches")
            fix = "write ports: drain, or give the hosts a link to another leaf."
            yield Finding(what, where, fix)


@needs("roles")
def check_perftest_case(spec: ClusterSpec) -> Findings:
    """Perftest accepts the options of a case together, and the site can run the case.

    The tool prints the CPU's share in duration mode only, and refuses that mode with all sizes; it
    then prints no percentiles of a latency. The test needs Kubernetes, a rail, and two workers.
    """
    own = {name for rail in spec.rails for name in (rail.name, f"{rail.name}-gpu")}
    names = Counter([*own, *(case.name for case in spec.acceptance.perftest)])
    for case, here in walk(spec, "acceptance.perftest.*", PerftestCase):
        lasts = case.duration_s is not None
        if case.cpu_util and not lasts:
            yield find("perftest-case-cpu-util", *here("cpu_util"), case=case)
        if case.all_sizes and lasts:
            where = (at((*here.path, "all_sizes")), *here("duration_s"))
            yield find("perftest-case-all-sizes", *where, case=case)
        if names[case.name] > 1:
            twice = "perftests" if case.name in own else "perftest cases"
            yield find("perftest-case-name", *here("name"), twice=twice, case=case)
        if case.tool.endswith("_lat") and lasts:
            yield find("perftest-case-tail", *here("duration_s"), case=case)
    has_pods = spec.kubernetes is not None and spec.rails and len(spec.workers) >= PAIR
    if spec.acceptance.perftest and not has_pods:
        what, fix = {
            "roce": (
                "pods of two workers on a rail, but this site lacks them",
                "every rail has its own test anyway",
            ),
            "infiniband": (
                "pods on rails of RoCE, but this site is InfiniBand",
                "acceptance.suite: full tests each adapter",
            ),
        }[spec.rdma.transport]
        where, fix = places(spec, "acceptance.perftest"), f"remove acceptance.perftest; {fix}."
        yield Finding(f"perftest cases run between {what}.", where, fix)
    suite = spec.acceptance.suite
    if spec.kubernetes is None and suite != "quick":
        yield find("perftest-case-suite", *places(spec, "acceptance.suite"), suite=suite)


@needs("roles")
def check_deepspeed_workers(spec: ClusterSpec) -> Findings:
    """Each of DeepSpeed's workers fits on a separate node; else they stay Pending for ever.

    They run on workers of one kind: with the same GPUs, rails and speeds.
    """
    kinds = worker_kinds(spec)
    for sample, here in walk(spec, "jobs.deepspeed", DeepSpeed) if kinds else ():
        if fitting_kind(spec, sample.workers, sample.gpus) is not None:
            return
        # The nearest kind has the most GPUs among those with enough hosts.
        able = [kind for kind in kinds if len(kind.hosts) >= sample.workers]
        largest = max(kinds, key=lambda kind: len(kind.hosts))
        best = max(able or [largest], key=lambda kind: kind.gpus)
        count, gpus = len(best.hosts), best.gpus
        if sample.workers > count:
            fitting = f"{count}{' of one kind' if len(kinds) > 1 else ''}"
            what = f"DeepSpeed wants {sample.workers} workers on separate nodes; {fitting} fit."
            yield Finding(what, here("workers"), f"set workers to {count} or less.")
        if sample.gpus > gpus:
            yield find("deepspeed-workers-gpus", *here("gpus"), sample=sample, gpus=gpus)


def check_shared_claim(spec: ClusterSpec) -> Findings:
    """Workers on several nodes share a volume that several nodes can mount.

    Only one node can mount a `ReadWriteOnce` claim, and a `hostPath` is another folder on the next
    node.
    """
    for sample, here in walk(spec, "jobs.deepspeed", DeepSpeed):
        several, workers = sample.workers >= PAIR, at((*here.path, "workers"))
        if several and sample.access_mode != _SHARED_MODE:
            where = (*here("access_mode"), workers)
            yield find("shared-claim-mode", *where, sample=sample, mode=_SHARED_MODE)
        if several and sample.nfs_server is None:
            yield find("shared-claim-folder", *here("path"), workers, sample=sample)


def check_arena_resource(spec: ClusterSpec) -> Findings:
    """With `rdma_shared`, the resource that Arena's `--rdma` requests is published.

    Arena asks for `rdma/hca`; without it the workers stay Pending. Another resource may select the
    same cards.
    """
    network = spec.pod_network
    names = [device.resource for device in network.shared_devices]
    shared = spec.jobs.deepspeed is not None and network.mode == "rdma_shared"
    if shared and ARENA_RESOURCE not in names:
        wanted = f"{network.resource_prefix}/{ARENA_RESOURCE}"
        listed = ", ".join(f"{network.resource_prefix}/{name}" for name in names) or "nothing"
        what = f"DeepSpeed requests {wanted}, as Arena does, but the plugin publishes {listed}."
        fix = f"add a shared device with resource: {ARENA_RESOURCE} and the same selectors."
        yield Finding(what, places(spec, "pod_network.shared_devices", "jobs.deepspeed"), fix)


@needs("roles")
def check_max_unavailable(spec: ClusterSpec) -> Findings:
    """`max_unavailable` leaves a worker in service, unless the site has only one."""
    count, workers = spec.disruption.max_unavailable, len(spec.workers)
    if workers and count > 1 and count >= workers:
        where = places(spec, "disruption.max_unavailable")
        yield find("max-unavailable", *where, count=count, workers=workers)


def check_watch_secrets(spec: ClusterSpec) -> Findings:
    """The job of `watch` gets the secrets of the devices, in a namespace without pods of users.

    Whoever may make a pod in a namespace can read all of its secrets.
    """
    own = spec.jobs.own_pods
    for watch, here in walk(spec, "watch", Watch):
        logins = dict.fromkeys(reference.name for reference, _ in device_secrets(spec))
        if logins and watch.secret is None:
            where = places(spec, "watch")
            yield find("watch-secrets-secret", *where, logins=", ".join(logins), watch=watch)
        if watch.namespace in {spec.pod_network.namespace, *(own.namespaces if own else ())}:
            yield find("watch-secrets-users", *here("namespace"), watch=watch)


def check_nccl_floor(spec: ClusterSpec) -> Findings:
    """A floor in GB/s requires a fixed algorithm, and the warning is not below the floor.

    With two workers NCCL chooses a tree, whose bus bandwidth exceeds the rate of the adapters: a
    floor at the line rate would pass with an adapter missing.
    """
    algo = spec.acceptance.nccl_algo
    if spec.acceptance.nccl_floor is None:
        return
    names = [kind.name for kind in gpu_kinds(spec) if kind.runs_collectives]
    if len(names) > 1:
        where = places(spec, "acceptance.nccl_floor.min_gbyte_s")
        yield find("nccl-floor-number", *where, count=len(names), kinds=", ".join(names))
    pairs = any(kind.gpus and len(kind.hosts) == PAIR for kind in worker_kinds(spec))
    if pairs and algo != "RING" and "all_reduce" in spec.acceptance.collectives:
        shown = "NCCL may pick the tree algorithm" if algo is None else f"nccl_algo is {algo}"
        where = places(spec, "acceptance.nccl_algo", "acceptance.nccl_floor")
        yield find("nccl-floor-proves", *where, shown=shown)


def check_own_pods(spec: ClusterSpec) -> Findings:
    """The API server supports the policy of `jobs.own_pods.admission`, and pods have its resource.

    MutatingAdmissionPolicy is served by default from Kubernetes 1.36 on. It acts only on containers
    that ask for a resource of the rails.
    """
    own, plane = spec.jobs.own_pods, spec.kubernetes
    if own is None or plane is None or not own.admission:
        return
    fix = "remove admission, and let pods take the environment by envFrom."
    if parse_numbers(plane.version)[:2] < POLICY_SINCE:
        what = f"own_pods.admission needs Kubernetes 1.36, but this cluster is {plane.version}."
        yield Finding(what, places(spec, "jobs.own_pods.admission", "kubernetes.version"), fix)
    if not pod_attachment(spec).resources:
        what = "own_pods.admission is true, but the pod network publishes no resource to match."
        yield Finding(what, places(spec, "jobs.own_pods.admission", "pod_network.mode"), fix)


def check_watch_cluster(spec: ClusterSpec) -> Findings:
    """The job of `watch` has a cluster to run in, and a folder for metrics is on one node.

    The job reads the site from a ConfigMap, which has room for some 1,000 hosts.
    """
    if spec.watch is None:
        return
    from components.acceptance.acceptance_plan import MOST_BYTES, site_files  # noqa: PLC0415 - rarely needed
    from components.artefacts.lock import Lock  # noqa: PLC0415 - rarely needed

    size = len(site_files(spec, Lock())["site.yaml"])
    if size > MOST_BYTES:
        what = f"the site has {size:,} bytes, and a ConfigMap holds {MOST_BYTES:,}."
        yield Finding(what, places(spec, "watch"), _BY_CRON)
