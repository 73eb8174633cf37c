"""Rules on the jobs' own settings: environment, and the port of their sshd."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.fabric.links import leaves_of_hosts
from components.jobs.environment import nccl_environment
from components.jobs.templates import HOST_NETWORK_PORT, POD_PORT
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.name_lists import fold_names
from components.model.rail_subnets import has_way
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
    "NCCL_NET": "RDMA, which NCCL chooses itself",
    "RAIL_INTERFACE": "the interface of the rail",
}
"""Variables that a job's pod decides when it starts, and what they are then."""
_PXN_OFF: Final = "NCCL_PXN_DISABLE"


def check_job_environment(spec: ClusterSpec) -> Findings:
    """`jobs.env` sets nothing that the plan decides to another value.

    Two values of one variable would depend on which one a shell, mpirun or NCCL reads last; a
    traffic class, GID or adapter of another layer's choice sends packets on a path that is in no
    plan. The same value as the plan's may be written.
    """
    planned = {**_DECIDED, **nccl_environment(spec)}
    for name, value in sorted(spec.jobs.env.items()):
        key = _KEYS.get(name)
        wanted = planned.get(name)
        if value == wanted or (wanted is None and key is None):
            continue
        decided = f"the plan sets {wanted}" if wanted else f"{key} decides it and is not set"
        yield Finding(
            f"jobs.env sets {name} to {value}, and {decided}.",
            (at(("jobs", "env", name), value),),
            f"remove it; set {key} if the plan's value is wrong." if key else "remove it.",
        )


def check_pxn(spec: ClusterSpec) -> Findings:
    """Alltoall with PXN off needs routes between the rails.

    With PXN, NCCL hands data over NVLink to the GPU whose card is on the other side's rail. Without
    it each card sends to the cards of all rails: on rails without routes between them
    `ibv_modify_qp` fails (ROCm/rccl#1303, NVIDIA/nccl#2193).
    """
    value = spec.jobs.env.get(_PXN_OFF, "0")
    collectives = spec.acceptance.collectives
    if value == "0" or "alltoall" not in collectives or spec.rdma.transport != "roce":
        return
    if cut := _unrouted(spec):
        yield Finding(
            f"jobs.env sets {_PXN_OFF} to {value}, so alltoall sends from each rail to all others, "
            f"and pods on {cut[0].name} have no route to {cut[1].name}.",
            (at(("jobs", "env", _PXN_OFF), value), at(("acceptance", "collectives"))),
            f"remove {_PXN_OFF}, remove alltoall, or route the rails (rails[].gateway and "
            "pod_network.routes).",
        )


def _unrouted(spec: ClusterSpec) -> tuple[Rail, Rail] | None:
    """Two rails without a way from one to the other; in the host's network gateways are one."""
    pairs = permutations(spec.rails, 2)
    return next(((one, other) for one, other in pairs if not has_way(spec, one, other)), None)


def check_own_pods(spec: ClusterSpec) -> Findings:
    """The API server knows the policy that `jobs.own_pods.admission` asks for, and its resource.

    MutatingAdmissionPolicy is served by default from Kubernetes 1.36 on: an older API server
    refuses the object in the middle of an update. It acts on containers that ask for a resource of
    the rails: where no pod has one to ask for, it would act on none.
    """
    own, plane = spec.jobs.own_pods, spec.kubernetes
    if own is None:
        return
    place = at(("jobs", "own_pods"))
    if plane is None:
        fix = "remove own_pods, or give the site Kubernetes."
        yield Finding("jobs.own_pods is for pods, and the site has no Kubernetes.", (place,), fix)
        return
    if not own.admission:
        return
    where = at(("jobs", "own_pods", "admission"), value=True)
    major, minor = (int(part) for part in plane.version.lstrip("v").split("+")[0].split(".")[:2])
    if (major, minor) < POLICY_SINCE:
        yield Finding(
            f"own_pods.admission needs Kubernetes 1.36, and this is {plane.version}.",
            (where, at(("kubernetes", "version"), plane.version)),
            "remove admission, and let pods take the environment by envFrom.",
        )
    if not pod_attachment(spec).resources:
        yield Finding(
            "own_pods.admission is true, but the pod network has no resource to match.",
            (where, at(("pod_network", "mode"), spec.pod_network.mode)),
            "remove admission, and let pods take the environment by envFrom.",
        )


