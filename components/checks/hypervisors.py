"""Rules on ESXi hosts, their virtual machines and the devices that these are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from components.catalogue.esxi_releases import parse_release
from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.hypervisors import Hypervisor, VirtualMachine

_LEAST_MMIO_GIB: Final = 32
"""A smaller 64-bit window holds no data-centre GPU: the T4's 16 GiB, doubled (sources.md#esxi)."""
_MEMORY_STEP_MIB: Final = 4
"""ESXi takes a machine's memory in multiples of 4 MB (vSphere virtual machine administration)."""
_LEAST_MEMORY_MIB: Final = 4096

_Placed: TypeAlias = tuple[Hypervisor, VirtualMachine, SpecPath]


def _hypervisors(spec: ClusterSpec) -> Iterator[tuple[Hypervisor, SpecPath]]:
    for y, hypervisor in enumerate(spec.hypervisors):
        yield hypervisor, ("environment", "hypervisors", y)


def _machines(spec: ClusterSpec) -> Iterator[_Placed]:
    for hypervisor, path in _hypervisors(spec):
        for v, vm in enumerate(hypervisor.vms):
            yield hypervisor, vm, (*path, "vms", v)


def check_esxi_release(spec: ClusterSpec) -> Iterator[Finding]:
    """An ESXi release can be read, and has the kernel setting atsSupport: 7.0 U2 or later.

    Without ATS the GPU and the card of a virtual machine do not reach each other directly. 7.0 and
    7.0 U1 have an option of another name, and 6.x has none.
    """
    for hypervisor, path in _hypervisors(spec):
        place = at((*path, "release"), hypervisor.release)
        release = parse_release(hypervisor.release)
        if release is None:
            yield Finding(
                f'"{hypervisor.release}" is not an ESXi release.',
                (place,),
                "write it as 7.0U2 or 8.0; `esxcli system version get` shows version and update.",
            )
        elif release.ats == "other_option":
            yield Finding(
                f"ESXi {release.text} of {hypervisor.name} has no kernel setting atsSupport (its"
                " vtdAtsSupport is another one).",
                (place,),
                "update the host to 7.0U2 or later.",
            )
        elif release.ats == "absent":
            yield Finding(
                f"ESXi {release.text} of {hypervisor.name} has no support for PCIe ATS at all.",
                (place,),
                "update the host to 7.0U2 or later.",
            )


def check_hypervisor_access(spec: ClusterSpec) -> Iterator[Finding]:
    """A hypervisor is reached as root, by key, with a pinned ECDSA or ed25519 host key.

    ESXi has no sudo: root logs in directly. A password would have to travel with every command,
    and an RSA host key can only be checked with SHA-1. ESXi has an ECDSA key of its own.
    """
    for hypervisor, path in _hypervisors(spec):
        ssh, place = hypervisor.ssh, (*path, "ssh")
        if ssh.password is not None or ssh.private_key is None:
            yield Finding(
                f"{hypervisor.name} is not reached by key, and hypervisors take nothing else.",
                (at((*place, "private_key"), ssh.private_key and ssh.private_key.secret),),
                "use private_key: {secret: ssh_private_key}, without a password; the public key"
                " belongs in /etc/ssh/keys-root/authorized_keys of the host.",
            )
        if ssh.user != "root":
            yield Finding(
                f"{hypervisor.name} is reached as {ssh.user}, and ESXi has no sudo.",
                (at((*place, "user"), ssh.user),),
                "use user: root.",
            )
        if not (ssh.host_key or "").startswith(("ecdsa-sha2-nistp", "ssh-ed25519 ")):
            yield Finding(
                f"{hypervisor.name} has no pinned ECDSA or ed25519 host key.",
                (at((*place, "host_key"), ssh.host_key),),
                f"run `ssh-keyscan -t ecdsa -p {ssh.port} {ssh.address}` on a trusted network,"
                " compare the key with the host's console, and write what follows the address.",
            )


def check_vm_host(spec: ClusterSpec) -> Iterator[Finding]:
    """Each virtual machine is a host of the file, and each worker is a machine of one hypervisor.

    Otherwise nothing prepares the guest, or no hypervisor gives the worker its devices.
    """
    placed: dict[str, SpecPath] = {}
    for hypervisor, vm, path in _machines(spec):
        place = at((*path, "name"), vm.name)
        if spec.host(vm.name) is None:
            yield Finding(
                f"{vm.name} of {hypervisor.name} is no host of the file.",
                (place,),
                "add it to hosts, or correct the name.",
            )
        other = placed.setdefault(vm.name, (*path, "name"))
        if other != (*path, "name"):
            yield Finding(
                f"{vm.name} is a virtual machine of two entries.",
                (place, at(other, vm.name)),
                "a machine runs on one hypervisor; take one of the two away.",
            )
    if not spec.hypervisors:
        return
    for h, host in enumerate(spec.hosts):
        if host.role == "worker" and host.name not in placed:
            yield Finding(
                f"the worker {host.name} is no virtual machine of any hypervisor.",
                (at(("hosts", h, "name"), host.name),),
                "add it to vms of the hypervisor that runs it.",
            )


