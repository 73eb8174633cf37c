"""Rules on cloud instances: mistakes that show before the cloud is asked."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final, TypeAlias

from components.catalogue.environments import (
    GPU_TYPES,
    InstanceType,
    find_type,
    fits_image,
    parse_release,
)
from components.checks.planes import with_role
from components.checks.rows import also, known, rule, unique, values
from components.checks.rule import Finding, Findings, at, place_of, places
from components.core.judge import needs
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor, InstancePool, VirtualMachine
from components.model.reach import how_to_pin
from components.model.worker_kinds import crusoe_of, instance_names
from components.reading.wording import did_you_mean

_INSTANCES: Final = ("environment", "instances")
_RESERVED: Final = 6
"""Addresses of a subnet that machines cannot use: the first five and the broadcast address
(vendor)."""


def _pools(spec: ClusterSpec) -> Iterator[tuple[InstancePool, SpecPath]]:
    if (provision := crusoe_of(spec)) is not None:
        for p, pool in enumerate(provision.pools):
            yield pool, (*_INSTANCES, "pools", p)


def _infiniband(spec: ClusterSpec) -> Iterator[tuple[InstancePool, InstanceType, SpecPath]]:
    for pool, path in _pools(spec):
        kind = find_type(pool.type)
        if kind is not None and kind.hcas:
            yield pool, kind, path


def check_instance_type(spec: ClusterSpec) -> Findings:
    """Each pool has an instance type that this release knows.

    It decides GPUs, HCAs and the topology file. An update asks first whether the location offers
    it.
    """
    for pool, path in _pools(spec):
        if find_type(pool.type) is None:
            hint = did_you_mean(pool.type, list(GPU_TYPES))
            what = f"{pool.type} of pool {pool.name} is not a known instance type.{hint}"
            fix = f"use one of {', '.join(GPU_TYPES)}, or a CPU type such as c1a.8x."
            yield Finding(what, (at((*path, "type"), pool.type),), fix)


def check_instance_image(spec: ClusterSpec) -> Findings:
    """Each pool's image is in the family of its type.

    Its driver must fit the GPUs. A tag `latest` is resolved once, and its image is kept.
    """
    for pool, path in _pools(spec):
        kind = find_type(pool.type)
        if kind is not None and not fits_image(kind, pool.image):
            wanted = (
                "ubuntu22.04:latest"
                if kind.image_suffix is None
                else f"ubuntu22.04-nvidia-sxm-docker{kind.image_suffix}:latest"
            )
            what = f"the image {pool.image} of pool {pool.name} is not made for {pool.type}."
            where = (at((*path, "image"), pool.image), at((*path, "type"), pool.type))
            yield Finding(what, where, f"use {wanted}, or a newer one of that family.")


def check_ib_partition(spec: ClusterSpec) -> Findings:
    """Types on InfiniBand have an IB partition, all of one type; other types have none.

    A partition belongs to one IB network, and an IB network is for one type.
    """
    provision = crusoe_of(spec)
    if provision is None:
        return
    pools = [(pool, at((*path, "type"), pool.type)) for pool, _, path in _infiniband(spec)]
    where = at((*_INSTANCES, "ib_partition"), provision.ib_partition)
    if pools and provision.ib_partition is None:
        first, place = pools[0]
        what = f"{first.type} of pool {first.name} is on InfiniBand, but lacks a partition."
        fix = f"set ib_partition to a name, for example {spec.name}."
        yield Finding(what, (where, place), fix)
    unknown = any(find_type(pool.type) is None for pool in provision.pools)
    if not pools and not unknown and provision.ib_partition is not None:
        what = f"the partition {provision.ib_partition} is empty: no pool is on InfiniBand."
        yield Finding(what, (where,), "give the workers a type with -ib in its name.")
    for pool, place in [each for each in pools if each[0].type != pools[0][0].type]:
        what = f"{pools[0][0].name} and {pool.name} need one InfiniBand type for a partition."
        yield Finding(what, (pools[0][1], place), "use one type, or a site for each.")


def check_cloud_network(spec: ClusterSpec) -> Findings:
    """The subnet is inside the network, has room, and overlaps neither pods nor services.

    The vendor's example, 10.0.0.0/8, includes K3s' own networks.
    """
    provision = crusoe_of(spec)
    if provision is None:
        return
    vpc, subnet = provision.vpc_cidr, provision.subnet_cidr
    where, whole = at((*_INSTANCES, "subnet_cidr"), subnet), at((*_INSTANCES, "vpc_cidr"), vpc)
    if not subnet.subnet_of(vpc):
        what = f"the subnet {subnet} is not in the network {vpc}."
        yield Finding(what, (where, whole), "choose a part of the network.")
    needed = sum(pool.count for pool in provision.pools)
    free = max(subnet.num_addresses - _RESERVED, 0)
    if free < needed:
        what = f"the subnet {subnet} has {free} addresses for {needed} instances."
        fix = "choose a larger one; the cloud keeps six addresses for itself."
        yield Finding(what, (where,), fix)
    for words in ("pod", "service") if spec.kubernetes is not None else ():
        network: IPv4Network = getattr(spec.kubernetes, f"{words}_cidr")
        if network.overlaps(vpc):
            what = f"the network {vpc} overlaps the {words} network {network}."
            place = at(("kubernetes", f"{words}_cidr"), network)
            yield Finding(what, (whole, place), "choose networks that do not overlap.")


@needs("roles")
def check_cloud_balancer(spec: ClusterSpec) -> Findings:
    """Several control-plane instances have one balancer before them.

    In clouds an address cannot move from a lost server to another.
    """
    if spec.cloud is None or spec.k3s is None:
        return
    balancers = with_role(spec, "balancer")
    if len(spec.servers) > 1 and not balancers:
        what = f"{len(spec.servers)} control-plane instances lack a balancer."
        yield Finding(what, places(spec, "hosts"), "add one instance with the role balancer.")
    for h, host in balancers[1:]:
        what = f"{balancers[0][1].name} and {host.name} are both balancers of one cluster address."
        fix = "keep one; joined nodes do not need it."
        yield Finding(what, (at(("hosts", balancers[0][0], "role")), at(("hosts", h, "role"))), fix)


def check_cloud_hosts(spec: ClusterSpec) -> Findings:
    """At a cloud site the file has no switches or rails, and hosts are either listed or made.

    `bring_your_own` lists them under `hosts`; made instances come only from the pools.
    """
    cloud, provision = spec.cloud, crusoe_of(spec)
    if cloud is None:
        return
    for key, things in (("switches", spec.switches), ("rails", spec.rails)):
        if things:
            where = (at((key,)), at(("environment", "kind"), cloud.kind))
            fix = f"remove {key}."
            yield Finding(f"the cloud owns the fabric, but the file has {key}.", where, fix)
    if provision is None and not spec.hosts:
        where = places(spec, "hosts", "environment.instances.kind")
        fix = "list them under hosts, with their addresses and host keys."
        yield Finding("instances are bring_your_own, but hosts is empty.", where, fix)
    if provision is None:
        return
    made = {name for pool in provision.pools for name in instance_names(pool)}
    for h, host in enumerate(spec.hosts):
        if host.name not in made:
            where = (at(("hosts", h, "name"), host.name), at((*_INSTANCES, "pools")))
            fix = "remove hosts, or use instances: {kind: bring_your_own} and list all."
            yield Finding(f"the file lists {host.name}, but the pools make the hosts.", where, fix)


@needs("infiniband")
def check_fabric_transport(spec: ClusterSpec) -> Findings:
    """A cloud with InfiniBand, and a site with `infiniband`, have that transport; no other has it.

    Priorities, DSCP and GID index mean nothing on InfiniBand; on Ethernet RoCE needs them.
    """
    transport, kind = spec.rdma.transport, spec.environment.kind
    keys = ("rdma.transport", "environment.kind" if spec.cloud else "infiniband")
    if (spec.ib_fabric is not None) == (transport == "infiniband"):
        if spec.cloud is None or spec.infiniband is None:
            return
        what, keys = (
            "the cloud owns the InfiniBand fabric, but infiniband describes switches.",
            ("infiniband", "environment.kind"),
        )
        fix = "remove infiniband; environment.fabric describes the cloud's."
    elif transport == "infiniband":
        what = f"the transport is infiniband, but the environment {kind} lacks such a fabric."
        fix, keys = (
            "set rdma: {transport: roce}, or describe the fabric under infiniband.",
            ("rdma.transport", "environment.kind"),
        )
    else:
        owner = "the cloud's fabric" if spec.cloud else "infiniband"
        what = f"{owner} is InfiniBand, but the transport is {transport}."
        fix = "set rdma: {transport: infiniband}."
    yield Finding(what, places(spec, *keys), fix)


def _workers(spec: ClusterSpec) -> Iterator[tuple[str, int, Place]]:
    if crusoe_of(spec) is None:
        for h, host in enumerate(spec.hosts):
            if host.role == "worker":
                yield host.name, host.hcas, at(("hosts", h, "hcas"), host.hcas)
    for pool, path in _pools(spec):
        kind = find_type(pool.type)
        if pool.role == "worker" and kind is not None:
            yield pool.type, kind.hcas, at((*path, "type"), pool.type)


def check_cloud_hcas(spec: ClusterSpec) -> Findings:
    """Every worker of a cloud has as many HCAs as `fabric` states, at its rate.

    A pod of a job is never placed on a worker with fewer.
    """
    if spec.cloud is None:
        return
    fabric, path = spec.cloud.fabric, ("environment", "fabric")
    for name, hcas, place in _workers(spec):
        if hcas != fabric.hcas:
            what = f"{name} has {hcas} HCAs, but the fabric has {fabric.hcas} on each worker."
            fix = "correct the wrong number; the instance type decides its own."
            yield Finding(what, (place, at((*path, "hcas"), fabric.hcas)), fix)
    for pool, kind, place in _infiniband(spec):
        if kind.rate_gbit_s != fabric.rate_gbit_s:
            what = f"{pool.type} has {kind.rate_gbit_s} Gbit/s, not {fabric.rate_gbit_s}."
            where = (
                at((*place, "type"), pool.type),
                at((*path, "rate_gbit_s"), fabric.rate_gbit_s),
            )
            yield Finding(what, where, f"set rate_gbit_s to {kind.rate_gbit_s}.")
    if fabric.expected_hcas and len(fabric.expected_hcas) != fabric.hcas:
        what = f"expected_hcas lists {len(fabric.expected_hcas)} HCAs, but hcas is {fabric.hcas}."
        where = places(spec, "environment.fabric.expected_hcas", "environment.fabric.hcas")
        fix = "name all of them, or remove expected_hcas: link, state and rate find them."
        yield Finding(what, where, fix)


def check_topology_file(spec: ClusterSpec) -> Findings:
    """Jobs on made instances get NCCL's topology file of their type.

    The hypervisor hides the PCIe tree, and without the file NCCL has been seen to hang there.
    """
    given = spec.jobs.topology_file
    shown, severity = (given.host_path, "warning") if given else (None, "error")
    for pool, kind, path in _infiniband(spec):
        if shown is None or shown != kind.topology_file:
            actual = shown or "no topology file"
            what = f"{pool.type} needs {kind.topology_file}, but jobs get {actual}."
            where = (
                at(("jobs", "topology_file", "host_path"), shown),
                at((*path, "type"), pool.type),
            )
            fix = "set jobs.topology_file.host_path to it; older hypervisors have *-qemu.xml."
            yield Finding(what, where, fix, severity)


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

    In 7.0 and 7.0 U1 the option has another name, and 6.x lacks it.
    """
    faults = {
        "other_option": "has vtdAtsSupport, not atsSupport",
        "absent": "does not support PCIe ATS",
    }
    for hypervisor, path in _hypervisors(spec):
        release = parse_release(hypervisor.release)
        if release is not None and release.ats in faults:
            what = f"ESXi {release.text} of {hypervisor.name} {faults[release.ats]}."
            where = (at((*path, "release"), hypervisor.release),)
            yield Finding(what, where, "update the host to 7.0U2 or later.")


