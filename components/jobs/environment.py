"""Settings of NCCL and MPI: the application end of the one traffic class.

Sources: NCCL's environment documentation and net_ib source, Open MPI's documentation, DeepOps; for
InfiniBand in virtual machines the values of the cloud's own nccl-tests jobs
(lab/sources.md#cloud-ib).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from components.core.errors import SpecError
from components.jobs.templates import ssh_options, ssh_port
from components.model.cluster import ClusterSpec
from components.model.jobs import Programs
from components.model.places import is_flat
from components.model.worker_kinds import WorkerKind

POD_INTERFACE: Final = "eth0"
"""The default pod network: MPI's and NCCL's own messages go there, RDMA goes over the rails."""
_MPI_OVER_TCP: Final = ("--mca", "pml", "ob1", "--mca", "btl", "^openib")
"""MPI's own messages, which are few compared with NCCL's. UCX, which Ubuntu's Open MPI prefers,
would take every card of the pod, and rails without a route between them hang it (openucx/ucx#7295,
#10420)."""
_NO_HCOLL: Final = ("--mca", "coll_hcoll_enable", "0")
"""HPC-X's collectives would open the adapters too, also on RoCE: Oracle's own jobs turn them off
(oracle-quickstart/oci-hpc-oke 61d210a). An Open MPI without them ignores it."""
_QPS: Final = "NCCL_IB_QPS_PER_CONNECTION"
_QPS_OVER_SPINES: Final = "4"
"""Queue pairs of a connection on rails with several leaves. ECMP sends one queue pair over one
spine; several spread. NCCL's documentation recommends more than one without a number (its default
is 1); 4 is the start that stas00/ml-engineering (network, NCCL) gives. Unproven here: `jobs.env`
sets another."""
_INFINIBAND: Final = {
    # A virtual function of a cloud: PCIe reordering is allowed, or half of the rate is lost.
    "NCCL_IB_PCI_RELAXED_ORDERING": "1",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
    "NCCL_IB_QPS_PER_CONNECTION": "2",
    # The guest has no PF, and NCCL would take the functions of one card for one device.
    "NCCL_IB_MERGE_VFS": "0",
}
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ib_hcas": ("ib_ports", "ib_hcas"),
    "ib_adapter": ("ib_ports", "ib_adapter", "memlock"),
    "rdma_device": ("find_gid", "rdma_device", "memlock"),
    "rdma_shared_device": ("find_gid", "rdma_shared_device", "memlock"),
    "mpi_launch": ("mpi_program", "mpi_launch"),
    "mpi_compare": ("mpi_program", "mpi_compare"),
}
"""Script to the files that form it, in order; other scripts are one file."""


def nccl_environment(spec: ClusterSpec) -> dict[str, str]:
    """The NCCL variables of a job, sorted by name.

    The InfiniBand adapters are not in it: each rank finds them on its node (`find_hcas`).
    """
    jobs = spec.jobs
    values = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": jobs.gdr_level,
        # Rails are separate subnets and not routed: NIC k talks to NIC k. On a flat fabric every
        # card reaches all others, and NCCL's own default holds, unless `jobs.env` sets another.
        **({} if is_flat(spec) else {"NCCL_CROSS_NIC": "0"}),
    }
    if not spec.pod_network.host_network:
        values["NCCL_SOCKET_IFNAME"] = POD_INTERFACE
    if spec.rdma.transport == "infiniband":
        values |= _INFINIBAND
        if spec.infiniband is not None and spec.infiniband.adaptive_routing:
            # NCCL sends large messages apart from their notice, because packets may overtake. It is
            # NCCL's default on InfiniBand; every service level may be spread (opensm: ar_sl_mask).
            values["NCCL_IB_ADAPTIVE_ROUTING"] = "1"
    else:
        traffic_class = spec.rdma.ip_traffic_class if jobs.nccl_ib_tc is None else jobs.nccl_ib_tc
        # Without it NCCL sends DSCP 0, and the switch's ECN on the RoCE class does nothing.
        values["NCCL_IB_TC"] = str(traffic_class)
        if any(rail.leaves for rail in spec.rails):
            values[_QPS] = jobs.env.get(_QPS, _QPS_OVER_SPINES)
        # MPI over UCX takes verbs too; the inbox driver cannot mark them for it.
        values["UCX_IB_TRAFFIC_CLASS"] = str(traffic_class)
    if jobs.gid_index is not None:
        values["NCCL_IB_GID_INDEX"] = str(jobs.gid_index)
    if jobs.topology_file is not None:
        values["NCCL_TOPO_FILE"] = jobs.topology_file.mount_path
    if spec.acceptance.nccl_algo is not None:
        values["NCCL_ALGO"] = spec.acceptance.nccl_algo
    return dict(sorted(values.items()))


def job_environment(spec: ClusterSpec) -> dict[str, str]:
    """The variables of every job: the file's own and NCCL's, sorted by name."""
    return dict(sorted({**spec.jobs.env, **nccl_environment(spec)}.items()))


