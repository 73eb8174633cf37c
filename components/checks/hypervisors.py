"""Rules on ESXi hosts, their virtual machines and the devices passed to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from components.catalogue.environments import parse_release
from components.checks.rule import Finding, Findings, at, places, unique
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor, VirtualMachine
from components.model.reach import how_to_pin

_Placed: TypeAlias = tuple[Hypervisor, VirtualMachine, SpecPath]

_NO_FIPS: Final = "ssh-ed25519"
_WHOLE_CARD: Final = ":00.0"
"""End of a card's PCI address: the one device of its bus, function 0 (PCIe base spec.)."""


def _hypervisors(spec: ClusterSpec) -> Iterator[tuple[Hypervisor, SpecPath]]:
    for y, hypervisor in enumerate(spec.hypervisors):
        yield hypervisor, ("environment", "hypervisors", y)


def _machines(spec: ClusterSpec) -> Iterator[_Placed]:
    for hypervisor, path in _hypervisors(spec):
        for v, vm in enumerate(hypervisor.vms):
            yield hypervisor, vm, (*path, "vms", v)


def check_esxi_release(spec: ClusterSpec) -> Findings:
    """An ESXi release has the kernel setting atsSupport: 7.0 U2 or later.

    Without ATS the GPU and the card of a virtual machine cannot reach each other directly. In 7.0
    and 7.0 U1 the option has another name, and 6.x lacks it.
    """
    for hypervisor, path in _hypervisors(spec):
        place = at((*path, "release"), hypervisor.release)
        release = parse_release(hypervisor.release)
        if release is not None and release.ats == "other_option":
            what = f"ESXi {release.text} of {hypervisor.name} has vtdAtsSupport, not atsSupport."
            yield Finding(what, (place,), "update the host to 7.0U2 or later.")
        if release is not None and release.ats == "absent":
            what = f"ESXi {release.text} of {hypervisor.name} has no support for PCIe ATS at all."
            yield Finding(what, (place,), "update the host to 7.0U2 or later.")


def check_hypervisor_access(spec: ClusterSpec) -> Findings:
    """Railyard logs in to a hypervisor as root, by key or agent, with a host key that ESXi has.

    ESXi lacks sudo: root logs in directly. A password would have to travel with every command. Its
    host keys are ECDSA and RSA, and its SSH server in FIPS mode accepts no login key of ed25519.
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
            what = f"{hypervisor.name} is reached as {ssh.user}, and ESXi has no sudo."
            yield Finding(what, (at((*place, "user"), ssh.user),), "use user: root.")
        if (ssh.host_key or "").startswith(_NO_FIPS):
            what = f"the host key of {hypervisor.name} is of ed25519, and ESXi has no such key."
            fix = f"{how_to_pin(ssh.address, ssh.port)}; make the login key by ssh-keygen -t ecdsa."
            yield Finding(what, (at((*place, "host_key"), ssh.host_key),), fix)


def check_vm_host(spec: ClusterSpec) -> Findings:
    """Each virtual machine is a host of the file, and each worker is a machine of one hypervisor.

    Otherwise nothing prepares the guest, or no hypervisor gives the worker its devices.
    """
    placed = [(vm.name, at((*path, "name"), vm.name)) for _, vm, path in _machines(spec)]
    fix = "a machine runs on one hypervisor; take one of the two away."
    yield from unique(placed, "{} is a virtual machine of two entries.", fix)
    for hypervisor, vm, path in _machines(spec):
        if spec.host(vm.name) is None:
            what = f"{vm.name} of {hypervisor.name} is no host of the file."
            where = (at((*path, "name"), vm.name),)
            yield Finding(what, where, "add it to hosts, or correct the name.")
    if not spec.hypervisors:
        return
    for h, host in enumerate(spec.hosts):
        if host.role == "worker" and host.name not in dict(placed):
            what = f"the worker {host.name} is no virtual machine of any hypervisor."
            where = places(spec, f"hosts.{h}.name")
            yield Finding(what, where, "add it to vms of the hypervisor that runs it.")


def check_hypervisor_name(spec: ClusterSpec) -> Findings:
    """A hypervisor has a unique name among all devices, and a unique address.

    Its name is part of the identity of its resources, and reports name devices by it.
    """
    names = [
        (each.name, at((group, number, "name"), each.name))
        for group, devices in (("switches", spec.switches), ("hosts", spec.hosts))
        for number, each in enumerate(devices)
    ]
    names = list(dict(names).items())  # `duplicate-name` reports two other devices
    doors: list[tuple[str, Place]] = []
    for each, path in _hypervisors(spec):
        door = f"{each.ssh.address}:{each.ssh.port}"
        names.append((each.name, at((*path, "name"), each.name)))
        doors.append((door, at((*path, "ssh", "address"), door)))
    fix = "give each hypervisor a name and an address of its own."
    yield from unique(names, "two devices are called {}.", fix)
    yield from unique(doors, "two devices are reached at {}.", fix)


def check_vm_devices(spec: ClusterSpec) -> Findings:
    """The host of a virtual machine has one GPU and one card: those that are passed through."""
    for h, host in enumerate(spec.hosts):
        if host.name not in {vm.name for _, vm, _ in _machines(spec)}:
            continue
        for key, count in (("gpus", host.gpus), ("nics", len(host.nics))):
            if count != 1:
                what = f"the virtual machine {host.name} takes one of each, but has {count} {key}."
                fix = f"write the one device in hosts[].{key}; vms[] takes one GPU and one card."
                yield Finding(what, (at(("hosts", h, key), count),), fix)


def check_passthrough_device(spec: ClusterSpec) -> Findings:
    """On one hypervisor each PCI device belongs to one virtual machine, as its GPU or its card.

    A whole GPU is function 0 of device 0 on its bus, like every PCIe card; another address there is
    a VF of a GPU in SR-IOV mode, which vGPU assigns. Railyard passes whole GPUs through.
    """
    for hypervisor, path in _hypervisors(spec):
        seen: dict[str, SpecPath] = {}
        for v, vm in enumerate(hypervisor.vms):
            if not vm.gpu.endswith(_WHOLE_CARD):
                yield Finding(
                    f"the GPU {vm.gpu} of {vm.name} is a VF (vGPU); only whole GPUs are passed.",
                    (at((*path, "vms", v, "gpu"), vm.gpu),),
                    "write the address of the GPU itself, which ends in "
                    f"{_WHOLE_CARD}, and take the GPU out of SR-IOV mode; vGPU is not supported.",
                )
            for key, value in (("gpu", vm.gpu), ("nic", vm.nic)):
                place: SpecPath = (*path, "vms", v, key)
                other = seen.setdefault(value, place)
                if other != place:
                    what = f"the PCI device {value} of {hypervisor.name} is given away twice."
                    fix = "give each machine devices of its own: see `esxcli hardware pci list`."
                    yield Finding(what, (at(place, value), at(other, value)), fix)