def check_hypervisor_access(spec: ClusterSpec) -> Findings:
    """Railyard logs in to a hypervisor as root, by key or agent, with a host key that ESXi has.

    ESXi lacks sudo. Its host keys are ECDSA and RSA, and its SSH server in FIPS mode accepts no
    login key of ed25519.
    """
    for hypervisor, path in _hypervisors(spec):
        ssh, place = hypervisor.ssh, (*path, "ssh")
        if ssh.password is not None or not (ssh.private_key or ssh.agent):
            what = f"{hypervisor.name} is not reached by key, and hypervisors take nothing else."
            fix = "use private_key: {secret: ssh_private_key} without a password, and write the "
            fix += "public key to /etc/ssh/keys-root/authorized_keys of the host."
            yield Finding(what, (place_of(spec, (*place, "private_key")),), fix)
        if ssh.user != "root":
            what = f"{hypervisor.name} uses the login {ssh.user}, but ESXi lacks sudo."
            yield Finding(what, (at((*place, "user"), ssh.user),), "use user: root.")
        if (ssh.host_key or "").startswith(_NO_FIPS):
            what = f"the host key of {hypervisor.name} is ed25519, which ESXi does not use."
            fix = f"{how_to_pin(ssh.address, ssh.port)}; make the login key by ssh-keygen -t ecdsa."
            yield Finding(what, (at((*place, "host_key"), ssh.host_key),), fix)


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


