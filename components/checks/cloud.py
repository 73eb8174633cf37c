"""Rules on cloud instances: mistakes that show before the cloud is asked."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from components.catalogue.environments import GPU_TYPES, InstanceType, find_type, fits_image
from components.checks.planes import with_role
from components.checks.rule import Finding, Findings, at, places
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.environments import CrusoeProvision, InstancePool
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

    It decides GPUs, HCAs and the topology file. Railyard asks whether the location offers it before
    it makes anything.
    """
    for pool, path in _pools(spec):
        if find_type(pool.type) is None:
            yield Finding(
                f"{pool.type} of pool {pool.name} is no known instance type."
                f"{did_you_mean(pool.type, list(GPU_TYPES))}",
                (at((*path, "type"), pool.type),),
                f"use one of {', '.join(GPU_TYPES)}, or a CPU type such as c1a.8x.",
            )


def check_instance_image(spec: ClusterSpec) -> Findings:
    """Each pool's image is in the family of its type.

    The image brings the GPU driver, and a driver for another generation does not start the GPUs. A
    tag `latest` is resolved once, and its image is kept: a newer image replaces no node.
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
    pools = list(_infiniband(spec))
    where = at((*_INSTANCES, "ib_partition"), provision.ib_partition)
    if pools and provision.ib_partition is None:
        yield Finding(
            f"{pools[0][0].type} of pool {pools[0][0].name} is on InfiniBand without a partition.",
            (where, at((*pools[0][2], "type"), pools[0][0].type)),
            f"set ib_partition to a name, for example {spec.name}.",
        )
    unknown = any(find_type(pool.type) is None for pool in provision.pools)
    if not pools and not unknown and provision.ib_partition is not None:
        what = f"the partition {provision.ib_partition} is empty: no pool is on InfiniBand."
        yield Finding(what, (where,), "give the workers a type with -ib in its name.")
    for pool, _, path in pools[1:]:
        if pool.type != pools[0][0].type:
            yield Finding(
                f"{pools[0][0].name} and {pool.name} need one InfiniBand type for a partition.",
                (at((*pools[0][2], "type"), pools[0][0].type), at((*path, "type"), pool.type)),
                "use one type, or a site for each.",
            )


def check_cloud_network(spec: ClusterSpec) -> Findings:
    """The subnet is inside the network, has room, and overlaps neither pods nor services.

    The vendor's example takes 10.0.0.0/8, which includes K3s' own networks: nodes would then look
    for pods among the instances.
    """
    provision = crusoe_of(spec)
    if provision is None:
        return
    vpc, subnet = provision.vpc_cidr, provision.subnet_cidr
    where = at((*_INSTANCES, "subnet_cidr"), subnet)
    if not subnet.subnet_of(vpc):
        what = f"the subnet {subnet} is not in the network {vpc}."
        fix = "choose a part of the network."
        yield Finding(what, (where, at((*_INSTANCES, "vpc_cidr"), vpc)), fix)
    needed = sum(pool.count for pool in provision.pools)
    free = max(subnet.num_addresses - _RESERVED, 0)
    if free < needed:
        what = f"the subnet {subnet} has {free} addresses for {needed} instances."
        fix = "choose a larger one; the cloud keeps six addresses for itself."
        yield Finding(what, (where,), fix)
    yield from _cluster_overlaps(spec, provision)


def _cluster_overlaps(spec: ClusterSpec, provision: CrusoeProvision) -> Findings:
    if spec.kubernetes is None:
        return
    for key, words in (("pod_cidr", "pod"), ("service_cidr", "service")):
        network: IPv4Network = getattr(spec.kubernetes, key)
        if network.overlaps(provision.vpc_cidr):
            yield Finding(
                f"the cloud's network {provision.vpc_cidr} overlaps the {words} network {network}.",
                places(spec, "environment.instances.vpc_cidr", f"kubernetes.{key}"),
                "choose networks that have no address in common.",
            )


def check_cloud_balancer(spec: ClusterSpec) -> Findings:
    """Several control-plane instances have one balancer before them.

    In clouds an address cannot move between instances, and without a balancer a lost server would
    take the cluster's address with it.
    """
    if spec.cloud is None or spec.k3s is None:
        return
    balancers = with_role(spec, "balancer")
    if len(spec.servers) > 1 and not balancers:
        what = f"{len(spec.servers)} control-plane instances have no balancer before them."
        yield Finding(what, places(spec, "hosts"), "add one instance with the role balancer.")
    for h, host in balancers[1:]:
        what = f"{balancers[0][1].name} and {host.name} are both balancers of one cluster address."
        fix = "keep one; nodes that have joined do without it."
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
            yield Finding(f"the cloud owns the fabric, and {key} are given.", where, fix)
    if provision is None and not spec.hosts:
        where = places(spec, "hosts", "environment.instances.kind")
        fix = "list them under hosts, with their addresses and host keys."
        yield Finding("the instances are brought by you, and none is listed.", where, fix)
    if provision is None:
        return
    made = {name for pool in provision.pools for name in instance_names(pool)}
    for h, host in enumerate(spec.hosts):
        if host.name not in made:
            what = f"{host.name} is listed beside pools, and what pools make is not listed."
            where = (at(("hosts", h, "name"), host.name), at((*_INSTANCES, "pools")))
            fix = "remove hosts, or use instances: {kind: bring_your_own} and list all."
            yield Finding(what, where, fix)


def check_fabric_transport(spec: ClusterSpec) -> Findings:
    """A cloud with InfiniBand, and a site with `infiniband`, have that transport; no other has it.

    Priorities, DSCP and GID index mean nothing on InfiniBand; on Ethernet RoCE needs them.
    """
    transport = spec.rdma.transport
    if (spec.ib_fabric is not None) == (transport == "infiniband"):
        if spec.cloud is not None and spec.infiniband is not None:
            what = "the cloud owns the InfiniBand fabric, and infiniband describes one of ours."
            fix = "remove infiniband; environment.fabric says what the cloud's is to be."
            yield Finding(what, places(spec, "infiniband", "environment.kind"), fix)
        return
    kind = at(("environment", "kind"), spec.environment.kind)
    if transport == "infiniband":
        yield Finding(
            f"the environment is {spec.environment.kind}, the transport is infiniband, and there "
            "is no infiniband that describes the fabric.",
            (at(("rdma", "transport"), transport), kind),
            "set rdma: {transport: roce}, or describe the fabric under infiniband.",
        )
        return
    owner = "the cloud's fabric" if spec.cloud else "infiniband"
    place = kind if spec.cloud else at(("infiniband",))
    where = (at(("rdma", "transport"), transport), place)
    fix = "set rdma: {transport: infiniband}."
    yield Finding(f"{owner} is InfiniBand, and the transport is {transport}.", where, fix)


def _workers(spec: ClusterSpec) -> Iterator[tuple[str, int, Place]]:
    """Name, HCAs and place of each pool of workers, or of each listed worker."""
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

    A job asks for that many on each worker; with fewer, its pod is never placed.
    """
    cloud = spec.cloud
    if cloud is None:
        return
    path: SpecPath = ("environment", "fabric")
    for name, hcas, place in _workers(spec):
        if hcas != cloud.fabric.hcas:
            what = f"{name} has {hcas} HCAs, and the fabric has {cloud.fabric.hcas} on each worker."
            fix = "correct the number that is wrong; an instance type has its own."
            yield Finding(what, (place, at((*path, "hcas"), cloud.fabric.hcas)), fix)
    for pool, kind, place in _infiniband(spec):
        if kind.rate_gbit_s != cloud.fabric.rate_gbit_s:
            what = f"{pool.type} has {kind.rate_gbit_s} Gbit/s, not {cloud.fabric.rate_gbit_s}."
            where = (
                at((*place, "type"), pool.type),
                at((*path, "rate_gbit_s"), cloud.fabric.rate_gbit_s),
            )
            yield Finding(what, where, f"set rate_gbit_s to {kind.rate_gbit_s}.")
    if cloud.fabric.expected_hcas and len(cloud.fabric.expected_hcas) != cloud.fabric.hcas:
        what = f"{len(cloud.fabric.expected_hcas)} HCAs are named, {cloud.fabric.hcas} are counted."
        where = (at((*path, "expected_hcas")), at((*path, "hcas"), cloud.fabric.hcas))
        fix = "name all of them, or none: they are found by link, state and rate."
        yield Finding(what, where, fix)


def check_topology_file(spec: ClusterSpec) -> Findings:
    """Jobs on made instances get NCCL's topology file of their type.

    The hypervisor hides the PCIe tree, and without the file NCCL has been seen to hang there.
    """
    given = spec.jobs.topology_file
    for pool, kind, path in _infiniband(spec):
        if given is None or given.host_path != kind.topology_file:
            shown = given.host_path if given else None
            yield Finding(
                f"{pool.type} of pool {pool.name} has its topology file at {kind.topology_file}, "
                f"and jobs get {shown or 'none'}.",
                (at(("jobs", "topology_file", "host_path"), shown), at((*path, "type"), pool.type)),
                "set jobs.topology_file.host_path to that path; instances that were made on the "
                "older hypervisor have a file that ends in -qemu.xml.",
                "error" if given is None else "warning",
            )
