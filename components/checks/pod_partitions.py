"""Rules on the partitions of pods on InfiniBand: who puts their VFs into them."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.cni import way_of
from components.model.infiniband import IbPartition, IbRail, InfiniBand
from components.model.operator_owned import vfs_by_operator
from components.model.operators import IbKubernetes
from components.pod_network.ib_rails import rail_ports
from components.pod_network.matrix import WAYS
from components.reading.wording import did_you_mean

_FABRIC: SpecPath = ("infiniband",)


def check_pod_partition(spec: ClusterSpec) -> Iterator[Finding]:
    """A partition of a rail's VFs is one that they are put into by their GUIDs.

    On switches Railyard does, with the GUIDs that the hosts give the VFs. With UFM ib-kubernetes
    does, with a GUID for each pod. No CNI plugin sets a partition key by itself.
    """
    fabric = spec.infiniband
    if spec.kubernetes is None or fabric is None:
        return
    network = spec.operators.network
    keys = network.ib_kubernetes if network is not None else None
    rails = [(r, rail) for r, rail in enumerate(fabric.rails) if rail.partition is not None]
    if keys is not None and not rails:
        yield Finding(
            "ib_kubernetes puts pods into partitions, and no rail of the fabric names one.",
            (at(("operators", "network", "ib_kubernetes")), at((*_FABRIC, "rails"))),
            "write partition at the rails, or remove ib_kubernetes.",
        )
    for r, rail in rails:
        where = at((*_FABRIC, "rails", r, "partition"), rail.partition)
        yield from _rail(spec, fabric, rail, where, keys)
    by_switch = keys is None and fabric.subnet_manager == "switch"
    if rails and by_switch and way_of(spec) == "sriov":
        yield Finding(
            "VFs are members of a partition only where the subnet manager of the switches knows "
            "virtual ports, which Railyard neither sets nor reads.",
            tuple(at((*_FABRIC, "rails", r, "partition"), rail.partition) for r, rail in rails),
            "enter `ib sm virt enable` on each switch with sm_priority.",
            "warning",
        )


def _rail(
    spec: ClusterSpec, fabric: InfiniBand, rail: IbRail, where: Place, keys: IbKubernetes | None
) -> Iterator[Finding]:
    names = {each.name: each for each in fabric.partitions}
    partition = names.get(rail.partition or "")
    if partition is None:
        hint = did_you_mean(rail.partition or "", [*names])
        yield Finding(
            f"{rail.name} is in the partition {rail.partition}, and the fabric has none of that "
            f"name.{hint}",
            (where, at((*_FABRIC, "partitions"))),
            "add it to infiniband.partitions, or correct the name.",
        )
        return
    if (wrong := _wrong(spec, fabric, partition, keys)) is not None:
        yield Finding(
            f"the VFs of {rail.name} do not come into the partition {partition.name}: {wrong[0]}.",
            (where,),
            f"{wrong[1]}.",
        )
        return
    if keys is None:
        yield from _members(spec, rail, partition, where)


def _wrong(
    spec: ClusterSpec, fabric: InfiniBand, partition: IbPartition, keys: IbKubernetes | None
) -> tuple[str, str] | None:
    """Why VFs would not come into a partition, and what mends it; None: they do."""
    external = fabric.subnet_manager == "external"
    if way_of(spec) != "sriov":
        return (
            f"with {WAYS[way_of(spec)]} the partition is that of the host's port or device",
            "remove partition; with IPoIB name the partition's device: interface: ibs0f0.8101",
        )
    if vfs_by_operator(spec):
        return (
            "the SR-IOV network operator gives VFs other GUIDs at each boot",
            "set operators.network.vfs to host",
        )
    if external and keys is None and fabric.ufm is None:
        return (
            "the subnet manager is external, and the file does not say how to reach it",
            "say in infiniband.ufm how UFM is reached, or add operators.network.ib_kubernetes",
        )
    if not external and keys is not None:
        return (
            "ib-kubernetes talks to UFM alone, and the switches run the subnet manager",
            "remove ib_kubernetes: Railyard puts the VFs there itself",
        )
    if keys is None and partition.members == "all":
        return (
            "its members are all, and whether that takes in VFs is not published",
            "list its members",
        )
    return None


def _members(
    spec: ClusterSpec, rail: IbRail, partition: IbPartition, where: Place
) -> Iterator[Finding]:
    lacking = [
        host.name
        for host in spec.workers
        if rail_ports(host, rail) and partition.membership_of(host.name) is None
    ]
    if lacking:
        yield Finding(
            f"{', '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} VFs on {rail.name}, "
            f"and {'is' if len(lacking) == 1 else 'are'} no member of {partition.name}: pods there "
            "would reach no other.",
            (where,),
            f"add {', '.join(lacking)} to the members of {partition.name}.",
        )
