"""Rules on cloud instances: mistakes that show before the cloud is asked."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from components.catalogue import environments
from components.checks.planes import with_role
from components.checks.rule import Finding, Findings, Here, at, places, twins, values, walk
from components.core.judge import needs
from components.core.problem import Place
from components.model.cluster import ClusterSpec
from components.model.environments import (
    CrusoeProvision,
    Hypervisor,
    InfiniBandFabric,
    InstancePool,
    VirtualMachine,
)
from components.model.hosts import Host
from components.model.reach import how_to_pin
from components.model.worker_kinds import crusoe_of, instance_names
from components.reading.wording import did_you_mean

_RESERVED: Final = 6
"""Addresses of a subnet that machines cannot use: the first five and the broadcast address
(vendor)."""
_POOLS: Final = "environment.instances.pools.*"
_HOSTS: Final = "environment.hypervisors.*"
_MACHINES: Final = f"{_HOSTS}.vms.*"
_NO_FIPS: Final = "ssh-ed25519"
_WHOLE_CARD: Final = ":00.0"
"""End of a card's PCI address: the one device of its bus, function 0 (PCIe base spec.)."""
_DISTINCT: Final = "give each hypervisor a different name and address."


def check_vm_host(spec: ClusterSpec) -> Findings:
    """Each virtual machine is a host of the file, and each worker is a VM of one hypervisor."""
    machines = {each.value for each in values(spec, f"{_MACHINES}.name")}
    for host, here in walk(spec, "hosts.*", Host) if spec.hypervisors else ():
        if host.role == "worker" and host.name not in machines:
            what = f"no hypervisor runs the worker {host.name} as a virtual machine."
            fix = "add it to vms of the hypervisor that runs it."
            yield Finding(what, here("name"), fix)


def _infiniband(
    spec: ClusterSpec,
) -> Iterator[tuple[InstancePool, environments.InstanceType, Here]]:
    for pool, here in walk(spec, _POOLS, InstancePool):
        kind = environments.find_type(pool.type)
        if kind is not None and kind.hcas:
            yield pool, kind, here


def check_instance_type(spec: ClusterSpec) -> Findings:
    """Each pool has an instance type that this release knows.

    It decides GPUs, HCAs and the topology file. An update asks first whether the location offers
    it.
    """
    for pool, here in walk(spec, _POOLS, InstancePool):
        if environments.find_type(pool.type) is None:
            hint = did_you_mean(pool.type, list(environments.GPU_TYPES))
            what = f"{pool.type} of pool {pool.name} is not a known instance type.{hint}"
            fix = f"use one of {', '.join(environments.GPU_TYPES)}, or a CPU type such as c1a.8x."
            yield Finding(what, here("type"), fix)


def check_instance_image(spec: ClusterSpec) -> Findings:
    """Each pool's image is in the family of its type.

    Its driver must fit the GPUs. A tag `latest` is resolved once, and its image is kept.
    """
    for pool, here in walk(spec, _POOLS, InstancePool):
        kind = environments.find_type(pool.type)
        if kind is not None and not environments.fits_image(kind, pool.image):
            suffix = kind.image_suffix
            family = "" if suffix is None else f"-nvidia-sxm-docker{suffix}"
            what = f"the image {pool.image} of pool {pool.name} is not made for {pool.type}."
            fix = f"use ubuntu22.04{family}:latest, or a newer one of that family."
            yield Finding(what, here("image", "type"), fix)


