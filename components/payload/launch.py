"""`mpirun` over the containers of all workers, as texts for a shell on the first one.

Sources: NVIDIA AI Enterprise's multi-node guide, Open MPI's and NCCL's documentation.
"""

from __future__ import annotations

import shlex
from functools import cache
from importlib import resources
from typing import Final

from components.hosts.scripts import strip_comments
from components.jobs.environment import nccl_environment
from components.model.cluster import ClusterSpec
from components.model.containers import Containers
from components.model.hosts import Host

BRIDGES: Final = "lo,docker0"
"""Interfaces that exist on every host with the same address: whoever picks one waits for ever."""
GID: Final = "$gid"
"""What the device script found: the index of the RoCE v2 GID of the first host's card.

NCCL before 2.21 takes index 0 otherwise, which is RoCE v1 and carries no DSCP.
"""
HCAS: Final = "$hcas"
"""What the device script found: the RDMA devices behind the rails' interfaces."""


def mpirun(spec: ClusterSpec, ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """`mpirun` over the workers' addresses, one slot a GPU where that many ranks are wanted.

    Args:
        spec: A site with workers.
        ranks: Processes in all: the number of workers, or that of their GPUs.
        program: What every rank runs.
    """
    slots = max(1, ranks // max(1, len(spec.workers)))
    return (
        "mpirun",
        "--allow-run-as-root",
        "-H",
        ",".join(_slots(host, slots) for host in spec.workers),
        "-np",
        str(ranks),
        "--mca",
        "oob_tcp_if_exclude",
        BRIDGES,
        "--mca",
        "btl_tcp_if_exclude",
        BRIDGES,
        *program,
    )


def _slots(host: Host, slots: int) -> str:
    return host.address if slots == 1 else f"{host.address}:{slots}"


def nccl_exports(spec: ClusterSpec) -> tuple[str, ...]:
    """`-x NAME=value` for every NCCL variable, of containers in the hosts' own network."""
    values = nccl_environment(spec)
    values |= {"NCCL_SOCKET_IFNAME": f"^{BRIDGES}", "NCCL_IB_HCA": HCAS}
    values.setdefault("NCCL_IB_GID_INDEX", GID)
    return tuple(part for pair in sorted(values.items()) for part in ("-x", "=".join(pair)))


def in_container(containers: Containers, script: str) -> str:
    """The text that runs a script in a host's container, its errors in the same stream."""
    words = ("docker", "exec", containers.name, "/bin/bash", "-c", f"exec 2>&1\n{script}")
    return shlex.join(words) + "\n"


def shell_words(command: tuple[str, ...]) -> str:
    """The command for a shell; a word with a variable is expanded, and stays one word."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in command)


@cache
def _device_script() -> str:
    folder = resources.files("components.payload").joinpath("scripts")
    return strip_comments(folder.joinpath("rdma_device.sh").read_text("utf-8"))


def find_devices(netdevs: tuple[str, ...]) -> str:
    """The lines that set `$hca`, `$gid` and `$hcas` from the interfaces of a host's rails."""
    return f"netdevs={shlex.quote(' '.join(netdevs))}\n" + _device_script()
