"""Rules on ESXi hosts, their virtual machines and the devices that these are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from components.catalogue.esxi_releases import parse_release
from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor, VirtualMachine
from components.model.reach import how_to_pin

_Placed: TypeAlias = tuple[Hypervisor, VirtualMachine, SpecPath]

_NO_FIPS: Final = "ssh-ed25519"
_WHOLE_CARD: Final = ":00.0"
"""How the PCI address of a card ends: the one device of its bus, function 0 (PCIe base spec.)."""


def _hypervisors(spec: ClusterSpec) -> Iterator[tuple[Hypervisor, SpecPath]]:
    for y, hypervisor in enumerate(spec.hypervisors):
        yield hypervisor, ("environment", "hypervisors", y)


def _machines(spec: ClusterSpec) -> Iterator[_Placed]:
    for hypervisor, path in _hypervisors(spec):
        for v, vm in enumerate(hypervisor.vms):
            yield hypervisor, vm, (*path, "vms", v)


def check_esxi_release(spec: ClusterSpec) -> Iterator[Finding]:
    """An ESXi release has the kernel setting atsSupport: 7.0 U2 or later.

    Without ATS the GPU and the card of a virtual machine do not reach each other directly. 7.0 and
    7.0 U1 have an option of another name, and 6.x has none.
    """
    for hypervisor, path in _hypervisors(spec):
        place = at((*path, "release"), hypervisor.release)
        release = parse_release(hypervisor.release)
        if release is not None and release.ats == "other_option":
            yield Finding(
                f"ESXi {release.text} of {hypervisor.name} has no kernel setting atsSupport (its"
                " vtdAtsSupport is another one).",
                (place,),
                "update the host to 7.0U2 or later.",
            )
        if release is not None and release.ats == "absent":
            yield Finding(
                f"ESXi {release.text} of {hypervisor.name} has no support for PCIe ATS at all.",
                (place,),
                "update the host to 7.0U2 or later.",
            )


def check_hypervisor_access(spec: ClusterSpec) -> Iterator[Finding]:
    """A hypervisor is reached as root, by key or the SSH agent, at a host key that ESXi has.

    ESXi has no sudo: root logs in directly. A password would have to travel with every command. Its
    host keys are ECDSA and RSA, and its SSH server in FIPS mode takes no login key of ed25519.
    """
    for hypervisor, path in _hypervisors(spec):
        ssh, place = hypervisor.ssh, (*path, "ssh")
        if ssh.password is not None or not (ssh.private_key or ssh.agent):
            yield Finding(
                f"{hypervisor.name} is not reached by key, and hypervisors take nothing else.",
                (at((*place, "private_key"), ssh.private_key and ssh.private_key.name),),
                "use private_key: {secret: ssh_private_key}, without a password; the public key"
                " belongs in /etc/ssh/keys-root/authorized_keys of the host.",
            )
        if ssh.user != "root":
            yield Finding(
                f"{hypervisor.name} is reached as {ssh.user}, and ESXi has no sudo.",
                (at((*place, "user"), ssh.user),),
                "use user: root.",
            )
        if (ssh.host_key or "").startswith(_NO_FIPS):
            yield Finding(
                f"the host key of {hypervisor.name} is of ed25519, and ESXi has no such key.",
                (at((*place, "host_key"), ssh.host_key),),
                f"{how_to_pin(ssh.address, ssh.port)}. The login key is of ECDSA or RSA,"
                " too: ssh-keygen -t ecdsa.",
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


def check_passthrough_device(spec: ClusterSpec) -> Iterator[Finding]:
    """On one hypervisor each PCI device belongs to one virtual machine, as its GPU or its card.

    A whole GPU is function 0 of device 0 on its bus, as every PCIe card; what has another address
    there is a VF of a GPU in SR-IOV mode, which vGPU hands out. Railyard passes whole GPUs through.
    """
    for hypervisor, path in _hypervisors(spec):
        seen: dict[str, SpecPath] = {}
        for v, vm in enumerate(hypervisor.vms):
            if not vm.gpu.endswith(_WHOLE_CARD):
                yield Finding(
                    f"the GPU {vm.gpu} of {vm.name} is a VF (vGPU on a GPU in SR-IOV mode), and "
                    "Railyard passes whole GPUs through.",
                    (at((*path, "vms", v, "gpu"), vm.gpu),),
                    "write the address of the GPU itself, which ends in "
                    f"{_WHOLE_CARD}, and take the GPU out of SR-IOV mode; vGPU is not supported.",
                )
            for key, value in (("gpu", vm.gpu), ("nic", vm.nic)):
                place: SpecPath = (*path, "vms", v, key)
                other = seen.setdefault(value, place)
                if other != place:
                    yield Finding(
                        f"the PCI device {value} of {hypervisor.name} is given away twice.",
                        (at(place, value), at(other, value)),
                        "give each machine devices of its own: see `esxcli hardware pci list`.",
                    )
