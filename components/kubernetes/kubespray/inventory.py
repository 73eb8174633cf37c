"""The inventory and group variables of kubespray, and how OpenSSH reaches its nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import yaml
from pydantic import JsonValue

from components.kubernetes.kubespray.settings import KUBELET, WORKERS_KUBELET
from components.kubernetes.kubespray.wanted import Wanted
from components.remote.step import Endpoint

HOSTS: Final = "hosts.yaml"
VARIABLES: Final = "group_vars/all.yaml"
KNOWN_HOSTS: Final = "known_hosts"
SSH_CONFIG: Final = "ssh_config"
SECRETS: Final = "railyard_secrets"
"""Variable with the folder of this run's private keys; it is in no file that stays."""
BECOME: Final = "railyard_become"
"""Variable with the passwords that `sudo` asks for, by node; in no file that stays."""
_WITHOUT_V: Final = (2, 28)
"""The first kubespray whose `kubelet_checksums` have no `v` (roles/kubespray_defaults/vars/main; at
v2.27.1 `v1.31.9` is a key, and the URL has `kube_version` as it is)."""
_HEAD: Final = "# Written by Railyard from the site file: an edit here stops the next run.\n"


def render_inventory(wanted: Wanted, endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    """All files of the inventory by their path below it."""
    names = sorted(wanted.nodes)
    servers = wanted.of_role("control_plane")
    groups = {
        "kube_control_plane": servers,
        "etcd": servers,
        "kube_node": wanted.of_role("worker"),
    }
    hosts: dict[str, JsonValue] = {
        name: _variables(wanted, name, endpoints[name]) for name in names
    }
    children: dict[str, JsonValue] = {
        group: {"hosts": dict[str, JsonValue]({name: {} for name in members})}
        for group, members in groups.items()
    }
    inventory: dict[str, JsonValue] = {"all": {"hosts": hosts, "children": children}}
    version = wanted.version
    if tuple(map(int, wanted.release.removeprefix("v").split(".")[:2])) >= _WITHOUT_V:
        version = version.removeprefix("v")
    variables = {**wanted.settings, "kube_version": version}
    variables.pop(WORKERS_KUBELET, None)
    return {HOSTS: _render(inventory), VARIABLES: _render(dict(sorted(variables.items())))}


def _variables(wanted: Wanted, name: str, endpoint: Endpoint) -> dict[str, JsonValue]:
    node = wanted.nodes[name]
    found: dict[str, JsonValue] = {
        "ansible_host": endpoint.address,
        "ansible_port": endpoint.port,
        "ansible_user": endpoint.user,
        "ansible_ssh_common_args": _ssh_arguments(name, endpoint),
        "ip": node.address,
        "access_ip": node.address,
    }
    if node.role == "control_plane":
        found["etcd_member_name"] = name
    elif WORKERS_KUBELET in wanted.settings:
        found[KUBELET] = wanted.settings[WORKERS_KUBELET]
    if endpoint.private_key_secret is not None:
        found["ansible_ssh_private_key_file"] = f"{{{{ {SECRETS} }}}}/{name}"
    if endpoint.sudo_secret is not None:
        found["ansible_become_password"] = f"{{{{ {BECOME}[inventory_hostname] }}}}"
    return found


def _ssh_arguments(name: str, endpoint: Endpoint) -> str:
    """The pinned key by the node's name, whatever its address; and the way over jump hosts."""
    words = [
        f"-F {{{{ {SECRETS} }}}}/{SSH_CONFIG}",
        f"-o HostKeyAlias={name}",
        f"-o IdentitiesOnly={'no' if endpoint.agent else 'yes'}",
    ]
    if endpoint.jump:
        words.append(f"-o ProxyJump={','.join(hop.device for hop in endpoint.jump)}")
    return " ".join(words)


def render_ssh_config(ends: Iterable[Endpoint], folder: str) -> str:
    """`ssh_config(5)`: the pinned keys, and each jump host by its name."""
    hops = {hop.device: hop for end in ends for hop in end.jump}
    lines: list[str] = []
    for name, hop in sorted(hops.items()):
        lines += [f"Host {name}", f"  HostName {hop.address}", f"  Port {hop.port}"]
        lines += [f"  User {hop.user}", f"  HostKeyAlias {name}"]
        if hop.private_key_secret is not None:
            lines += [f"  IdentityFile {folder}/{name}", "  IdentitiesOnly yes"]
    return "".join(f"{line}\n" for line in (*lines, "Host *", *_for_all(folder)))


def _for_all(folder: str) -> tuple[str, ...]:
    return (
        f"  UserKnownHostsFile {folder}/{KNOWN_HOSTS}",
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  UpdateHostKeys no",
        "  BatchMode yes",
    )


def render_known_hosts(ends: Iterable[Endpoint]) -> str:
    """The pinned keys of nodes and jump hosts, by name: `HostKeyAlias` asks for it."""
    known = {each.device: each.host_key for end in ends for each in (end, *end.jump)}
    return "".join(f"{name} {key}\n" for name, key in sorted(known.items()))


def _render(value: Mapping[str, JsonValue]) -> str:
    # Not sorted: the first of a group began the cluster, and new ones are behind it.
    return _HEAD + yaml.safe_dump(dict(value), sort_keys=False, width=1000)
