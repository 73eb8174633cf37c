"""How MPI starts over the containers of all workers: SSH files, and `mpirun` as shell texts.

As in NVIDIA AI Enterprise's multi-node guide, with two pairs of keys; unlike there every host key
is pinned, and a container's key can only start MPI's daemon. Other sources: the documentation of
Open MPI and NCCL.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from components.jobs.environment import find_hcas, job_environment
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Containers
from components.model.once import once
from components.remote.tools import Tool, make_tool, strip_comments

FORCED_COMMAND: Final = "~/.ssh/mpicont.sh"
"""sshd hands it to the user's shell, which knows the home folder."""
OWN: Final = "@own@"
"""Marks the address of the worker that reads these texts, which are the same on every worker."""
_PINNED: Final = "StrictHostKeyChecking yes"


@once
def peer_texts(spec: ClusterSpec) -> Mapping[str, str]:
    """The data about all workers for each worker: texts by the name of their setting, lines ended.

    They grow with the hosts; therefore they are written once, each host keeps one list, and the
    steps name them by their digests.
    """
    texts = {
        **_authorized_options(spec),
        "container_config": _container_config(spec),
        "host_config": _host_config(spec),
        # Under its name alone: address and port of a worker do not matter to it.
        "known_hosts": [f"{host.name} {host.way.host_key or ''}".strip() for host in spec.workers],
    }
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in texts.items()}


@once
def peer_list(spec: ClusterSpec) -> Tool:
    """The list: each line with the name of its text before it."""
    lines = (
        f"{name} {line}\n" for name, text in peer_texts(spec).items() for line in text.splitlines()
    )
    return make_tool("peers", "".join(lines))


def _authorized_options(spec: ClusterSpec) -> dict[str, list[str]]:
    """Pair of keys to the options of its line in authorized_keys."""
    found = {address for host in spec.workers for address in (host.address, host.way.address)}
    sources = f'restrict,from="{",".join(sorted(found, key=_address_order))}"'
    return {
        "authorized_keys.host": [sources],
        "authorized_keys.container": [f'{sources},command="{FORCED_COMMAND}"'],
    }


def _address_order(text: str) -> tuple[int, str]:
    try:
        return int(IPv4Address(text)), ""
    except AddressValueError:
        return 1 << 32, text


def _entries(spec: ClusterSpec) -> list[str]:
    """How each worker is reached from another one, by its name or its address.

    `BindAddress` gives the own address (each host puts it in), because `from=` of the other side
    checks it and a host has several addresses.
    """
    port = spec.containers.ssh_port if spec.containers else None
    lines: list[str] = []
    for host in spec.workers:
        lines += [
            f"Host {_names(host)}",
            f"  HostName {host.address}",
            f"  HostKeyAlias {host.name}",
            f"  BindAddress {OWN}",
            f"  Port {port or host.way.port}",
            f"  User {host.way.user}",
        ]
    return lines


def _names(host: Host) -> str:
    return f"{host.name} {host.address}"


def _host_config(spec: ClusterSpec) -> list[str]:
    """Our part of a host's ~/.ssh/config.

    It comes first in the file, because the first value of an option wins.
    """
    everyone = " ".join(_names(host) for host in spec.workers)
    return [
        *_entries(spec),
        f"Host {everyone}",
        "  IdentityFile ~/.ssh/id_ed25519_host",
        "  IdentitiesOnly yes",
        f"  {_PINNED}",
        "  UserKnownHostsFile ~/.ssh/known_hosts_railyard",
        "Match all",  # the rest of the user's own file is for all hosts again
    ]


def _container_config(spec: ClusterSpec) -> list[str]:
    """The config of root in a host's container."""
    return [
        *_entries(spec),
        "Host *",
        "  IdentityFile /root/.ssh/id_ed25519_cont",
        "  IdentitiesOnly yes",
        "  BatchMode yes",
        f"  {_PINNED}",
        "  UserKnownHostsFile /root/.ssh/known_hosts",
        "  LogLevel ERROR",
        "  ServerAliveInterval 30",
    ]


BRIDGES: Final = "lo,docker0"
"""Interfaces that exist on every host with the same address: a program that picks one waits for
ever."""


def mpirun(hosts: tuple[Host, ...], ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """Call `mpirun` over the hosts: one slot per host, or one per GPU if `ranks` counts GPUs.

    Args:
        hosts: Workers with the same number of GPUs, or any workers with one rank each.
        ranks: Processes in all: the number of workers, or that of their GPUs.
        program: What every rank runs.
    """
    slots = max(1, ranks // max(1, len(hosts)))
    return (
        "mpirun",
        "--allow-run-as-root",
        "-H",
        ",".join(host.address if slots == 1 else f"{host.address}:{slots}" for host in hosts),
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


def nccl_exports(spec: ClusterSpec) -> tuple[str, ...]:
    """`-x NAME=value` for every NCCL variable whose value all hosts share.

    Each rank finds the devices and their GID indices on its own host (`on_own_devices`).
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
    """The lines that set `$netdevs`, by the host's name if the hosts differ."""
    hosts: dict[str, list[str]] = {}
    for host in spec.workers:
        hosts.setdefault(" ".join(nic.netdev for nic in host.nics), []).append(host.name)
    if len(hosts) == 1:
        return f"{_netdevs_line(*hosts)}\n"
    cases = [f"{' | '.join(names)}) {_netdevs_line(each)} ;;" for each, names in hosts.items()]
    unknown = '*) echo "railyard: $(uname -n) is not a worker of this site" >&2 && exit 1 ;;'
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
