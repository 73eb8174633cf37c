"""The shell texts of the hosts room, and the HTTP proxy through which hosts download.

Each text is assembled from files in `scripts/`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from importlib import resources
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Final, Literal, get_args

from components.hosts.keys.ask import keys_text
from components.model.cluster import ClusterSpec
from components.model.places import each_ssh
from components.remote import tools

Verb = Literal["observe", "converge", "undo", "verify", "maintain", "boot"]
_PARTS: Final = (
    "driver", "driver_checks", "driver_signing", "driver_build", "driver_repository", "firmware",
    "firmware_set", "sriov", "vfs", "qos", "marks", "registers", "kernel", "pci", "routing",
    "docker", "names", "service", "look", "reading", "writing",
)  # fmt: skip
"""The parts at the start of every verb, after `input` and the table of keys, in order."""
_BOOT_HEAD: Final = "# Written by Railyard; railyard-nics.service runs it at each boot.\nset boot\n"
"""`set` gives the verb, as the line of a step does."""
_ALWAYS: Final = ("localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local")
_NETWORK_BITS: Final = 24
"""The file gives addresses of devices without networks: the /24 around each counts as its network,
which keeps the list short on a site with many hosts."""


@cache
def _file(name: str) -> str:
    return resources.files("components.hosts").joinpath("scripts", name).read_text("utf-8")


@cache
def host_tool() -> tools.Tool:
    """All scripts that read a Linux host and change its settings.

    The boot unit runs its own copy of the whole tool, and does not depend on this version's file.
    """
    boot = {"boot_unit": boot_unit_text(), "boot_head": _BOOT_HEAD}
    head = "".join(tools.shell_lines(name, text) for name, text in boot.items())
    parts = (_file(f"{part}.sh") for part in _PARTS)
    texts = (tools.linux_text(), _file("input.sh"), keys_text(), *parts, head)
    return tools.assemble("host", texts, {verb: _file(f"{verb}.sh") for verb in get_args(Verb)})


def host_call(verb: Verb) -> tools.ToolCall:
    """One verb of the tool for Linux hosts."""
    return tools.ToolCall(host_tool(), verb)


@cache
def look_text() -> str:
    """The script that reads the host's cards and GPUs."""
    return tools.strip_comments(_file("look.sh"))


@cache
def discover_text() -> str:
    """The script with which `railyard discover` reads an unknown host; sent unchanged."""
    return look_text() + tools.strip_comments(_file("discover.sh"))


@cache
def boot_script_text() -> str:
    """The script that `railyard-nics.service` runs at each boot of a host."""
    return _BOOT_HEAD + host_tool().text


@cache
def boot_unit_text() -> str:
    """The unit that restores the settings of the cards after a reboot."""
    return _file("railyard-nics.service")


def boot_files_digest(config: str) -> str:
    """The digest that a host reports for its three boot files."""
    together = boot_unit_text() + boot_script_text() + config
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def proxy_settings(spec: ClusterSpec) -> dict[str, str]:
    """`http_proxy`, `https_proxy` and `no_proxy` for programs; empty without a proxy."""
    proxy = spec.proxy
    if proxy is None:
        return {}
    # Programs must never use the proxy for networks and names of the site itself.
    addresses = [ssh.address for _, ssh, _ in each_ssh(spec)]
    addresses += [host.address for host in spec.hosts if host.address]
    networks = [rail.subnet for rail in spec.rails]
    names: list[str] = []
    for address in dict.fromkeys(addresses):
        try:
            networks.append(IPv4Network((int(IPv4Address(address)), _NETWORK_BITS), strict=False))
        except ValueError:
            names.append(address)  # a name, or IPv6: few, so listed unchanged
    if (ours := spec.k3s or spec.kubespray) is not None:
        networks += [ours.pod_cidr, ours.service_cidr]
        names += [ours.registry_mirror.partition(":")[0]] if ours.registry_mirror else []
    own = (*map(str, collapse_addresses(networks)), *names)
    http, https = proxy.http or proxy.https, proxy.https or proxy.http
    return {
        "http_proxy": http or "",
        "https_proxy": https or "",
        "no_proxy": ",".join(dict.fromkeys((*proxy.no_proxy, *_ALWAYS, *own))),
    }


def through_proxy(spec: ClusterSpec, call: tools.ToolCall) -> tools.ToolCall:
    """The same verb, with the proxy in the environment of its downloads."""
    words = tuple(f"{key}={value}" for key, value in proxy_settings(spec).items())
    return replace(call, arguments=(*call.arguments, *words)) if words else call


def proxy_file(spec: ClusterSpec) -> str:
    """The settings as a file for systemd's `EnvironmentFile`, in both spellings; else empty."""
    settings = proxy_settings(spec)
    both = {**settings, **{key.upper(): value for key, value in settings.items()}}
    return "".join(f"{key}={value}\n" for key, value in sorted(both.items()))