def check_ib_partition(spec: ClusterSpec) -> Findings:
    """Types on InfiniBand have an IB partition, all of one type; other types have none.

    A partition belongs to one IB network, and an IB network is for one type.
    """
    for provision, cloud in walk(spec, "environment.instances", CrusoeProvision):
        pools = [(pool, here("type")) for pool, _, here in _infiniband(spec)]
        named, where = provision.ib_partition, cloud("ib_partition")
        unknown = any(environments.find_type(pool.type) is None for pool in provision.pools)
        if pools and named is None:
            what = f"{pools[0][0].type} of pool {pools[0][0].name} is on InfiniBand, but lacks a "
            fix = f"set ib_partition to a name, for example {spec.name}."
            yield Finding(f"{what}partition.", where + pools[0][1], fix)
        if not pools and not unknown and named is not None:
            what = f"the partition {named} is empty: no pool is on InfiniBand."
            yield Finding(what, where, "give the workers a type with -ib in its name.")
        for pool, place in [each for each in pools if each[0].type != pools[0][0].type]:
            what = f"{pools[0][0].name} and {pool.name} need one InfiniBand type for a partition."
            yield Finding(what, pools[0][1] + place, "use one type, or a site for each.")


def check_cloud_network(spec: ClusterSpec) -> Findings:
    """The subnet is inside the network, has room, and overlaps neither pods nor services.

    The vendor's example, 10.0.0.0/8, includes K3s' own networks.
    """
    for provision, cloud in walk(spec, "environment.instances", CrusoeProvision):
        vpc, subnet = provision.vpc_cidr, provision.subnet_cidr
        if not subnet.subnet_of(vpc):
            what = f"the subnet {subnet} is not in the network {vpc}."
            yield Finding(what, cloud("subnet_cidr", "vpc_cidr"), "choose a part of the network.")
        needed = sum(pool.count for pool in provision.pools)
        free = max(subnet.num_addresses - _RESERVED, 0)
        if free < needed:
            what = f"the subnet {subnet} has {free} addresses for {needed} instances."
            fix = "choose a larger one; the cloud keeps six addresses for itself."
            yield Finding(what, cloud("subnet_cidr"), fix)
        for each in values(spec, "kubernetes.pod_cidr kubernetes.service_cidr"):
            if each.value.overlaps(vpc):
                name = each.key.removesuffix("_cidr")
                what = f"the network {vpc} overlaps the {name} network {each.value}."
                where = (*cloud("vpc_cidr"), each.place)
                yield Finding(what, where, "choose networks that do not overlap.")


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
    for host, here in balancers[1:]:
        first, there = balancers[0]
        what = f"{first.name} and {host.name} are both balancers of one cluster address."
        where = (at((*there.path, "role")), at((*here.path, "role")))
        yield Finding(what, where, "keep one; joined nodes do not need it.")


def check_cloud_hosts(spec: ClusterSpec) -> Findings:
    """At a cloud site the file has no switches or rails, and hosts are either listed or made.

    `bring_your_own` lists them under `hosts`; made instances come only from the pools.
    """
    for key in ("switches", "rails") if spec.cloud else ():
        if getattr(spec, key):
            what = f"the cloud owns the fabric, but the file has {key}."
            yield Finding(what, places(spec, key, "environment.kind"), f"remove {key}.")
    provision = crusoe_of(spec)
    if spec.cloud and provision is None and not spec.hosts:
        where = places(spec, "hosts", "environment.instances.kind")
        fix = "list them under hosts, with their addresses and host keys."
        yield Finding("instances are bring_your_own, but hosts is empty.", where, fix)
    made = {name for pool in provision.pools for name in instance_names(pool)} if provision else ()
    for host, here in walk(spec, "hosts.*", Host) if provision else ():
        if host.name not in made:
            what = f"the file lists {host.name}, but the pools make the hosts."
            fix = "remove hosts, or use instances: {kind: bring_your_own} and list all."
            yield Finding(what, here("name") + places(spec, "environment.instances.pools"), fix)


