"""Rules on the jobs' own settings: environment, and the port of their sshd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.checks.rule import Finding, at
from components.jobs.environment import nccl_environment
from components.jobs.ssh import HOST_NETWORK_PORT, POD_PORT
from components.model.cluster import ClusterSpec

_KEYS: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "acceptance.nccl_algo",
    "NCCL_IB_GID_INDEX": "jobs.gid_index",
    "NCCL_IB_TC": "rdma.dscp",
    "UCX_IB_TRAFFIC_CLASS": "rdma.dscp",
    "NCCL_NET_GDR_LEVEL": "jobs.gdr_level",
    "NCCL_TOPO_FILE": "jobs.topology_file",
}
"""Variables that another key of the file decides."""
_FOUND: Final = "the adapters that each pod finds on its node"
_DECIDED: Final[Mapping[str, str]] = {
    "NCCL_IB_HCA": _FOUND,
    "UCX_NET_DEVICES": _FOUND,
    "NCCL_NET": "RDMA, which NCCL chooses itself",
    "RAIL_INTERFACE": "the interface of the rail",
}
"""Variables that a job's pod decides when it starts, and what they are then."""


def check_job_environment(spec: ClusterSpec) -> Iterator[Finding]:
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


def check_ssh_port(spec: ClusterSpec) -> Iterator[Finding]:
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
            f"jobs.ssh_port is {POD_PORT}, and {key}.host_network is true: there the host's own "
            "sshd has that port.",
            (at(("jobs", "ssh_port"), spec.jobs.ssh_port), at(path, value=True)),
            f"remove ssh_port, which is then {HOST_NETWORK_PORT}, or take another free port.",
        )
