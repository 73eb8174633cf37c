"""The SSH files that let hosts and containers reach each other without a password.

As in NVIDIA AI Enterprise's guide, with two pairs of keys; unlike there every host key is pinned,
and a container's key can only start MPI's daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.once import once
from components.remote.tools import Tool, make_tool

FORCED_COMMAND: Final = "~/.ssh/mpicont.sh"
"""sshd hands it to the user's shell, which knows the home folder."""
OWN: Final = "@own@"
"""In these texts, which are the same on every worker, the address of the one that has them."""
_PINNED: Final = "StrictHostKeyChecking yes"


@once
def peer_texts(spec: ClusterSpec) -> Mapping[str, str]:
    """What each worker must know of all: texts by the name of their setting, lines ended.

    They grow with the hosts, so that they are written once, lie on each host as one list, and the
    steps name them by their digests.
    """
    texts = {
        **_authorized_options(spec),
        "container_config": _container_config(spec),
        "host_config": _host_config(spec),
        "known_hosts": _known_hosts(spec),
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
    sources = f'restrict,from="{",".join(_sources(spec))}"'
    return {
        "authorized_keys.host": [sources],
        "authorized_keys.container": [f'{sources},command="{FORCED_COMMAND}"'],
    }


def _sources(spec: ClusterSpec) -> list[str]:
    found = {address for host in spec.workers for address in (host.address, host.way.address)}
    return sorted(found, key=_address_order)


def _address_order(text: str) -> tuple[int, str]:
    try:
        return int(IPv4Address(text)), ""
    except AddressValueError:
        return 1 << 32, text


def _known_hosts(spec: ClusterSpec) -> list[str]:
    """One line a worker, under its name: address and port do not matter to it."""
    return [f"{host.name} {host.way.host_key or ''}".strip() for host in spec.workers]


def _entries(spec: ClusterSpec) -> list[str]:
    """How each worker is reached from another one, by its name or its address.

    The own address is said (each host puts it in) because `from=` of the other side asks for it,
    and a host has several.
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
        "Match all",  # what follows in the user's own file is for all hosts again
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