@needs("infiniband")
def check_fabric_transport(spec: ClusterSpec) -> Findings:
    """A cloud with InfiniBand, and a site with `infiniband`, have that transport; no other has it.

    Priorities, DSCP and GID index mean nothing on InfiniBand; on Ethernet RoCE needs them.
    """
    transport, kind = spec.rdma.transport, spec.environment.kind
    keys, what = ("rdma.transport", "environment.kind"), ""
    fits = (spec.ib_fabric is not None) == (transport == "infiniband")
    if fits and spec.cloud is not None and spec.infiniband is not None:
        what = "the cloud owns the InfiniBand fabric, but infiniband describes switches."
        fix = "remove infiniband; environment.fabric describes the cloud's."
        keys = ("infiniband", "environment.kind")
    elif fits:
        return
    elif transport == "infiniband":
        what = f"the transport is infiniband, but the environment {kind} lacks such a fabric."
        fix = "set rdma: {transport: roce}, or describe the fabric under infiniband."
    else:
        owner = "the cloud's fabric" if spec.cloud else "infiniband"
        keys = keys if spec.cloud else ("rdma.transport", "infiniband")
        what = f"{owner} is InfiniBand, but the transport is {transport}."
        fix = "set rdma: {transport: infiniband}."
    yield Finding(what, places(spec, *keys), fix)


def check_cloud_hcas(spec: ClusterSpec) -> Findings:
    """Every worker of a cloud has as many HCAs as `fabric` states, at its rate.

    A pod of a job is never placed on a worker with fewer.
    """
    for fabric, cloud in walk(spec, "environment.fabric", InfiniBandFabric):
        made = crusoe_of(spec) is not None
        hosts = () if made else walk(spec, "hosts.*", Host)
        workers = [(h.name, h.hcas, own("hcas")) for h, own in hosts if h.role == "worker"]
        for pool, here in walk(spec, _POOLS, InstancePool):
            kind = environments.find_type(pool.type)
            if pool.role == "worker" and kind is not None:
                workers += [(pool.type, kind.hcas, here("type"))]
        for name, hcas, where in [each for each in workers if each[1] != fabric.hcas]:
            what = f"{name} has {hcas} HCAs, but the fabric has {fabric.hcas} on each worker."
            fix = "correct the wrong number; the instance type decides its own."
            yield Finding(what, where + cloud("hcas"), fix)
        for pool, kind, here in _infiniband(spec):
            if kind.rate_gbit_s != fabric.rate_gbit_s:
                what = f"{pool.type} has {kind.rate_gbit_s} Gbit/s, not {fabric.rate_gbit_s}."
                fix = f"set rate_gbit_s to {kind.rate_gbit_s}."
                yield Finding(what, here("type") + cloud("rate_gbit_s"), fix)
        if fabric.expected_hcas and len(fabric.expected_hcas) != fabric.hcas:
            count = len(fabric.expected_hcas)
            what = f"expected_hcas lists {count} HCAs, but hcas is {fabric.hcas}."
            fix = "name all of them, or remove expected_hcas: link, state and rate find them."
            yield Finding(what, cloud("expected_hcas", "hcas"), fix)


def check_topology_file(spec: ClusterSpec) -> Findings:
    """Jobs on made instances get NCCL's topology file of their type.

    The hypervisor hides the PCIe tree, and without the file NCCL has been seen to hang there.
    """
    given = spec.jobs.topology_file
    shown, severity = (given.host_path, "warning") if given else (None, "error")
    for pool, kind, here in _infiniband(spec):
        if shown is None or shown != kind.topology_file:
            actual = shown or "no topology file"
            what = f"{pool.type} needs {kind.topology_file}, but jobs get {actual}."
            where = (at(("jobs", "topology_file", "host_path"), shown), *here("type"))
            fix = "set jobs.topology_file.host_path to it; older hypervisors have *-qemu.xml."
            yield Finding(what, where, fix, severity)