def program_path(folder: str | None, program: str) -> str:
    """A program of an image: on its PATH, or in the folder that the file names."""
    return program if folder is None else f"{folder}/{program}"


def find_hcas(program: tuple[str, ...]) -> tuple[str, ...]:
    """A program behind the search for the node's InfiniBand adapters.

    A list in the file would be wrong on the next instance type: the names have gaps, and some are
    management or storage ports that hang NCCL.
    """
    return ("/bin/sh", "-c", job_script("ib_hcas"), "ib_hcas", *program)


def find_rail_hcas(
    spec: ClusterSpec,
    program: tuple[str, ...],
    kind: WorkerKind | None = None,
    *,
    in_host: bool = False,
) -> tuple[str, ...]:
    """A program behind the search for the shared cards of the rails, among all of the node.

    Its arguments are those of `on_devices`. SpecError: jobs run in the host's network, and a
    rail's card is named differently on two workers, which one script serves.
    """
    rails = kind.rails_of(spec) if kind else spec.rails
    names = [f"net{index}" for index in range(1, len(rails) + 1)]
    if in_host or spec.pod_network.host_network:
        hosts = kind.hosts if kind else spec.workers
        for index, rail in enumerate(rails):
            nics = [nic for host in hosts for nic in host.nics if nic.rail == rail.name]
            cards = sorted({nic.netdev for nic in nics})
            if len(cards) != 1:
                raise SpecError(
                    f"the cards of {rail.name} are named {', '.join(cards) or 'nothing'}, and jobs "
                    "in the host's network look for one name. Name them alike "
                    "(host_defaults.rail_names)"
                )
            names[index] = cards[0]
    script = job_script("rail_hcas", interfaces=" ".join(names))
    return ("/bin/sh", "-c", script, "rail_hcas", *program)


def on_devices(
    spec: ClusterSpec,
    program: tuple[str, ...],
    kind: WorkerKind | None = None,
    *,
    in_host: bool = False,
) -> tuple[str, ...]:
    """The program of every rank or node on the right devices; a VF is the only one in its pod.

    `kind` are the workers that run it, by default all. `in_host`: its pods are in the host's
    network, also if those of other jobs are not.
    """
    if spec.rdma.transport == "infiniband":
        return find_hcas(program)
    shared = spec.pod_network.mode == "rdma_shared"
    return find_rail_hcas(spec, program, kind, in_host=in_host) if shared else program


def keep_devices(spec: ClusterSpec, kind: WorkerKind, *, in_host: bool) -> tuple[str, ...]:
    """The command before a worker's sshd if its ranks do not get our environment.

    DeepSpeed's launcher starts its ranks by pdsh. The search that a rank of mpirun would do runs
    once, at the start of the worker, and writes its result to /etc/nccl.conf, which every NCCL
    reads (its documentation of environment variables). Empty on VFs, which need no search. Its
    arguments are those of `on_devices`.
    """
    search = on_devices(spec, (), kind, in_host=in_host)
    return (*search, "/bin/sh", "-c", job_script("nccl_conf"), "nccl_conf") if search else ()


@cache
def job_script(name: str, **values: str) -> str:
    """The text of one of the room's scripts, after the values of its variables.

    It has no comments, because it becomes an argument.
    """
    head = "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())
    folder = resources.files("components.jobs").joinpath("scripts")
    files = (folder.joinpath(f"{part}.sh") for part in _PARTS.get(name, (name,)))
    lines = (line for file in files for line in file.read_text("utf-8").splitlines(keepends=True))
    return head + "".join(line for line in lines if not line.lstrip().startswith("#"))


def mpirun_command(
    spec: ClusterSpec, ranks: int, program: tuple[str, ...], kind: WorkerKind | None = None
) -> tuple[str, ...]:
    """`mpirun` over the operator's hostfile, with the variables of jobs handed to every rank.

    The hostfile is named because Open MPI 5 ignores the variable that the operator sets, and would
    then run all ranks in the launcher.
    """
    in_host = spec.pod_network.host_network
    port = ssh_port(spec, host_network=in_host)
    # MPI's own messages stay off the rails; the host's network has no separate pod interface.
    keys = () if in_host else ("oob_tcp_if_include", "btl_tcp_if_include")
    words = ["=".join(pair) for pair in job_environment(spec).items()]
    if spec.jobs.programs != Programs():
        # A program outside of PATH seldom has its libraries where the loader looks.
        words += [name for name in ("PATH", "LD_LIBRARY_PATH") if name not in spec.jobs.env]
    return (
        spec.jobs.programs.mpirun or "mpirun",
        "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "-np", str(ranks),
        "--bind-to", "none", "--tag-output", "--mca", "plm_rsh_args", ssh_options(port),
        *(word for key in keys for word in ("--mca", key, POD_INTERFACE)),
        *_NO_HCOLL,
        *(() if spec.rdma.transport == "infiniband" else _MPI_OVER_TCP),
        *(part for word in words for part in ("-x", word)),
        *on_devices(spec, program, kind),
    )  # fmt: skip