def _workers_without_vm(spec: ClusterSpec) -> Findings:
    names = {vm.name for _, vm, _ in _machines(spec)}
    for h, host in enumerate(spec.hosts) if spec.hypervisors else ():
        if host.role == "worker" and host.name not in names:
            what = f"no hypervisor runs the worker {host.name} as a virtual machine."
            fix = "add it to vms of the hypervisor that runs it."
            yield Finding(what, places(spec, f"hosts.{h}.name"), fix)


_DISTINCT: Final = "give each hypervisor a different name and address."


@also(unique("environment.hypervisors.*.name", _DISTINCT, "two devices are called {value}."))
def check_hypervisor_name(spec: ClusterSpec) -> Findings:
    """A hypervisor has a unique name among all devices, and a unique address.

    The name is part of the identity of its resources.
    """
    others = {each.value: each.place for each in values(spec, "switches.*.name hosts.*.name")}
    doors: dict[str, Place] = {}
    for each, path in _hypervisors(spec):
        if each.name in others:
            where = (at((*path, "name"), each.name), others[each.name])
            yield Finding(f"two devices are called {each.name}.", where, _DISTINCT)
        door = f"{each.ssh.address}:{each.ssh.port}"
        place = at((*path, "ssh", "address"), door)
        other = doors.setdefault(door, place)
        if other is not place:
            yield Finding(f"two devices are reached at {door}.", (place, other), _DISTINCT)