def check_esxi_release(spec: ClusterSpec) -> Findings:
    """An ESXi release has the kernel setting atsSupport: 7.0 U2 or later.

    In 7.0 and 7.0 U1 the option has another name, and 6.x lacks it.
    """
    faults = {
        "other_option": "has vtdAtsSupport, not atsSupport",
        "absent": "does not support PCIe ATS",
    }
    for hypervisor, here in walk(spec, _HOSTS, Hypervisor):
        release = environments.parse_release(hypervisor.release)
        if release is not None and release.ats in faults:
            what = f"ESXi {release.text} of {hypervisor.name} {faults[release.ats]}."
            yield Finding(what, here("release"), "update the host to 7.0U2 or later.")


def check_hypervisor_access(spec: ClusterSpec) -> Findings:
    """Railyard logs in to a hypervisor as root, by key or agent, with a host key that ESXi has.

    ESXi lacks sudo. Its host keys are ECDSA and RSA, and its SSH server in FIPS mode accepts no
    login key of ed25519.
    """
    for hypervisor, here in walk(spec, _HOSTS, Hypervisor):
        ssh, name = hypervisor.ssh, hypervisor.name
        if ssh.password is not None or not (ssh.private_key or ssh.agent):
            what = f"{name} is not reached by key, and hypervisors take nothing else."
            fix = "use private_key: {secret: ssh_private_key} without a password, and write the "
            fix += "public key to /etc/ssh/keys-root/authorized_keys of the host."
            yield Finding(what, here("ssh.private_key"), fix)
        if ssh.user != "root":
            what = f"{name} uses the login {ssh.user}, but ESXi lacks sudo."
            yield Finding(what, here("ssh.user"), "use user: root.")
        if (ssh.host_key or "").startswith(_NO_FIPS):
            what = f"the host key of {name} is ed25519, which ESXi does not use."
            fix = f"{how_to_pin(ssh.address, ssh.port)}; make the login key by ssh-keygen -t ecdsa."
            yield Finding(what, here("ssh.host_key"), fix)


def check_vm_devices(spec: ClusterSpec) -> Findings:
    """The host of a virtual machine has one GPU and one card: those that are passed through."""
    machines = {each.value for each in values(spec, f"{_MACHINES}.name")}
    for host, here in walk(spec, "hosts.*", Host):
        for key, count in (("gpus", host.gpus), ("nics", len(host.nics))):
            if host.name in machines and count != 1:
                what = f"the virtual machine {host.name} takes one of each, but has {count} {key}."
                fix = f"write the one device in hosts[].{key}; vms[] takes one GPU and one card."
                yield Finding(what, (at((*here.path, key), count),), fix)


def check_hypervisor_name(spec: ClusterSpec) -> Findings:
    """A hypervisor has a unique name among all devices, and a unique address.

    The name is part of the identity of its resources.
    """
    others = {each.value: each.place for each in values(spec, "switches.*.name hosts.*.name")}
    doors: list[tuple[str, Place]] = []
    for each, here in walk(spec, _HOSTS, Hypervisor):
        if each.name in others:
            what = f"two devices are called {each.name}."
            yield Finding(what, (*here("name"), others[each.name]), _DISTINCT)
        door = f"{each.ssh.address}:{each.ssh.port}"
        doors += [(door, at((*here.path, "ssh", "address"), door))]
    for (door, place), (_, other) in twins(doors, itemgetter(0)):
        yield Finding(f"two devices are reached at {door}.", (place, other), _DISTINCT)


def check_passthrough_device(spec: ClusterSpec) -> Findings:
    """On one hypervisor each PCI device belongs to one virtual machine, as its GPU or its card.

    A whole GPU is function 0 of device 0 on its bus; another address is a VF, which vGPU assigns.
    Railyard passes whole GPUs through.
    """
    fix = f"write the GPU's own address, which ends in {_WHOLE_CARD}; vGPU is not supported."
    for vm, here in walk(spec, _MACHINES, VirtualMachine):
        if not vm.gpu.endswith(_WHOLE_CARD):
            what = f"the GPU {vm.gpu} of {vm.name} is a VF, but only whole GPUs are passed through."
            yield Finding(what, here("gpu"), fix)
