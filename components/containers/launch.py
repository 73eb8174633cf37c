"""`mpirun` over the containers of all workers, as texts for a shell on the first one.

Sources: NVIDIA AI Enterprise's multi-node guide, Open MPI's and NCCL's documentation.
"""

from __future__ import annotations

import shlex
from functools import cache
from importlib import resources
from typing import Final

from components.jobs.environment import find_hcas, job_environment
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Containers
from components.remote.tools import strip_comments

BRIDGES: Final = "lo,docker0"
"""Interfaces that exist on every host with the same address: whoever picks one waits for ever."""


def mpirun(hosts: tuple[Host, ...], ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """`mpirun` over the hosts' addresses, one slot a GPU where that many ranks are wanted.

    Args:
        hosts: Workers that are alike, or any where each has one rank.
        ranks: Processes in all: the number of workers, or that of their GPUs.
        program: What every rank runs.
    """
    slots = max(1, ranks // max(1, len(hosts)))
    return (
        "mpirun",
        "--allow-run-as-root",
        "-H",
        ",".join(_slots(host, slots) for host in hosts),
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
    """`-x NAME=value` for every NCCL variable that is the same on all hosts.

    Which devices there are, and at which index their GIDs, each rank finds on its own host
    (`on_own_devices`).
    """
    values = job_environment(spec) | {"NCCL_SOCKET_IFNAME": f"^{BRIDGES}"}
    return tuple(part for pair in sorted(values.items()) for part in ("-x", "=".join(pair)))


def on_own_devices(spec: ClusterSpec, program: tuple[str, ...]) -> tuple[str, ...]:
    """A program behind the search for the RDMA devices of the host that its rank runs on."""
    if spec.rdma.transport == "infiniband":
        return find_hcas(program)
    script = _netdevs(spec) + _script("rdma_device") + _script("rank")
    return ("/bin/sh", "-c", script, "rank", *program)


def _netdevs(spec: ClusterSpec) -> str:
    """The lines that set `$netdevs`, by the host's name where not all are alike."""
    hosts: dict[str, list[str]] = {}
    for host in spec.workers:
        hosts.setdefault(" ".join(nic.netdev for nic in host.nics), []).append(host.name)
    if len(hosts) == 1:
        return f"{_netdevs_line(*hosts)}\n"
    cases = [f"{' | '.join(names)}) {_netdevs_line(each)} ;;" for each, names in hosts.items()]
    unknown = '*) echo "railyard: $(uname -n) is no worker of this site" >&2 && exit 1 ;;'
    return "\n".join(["case $(uname -n) in", *cases, unknown, "esac", ""])


def _netdevs_line(netdevs: str) -> str:
    return f"netdevs={shlex.quote(netdevs)}"


def in_container(containers: Containers, script: str) -> str:
    """The text that runs a script in a host's container, its errors in the same stream."""
    words = ("docker", "exec", containers.name, "/bin/bash", "-c", f"exec 2>&1\n{script}")
    return shlex.join(words) + "\n"


def shell_words(command: tuple[str, ...]) -> str:
    """The command for a shell; a word with a variable is expanded, and stays one word."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in command)


@cache
def _script(name: str) -> str:
    folder = resources.files("components.containers").joinpath("scripts")
    return strip_comments(folder.joinpath(f"{name}.sh").read_text("utf-8"))


def find_devices(netdevs: tuple[str, ...]) -> str:
    """The lines that set `$hca`, `$gid` and `$hcas` from the interfaces of a host's rails."""
    return f"{_netdevs_line(' '.join(netdevs))}\n{_script('rdma_device')}"
