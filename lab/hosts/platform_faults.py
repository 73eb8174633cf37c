"""Faults of a host's system: control groups, swap, clock, its network, and who may become root."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from components.core.errors import UsageError
from lab.hosts.model import HostModel
from lab.hosts.tools.packages import install

PLATFORM_WORDS = {
    "cgroup": 1,
    "selinux": 1,
    "swap": 1,
    "clock": 1,
    "sudo-lost": 1,
    "address-taken": 2,
    "network-manager": 1,
    "dhcp-ends": 1,
}
"""How many words follow each fault's name."""
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def cause_platform_fault(model: HostModel, user: str, name: str, words: Sequence[str]) -> str:
    """Cause one fault and say in words what was done.

    Raises:
        UsageError: A word of it is wrong.
    """
    actions: dict[str, Callable[[], str]] = {
        "cgroup": lambda: _cgroup(model, words[0]),
        "selinux": lambda: _selinux(model, words[0]),
        "swap": lambda: _swap(model, words[0]),
        "clock": lambda: _clock(model, words[0]),
        "sudo-lost": lambda: _sudo(model, user, words[0]),
        "address-taken": lambda: _neighbour(model, words[0], words[1]),
        "network-manager": lambda: _network_manager(model, words[0]),
        "dhcp-ends": lambda: _end_dhcp(model, words[0]),
    }
    return actions[name]()


def _cgroup(model: HostModel, version: str) -> str:
    if version not in {"v1", "v2"}:
        raise UsageError(f"cgroup is v1 or v2, not {version!r}")
    model.platform.cgroup = "v1" if version == "v1" else "v2"
    return f"the host runs on cgroup {version}"


def _selinux(model: HostModel, state: str) -> str:
    if state not in {"on", "off"}:
        raise UsageError(f"selinux is on or off, not {state!r}")
    model.platform.selinux = state == "on"
    return f"SELinux is {'enforcing' if model.platform.selinux else 'not there'}"


def _swap(model: HostModel, mib: str) -> str:
    if not mib.isdigit():
        raise UsageError(f"swap takes MiB, not {mib!r}")
    model.platform.swap_kib = int(mib) << 10
    model.platform.write_swaps(model.root)
    return f"{mib} MiB of swap are on"


def _clock(model: HostModel, seconds: str) -> str:
    if not seconds.removeprefix("-").isdigit():
        raise UsageError(f"clock takes seconds, not {seconds!r}")
    model.platform.clock_off_s = int(seconds)
    return f"the clock is {seconds} s ahead"


def _neighbour(model: HostModel, address: str, mac: str) -> str:
    if mac == "off":
        model.platform.neighbours.pop(address, None)
        return f"nobody answers for {address}"
    if not _MAC.fullmatch(mac):
        raise UsageError(f"address-taken takes a MAC address or off, not {mac!r}")
    model.platform.neighbours[address] = mac
    return f"{mac} answers for {address}"


def _sudo(model: HostModel, user: str, state: str) -> str:
    """A name with a dot is passed over by sudo (sudoers(5), includedir)."""
    if state not in {"on", "off"}:
        raise UsageError(f"sudo-lost is on or off, not {state!r}")
    there = model.root / f"etc/sudoers.d/90-{user}"
    away = there.with_name(f"{there.name}.lost")
    source, target = (there, away) if state == "on" else (away, there)
    if source.exists():
        source.replace(target)
    return f"{user} may {'not ' if state == 'on' else ''}become root"


def _network_manager(model: HostModel, state: str) -> str:
    if state not in {"on", "off"}:
        raise UsageError(f"network-manager is on or off, not {state!r}")
    install(model.root, "network-manager")
    model.network_manager.runs = state == "on"
    model.network_manager.boot(model)
    return f"NetworkManager {'runs' if state == 'on' else 'does not run'}"


def _end_dhcp(model: HostModel, netdev: str) -> str:
    nic = model.nic_by_netdev(netdev)
    if nic is None:
        raise UsageError(f"there is no card {netdev!r}")
    had = model.network_manager.end_attempt(nic)
    return f"{netdev} has no address" if had else f"NetworkManager does not have {netdev}"