def check_ssh_port(spec: ClusterSpec) -> Findings:
    """In the host's network, the workers' sshd does not take port 22, which is the host's own.

    The pod's sshd could not start, and the launcher would meet the host's sshd, which looks alive
    and refuses the job's key.
    """
    sample = spec.jobs.deepspeed
    in_host = spec.pod_network.host_network or (sample is not None and sample.host_network)
    if spec.jobs.ssh_port == POD_PORT and in_host:
        key = "pod_network" if spec.pod_network.host_network else "jobs.deepspeed"
        path = (*key.split("."), "host_network")
        yield Finding(
            f"jobs.ssh_port is {POD_PORT}: with {key}.host_network the host's own sshd has it.",
            (at(("jobs", "ssh_port"), spec.jobs.ssh_port), at(path, value=True)),
            f"remove ssh_port, which is then {HOST_NETWORK_PORT}, or take another free port.",
        )


def check_max_unavailable(spec: ClusterSpec) -> Findings:
    """Not all workers may be down at once during an update; a single worker has to be."""
    count, workers = spec.disruption.max_unavailable, len(spec.workers)
    if workers and count > 1 and count >= workers:
        yield Finding(
            f"max_unavailable {count} lets all workers be down at once: there are {workers}.",
            places(spec, "disruption.max_unavailable"),
            "set it to 1: one host after the other.",
        )


def check_ports_drain(spec: ClusterSpec) -> Findings:
    """Whom `disruption.ports: drain` shall drain can be drained: nodes of a cluster.

    Without one the ports would change under running jobs. A plain exec looks at nothing before it
    sends its lines, so that no node could leave in time.
    """
    if spec.disruption.ports != "drain":
        return
    where = at(("disruption", "ports"), "drain")
    if spec.kubernetes is None:
        yield Finding(
            "ports is drain, and the site has no Kubernetes whose nodes could be drained.",
            (where,),
            "set ports to deny, and to allow in a window.",
        )
    for s, switch in enumerate(spec.switches):
        if switch.executor == "exec":
            yield Finding(
                f"ports is drain, and {switch.name} takes its configuration as one exec.",
                (where, at(("switches", s, "executor"), switch.executor)),
                "remove executor, or set ports to allow or deny.",
            )


def check_wave_order(spec: ClusterSpec) -> Findings:
    """A file that orders its switches has no host on one leaf alone, or drains it first.

    With `disruption.switches` and `ports: allow` redundant switches change one after the other, so
    that a host keeps a way. A host on one leaf alone has none while that leaf changes, in whichever
    order. Without the block such hosts are normal.
    """
    if spec.disruption.switches is None or spec.disruption.ports != "allow":
        return
    alone = {host: next(iter(on)) for host, on in leaves_of_hosts(spec).items() if len(on) == 1}
    for number, switch in enumerate(spec.switches):
        ends = {port.to.partition("/")[0]: name for name, port in reversed(switch.ports.items())}
        cut = [host for host in alone if alone[host] == switch.name and host in ends]
        if cut:
            verb, port = ("have" if len(cut) > 1 else "has"), ends[cut[0]]
            yield Finding(
                f"{fold_names(cut)} {verb} no other leaf than {switch.name}: no order of the"
                " switches keeps them in service while it changes.",
                (
                    at(("switches", number, "ports", port), switch.ports[port].to),
                    at(("disruption", "switches")),
                ),
                "write ports: drain, or give them a link to another leaf.",
            )


def check_mpi_operator(spec: ClusterSpec) -> Findings:
    """The MPI operator is installed: the NCCL acceptance test is an MPIJob."""
    if not spec.jobs.mpi_operator:
        yield Finding(
            "the MPI operator is off, and the NCCL acceptance test is an MPIJob.",
            places(spec, "jobs.mpi_operator"),
            "set mpi_operator to true.",
        )
