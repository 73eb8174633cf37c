"""Rules on cloud instances: mistakes that show before the cloud is asked."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from components.catalogue import environments
from components.checks.planes import with_role
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, values, walk
from components.core.judge import needs
from components.core.problem import Place
from components.model import environments as model
from components.model.cluster import ClusterSpec
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
            yield find("vm-host", *here("name"), host=host)


def _infiniband(
    spec: ClusterSpec,
) -> Iterator[tuple[model.InstancePool, environments.InstanceType, Here]]:
    for pool, here in walk(spec, _POOLS, model.InstancePool):
        kind = environments.find_type(pool.type)
        if kind is not None and kind.hcas:
            yield pool, kind, here


def check_instance_type(spec: ClusterSpec) -> Findings:
    """Each pool has an instance type that this release knows.

    It decides GPUs, HCAs and the topology file. An update asks first whether the location offers
    it.
    """
    for pool, here in walk(spec, _POOLS, model.InstancePool):
        if environments.find_type(pool.type) is None:
            hint = did_you_mean(pool.type, list(environments.GPU_TYPES))
            words = {"pool": pool, "hint": hint, "types": ", ".join(environments.GPU_TYPES)}
            yield find("instance-type", *here("type"), **words)


def check_instance_image(spec: ClusterSpec) -> Findings:
    """Each pool's image is in the family of its type.

    Its driver must fit the GPUs. A tag `latest` is resolved once, and its image is kept.
    """
    for pool, here in walk(spec, _POOLS, model.InstancePool):
        kind = environments.find_type(pool.type)
        if kind is not None and not environments.fits_image(kind, pool.image):
            suffix = kind.image_suffix
            family = "" if suffix is None else f"-nvidia-sxm-docker{suffix}"
            yield find("instance-image", *here("image", "type"), pool=pool, family=family)


def check_ib_partition(spec: ClusterSpec) -> Findings:
    """Types on InfiniBand have an IB partition, all of one type; other types have none.

    A partition belongs to one IB network, and an IB network is for one type.
    """
    for provision, cloud in walk(spec, "environment.instances", model.CrusoeProvision):
        pools = [(pool, here("type")) for pool, _, here in _infiniband(spec)]
        named, where = provision.ib_partition, cloud("ib_partition")
        unknown = any(environments.find_type(pool.type) is None for pool in provision.pools)
        if pools and named is None:
            yield find("ib-partition-missing", *where, *pools[0][1], pools=pools, spec=spec)
        if not pools and not unknown and named is not None:
            yield find("ib-partition-empty", *where, named=named)
        for pool, place in [each for each in pools if each[0].type != pools[0][0].type]:
            yield find("ib-partition-types", *pools[0][1], *place, pools=pools, pool=pool)


def check_cloud_network(spec: ClusterSpec) -> Findings:
    """The subnet is inside the network, has room, and overlaps neither pods nor services.

    The vendor's example, 10.0.0.0/8, includes K3s' own networks.
    """
    for provision, cloud in walk(spec, "environment.instances", model.CrusoeProvision):
        vpc, subnet = provision.vpc_cidr, provision.subnet_cidr
        if not subnet.subnet_of(vpc):
            what = f"the subnet {subnet} is not in the network {vpc}."
            yield Finding(what, cloud("subnet_cidr", "vpc_cidr"), "choose a part of the network.")
        needed = sum(pool.count for pool in provision.pools)
        free = max(subnet.num_addresses - _RESERVED, 0)
        if free < needed:
            where = cloud("subnet_cidr")
            yield find("cloud-network-addresses", *where, subnet=subnet, free=free, needed=needed)
        for each in values(spec, "kubernetes.pod_cidr kubernetes.service_cidr"):
            if each.value.overlaps(vpc):
                name = each.key.removesuffix("_cidr")
                where = (*cloud("vpc_cidr"), each.place)
                yield find("cloud-network-overlaps", *where, vpc=vpc, name=name, each=each)


@needs("roles")
def check_cloud_balancer(spec: ClusterSpec) -> Findings:
    """Several control-plane instances have one balancer before them.

    In clouds an address cannot move from a lost server to another.
    """
    if spec.cloud is None or spec.k3s is None:
        return
    balancers = with_role(spec, "balancer")
    if len(spec.servers) > 1 and not balancers:
        yield find("cloud-balancer-missing", *places(spec, "hosts"), count=len(spec.servers))
    for host, here in balancers[1:]:
        first, there = balancers[0]
        where = (at((*there.path, "role")), at((*here.path, "role")))
        yield find("cloud-balancer-several", *where, first=first, host=host)


def check_cloud_hosts(spec: ClusterSpec) -> Findings:
    """At a cloud site the file has no switches or rails, and hosts are either listed or made.

    `bring_your_own` lists them under `hosts`; made instances come only from the pools.
    """
    for key in ("switches", "rails") if spec.cloud else ():
        if getattr(spec, key):
            yield find("cloud-hosts-owns", *places(spec, key, "environment.kind"), key=key)
    provision = crusoe_of(spec)
    if spec.cloud and provision is None and not spec.hosts:
        yield find("cloud-hosts-instances", *places(spec, "hosts", "environment.instances.kind"))
    made = {name for pool in provision.pools for name in instance_names(pool)} if provision else ()
    for host, here in walk(spec, "hosts.*", Host) if provision else ():
        if host.name not in made:
            where = here("name") + places(spec, "environment.instances.pools")
            yield find("cloud-hosts-lists", *where, host=host)


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
    for fabric, cloud in walk(spec, "environment.fabric", model.InfiniBandFabric):
        made = crusoe_of(spec) is not None
        hosts = () if made else walk(spec, "hosts.*", Host)
        workers = [(h.name, h.hcas, own("hcas")) for h, own in hosts if h.role == "worker"]
        for pool, here in walk(spec, _POOLS, model.InstancePool):
            kind = environments.find_type(pool.type)
            if pool.role == "worker" and kind is not None:
                workers += [(pool.type, kind.hcas, here("type"))]
        for name, hcas, where in [each for each in workers if each[1] != fabric.hcas]:
            yield find("cloud-hcas", *where, *cloud("hcas"), name=name, hcas=hcas, fabric=fabric)
        for pool, kind, here in _infiniband(spec):
            if kind.rate_gbit_s != fabric.rate_gbit_s:
                found_at = here("type") + cloud("rate_gbit_s")
                yield find("cloud-hcas-rate", *found_at, pool=pool, kind=kind, fabric=fabric)
        if fabric.expected_hcas and len(fabric.expected_hcas) != fabric.hcas:
            count = len(fabric.expected_hcas)
            yield find("hcas-listed", *cloud("expected_hcas", "hcas"), count=count, fabric=fabric)


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
    for hypervisor, here in walk(spec, _HOSTS, model.Hypervisor):
        release = environments.parse_release(hypervisor.release)
        if release is not None and release.ats in faults:
            what = f"ESXi {release.text} of {hypervisor.name} {faults[release.ats]}."
            yield Finding(what, here("release"), "update the host to 7.0U2 or later.")


def check_hypervisor_access(spec: ClusterSpec) -> Findings:
    """Railyard logs in to a hypervisor as root, by key or agent, with a host key that ESXi has.

    ESXi lacks sudo. Its host keys are ECDSA and RSA, and its SSH server in FIPS mode accepts no
    login key of ed25519.
    """
    for hypervisor, here in walk(spec, _HOSTS, model.Hypervisor):
        ssh, name = hypervisor.ssh, hypervisor.name
        if ssh.password is not None or not (ssh.private_key or ssh.agent):
            yield find("hypervisor-access-key", *here("ssh.private_key"), name=name)
        if ssh.user != "root":
            yield find("hypervisor-access-user", *here("ssh.user"), name=name, ssh=ssh)
        if (ssh.host_key or "").startswith(_NO_FIPS):
            words = {"name": name, "pin": how_to_pin(ssh.address, ssh.port)}
            yield find("hypervisor-access-host-key", *here("ssh.host_key"), **words)


def check_vm_devices(spec: ClusterSpec) -> Findings:
    """The host of a virtual machine has one GPU and one card: those that are passed through."""
    machines = {each.value for each in values(spec, f"{_MACHINES}.name")}
    for host, here in walk(spec, "hosts.*", Host):
        for key, count in (("gpus", host.gpus), ("nics", len(host.nics))):
            if host.name in machines and count != 1:
                where = (at((*here.path, key), count),)
                yield find("vm-devices", *where, host=host, count=count, key=key)


def check_hypervisor_name(spec: ClusterSpec) -> Findings:
    """A hypervisor has a unique name among all devices, and a unique address.

    The name is part of the identity of its resources.
    """
    others = {each.value: each.place for each in values(spec, "switches.*.name hosts.*.name")}
    doors: list[tuple[str, Place]] = []
    for each, here in walk(spec, _HOSTS, model.Hypervisor):
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
    for vm, here in walk(spec, _MACHINES, model.VirtualMachine):
        if not vm.gpu.endswith(_WHOLE_CARD):
            yield find("passthrough-device", *here("gpu"), vm=vm, end=_WHOLE_CARD)