def check_hypervisor_name(spec: ClusterSpec) -> Iterator[Finding]:
    """A hypervisor has a name of its own among all devices, and an address of its own.

    Its name is part of the identity of its resources, and reports name devices by it.
    """
    names: dict[str, SpecPath] = {
        **{switch.name: ("switches", s, "name") for s, switch in enumerate(spec.switches)},
        **{host.name: ("hosts", h, "name") for h, host in enumerate(spec.hosts)},
    }
    doors: dict[str, SpecPath] = {}
    for hypervisor, path in _hypervisors(spec):
        door = f"{hypervisor.ssh.address}:{hypervisor.ssh.port}"
        for kind, value, seen, key in (
            ("called", hypervisor.name, names, ("name",)),
            ("reached at", door, doors, ("ssh", "address")),
        ):
            place: SpecPath = (*path, *key)
            other = seen.setdefault(value, place)
            if other != place:
                yield Finding(
                    f"two devices are {kind} {value}.",
                    (at(place, value), at(other, value)),
                    "give each hypervisor a name and an address of its own.",
                )


def check_vm_devices(spec: ClusterSpec) -> Iterator[Finding]:
    """The host of a virtual machine has one GPU and one card: those that are passed through."""
    for h, host in enumerate(spec.hosts):
        if host.name not in {vm.name for _, vm, _ in _machines(spec)}:
            continue
        for key, count in (("gpus", host.gpus), ("nics", len(host.nics))):
            if count != 1:
                yield Finding(
                    f"the virtual machine {host.name} has one of each passed through, and {count}"
                    f" {key} in hosts.",
                    (at(("hosts", h, key), count),),
                    f"write the one device in hosts[].{key}; vms[] takes one GPU and one card.",
                )


def check_hypervisor_vms(spec: ClusterSpec) -> Iterator[Finding]:
    """A hypervisor has at least one virtual machine: our records are kept beside it."""
    for hypervisor, path in _hypervisors(spec):
        if not hypervisor.vms:
            yield Finding(
                f"{hypervisor.name} has no virtual machines, so there is nothing to prepare on it.",
                (at((*path, "vms")),),
                "add its virtual machines, or take the hypervisor out.",
            )


def check_passthrough_device(spec: ClusterSpec) -> Iterator[Finding]:
    """On one hypervisor each PCI device belongs to one virtual machine, as its GPU or its card."""
    for hypervisor, path in _hypervisors(spec):
        seen: dict[str, SpecPath] = {}
        for v, vm in enumerate(hypervisor.vms):
            for key, value in (("gpu", vm.gpu), ("nic", vm.nic)):
                place: SpecPath = (*path, "vms", v, key)
                other = seen.setdefault(value, place)
                if other != place:
                    yield Finding(
                        f"the PCI device {value} of {hypervisor.name} is given away twice.",
                        (at(place, value), at(other, value)),
                        "give each machine devices of its own: see `esxcli hardware pci list`.",
                    )


def check_vm_memory(spec: ClusterSpec) -> Iterator[Finding]:
    """A machine has memory that ESXi takes and a 64-bit window that is a power of two.

    All memory is reserved, since passthrough pins it. The window holds the BARs of the devices; a
    GPU does not start with one that is too small.
    """
    for _, vm, path in _machines(spec):
        if vm.memory_mib < _LEAST_MEMORY_MIB or vm.memory_mib % _MEMORY_STEP_MIB:
            yield Finding(
                f"{vm.name} cannot have {vm.memory_mib} MiB of memory.",
                (at((*path, "memory_mib"), vm.memory_mib),),
                f"write a multiple of {_MEMORY_STEP_MIB} MiB, {_LEAST_MEMORY_MIB} or more.",
            )
        if vm.mmio_gib < _LEAST_MMIO_GIB or vm.mmio_gib & (vm.mmio_gib - 1):
            yield Finding(
                f"{vm.name} cannot have a 64-bit window of {vm.mmio_gib} GiB.",
                (at((*path, "mmio_gib"), vm.mmio_gib),),
                f"write a power of two of at least {_LEAST_MMIO_GIB}: twice the GPUs' memory,"
                " rounded up; 128 for one 40 or 64 GB GPU.",
            )