@also(
    unique(
        "environment.hypervisors.*.vms.*.gpu environment.hypervisors.*.vms.*.nic",
        "give each machine different devices: see `esxcli hardware pci list`.",
        "{one} and {other} use the same PCI device {value}.",
        by=lambda each: (each.path[:3], each.value),
    )
)
def check_passthrough_device(spec: ClusterSpec) -> Findings:
    """On one hypervisor each PCI device belongs to one virtual machine, as its GPU or its card.

    A whole GPU is function 0 of device 0 on its bus; another address is a VF, which vGPU assigns.
    Railyard passes whole GPUs through.
    """
    fix = f"write the GPU's own address, which ends in {_WHOLE_CARD}; vGPU is not supported."
    for _, vm, path in _machines(spec):
        if not vm.gpu.endswith(_WHOLE_CARD):
            what = f"the GPU {vm.gpu} of {vm.name} is a VF, but only whole GPUs are passed through."
            yield Finding(what, (at((*path, "gpu"), vm.gpu),), fix)


RULES: Final = (
    rule(
        "vm-host",
        """Each virtual machine is a host of the file, and each worker is a machine of one
        hypervisor.""",
        unique(
            "environment.hypervisors.*.vms.*.name",
            "a machine runs on one hypervisor; remove one of the two.",
            "{value} is a virtual machine of two entries.",
        ),
        known(
            "environment.hypervisors.*.vms.*.name",
            "hosts.*.name",
            "the virtual machine {value} is not a host of the file.",
            "add it to hosts, or correct the name.",
        ),
        _workers_without_vm,
    ),
)
