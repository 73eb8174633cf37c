"""What NCCL and MPI are told: the application end of the one traffic class.

Sources: NCCL's environment documentation and net_ib source, Open MPI's documentation, DeepOps.
"""

from __future__ import annotations

from typing import Final

from components.model.cluster import ClusterSpec

POD_INTERFACE: Final = "eth0"
"""The default pod network: MPI's and NCCL's own messages go there, RDMA goes over the rails."""


def nccl_environment(spec: ClusterSpec) -> dict[str, str]:
    """The NCCL variables of a job, sorted by name."""
    jobs = spec.jobs
    traffic_class = spec.rdma.ip_traffic_class if jobs.nccl_ib_tc is None else jobs.nccl_ib_tc
    values = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_IB_DISABLE": "0",
        # Without it NCCL sends DSCP 0, and the switch's ECN on the RoCE class does nothing.
        "NCCL_IB_TC": str(traffic_class),
        "NCCL_NET_GDR_LEVEL": jobs.gdr_level,
        "NCCL_SOCKET_IFNAME": POD_INTERFACE,
        # Rails are separate subnets and not routed: NIC k talks to NIC k.
        "NCCL_CROSS_NIC": "0",
    }
    if jobs.gid_index is not None:
        values["NCCL_IB_GID_INDEX"] = str(jobs.gid_index)
    return dict(sorted(values.items()))


def mpirun_command(spec: ClusterSpec, ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """`mpirun` over the operator's hostfile, with the NCCL variables handed to every rank.

    The hostfile is named because Open MPI 5 ignores the variable that the operator sets, and would
    then run all ranks in the launcher.
    """
    exports = [part for pair in nccl_environment(spec).items() for part in ("-x", "=".join(pair))]
    return (
        "mpirun",
        "--allow-run-as-root",
        "--hostfile",
        "/etc/mpi/hostfile",
        "-np",
        str(ranks),
        "--bind-to",
        "none",
        "--tag-output",
        "--mca",
        "oob_tcp_if_include",
        POD_INTERFACE,
        "--mca",
        "btl_tcp_if_include",
        POD_INTERFACE,
        *exports,
        *program,
    )
