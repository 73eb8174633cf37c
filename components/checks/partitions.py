"""Rules on the partitions of an InfiniBand fabric: keys, names and members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, Findings, at, places, repeated, unique
from components.core.problem import Place, SpecPath
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbPartition, IbRail, InfiniBand
from components.model.operators import IbKubernetes
from components.model.owners import vfs_by_operator, way_of
from components.pod_network.matrix import WAYS
from components.pod_network.rails import rail_ports
from components.reading.wording import did_you_mean

_KEY_TABLE: Final = 128
"""Entries in the key table of a ConnectX port, including one for Default (sources.md)."""
_BLOCK: SpecPath = ("infiniband",)


def list_partitions(fabric: InfiniBand | None) -> Iterator[tuple[IbPartition, SpecPath]]:
    """List the partitions with their paths, in the order of the file."""
    for p, partition in enumerate(fabric.partitions if fabric else ()):
        yield partition, (*_BLOCK, "partitions", p)


def check_partition_key(spec: ClusterSpec) -> Findings:
    """Each partition has a unique key and a unique name."""
    listed = [
        (each.name, show_pkey(each.pkey), path) for each, path in list_partitions(spec.infiniband)
    ]
    keys = [(key, at((*path, "pkey"), key)) for _, key, path in listed]
    names = [(name, at((*path, "name"), name)) for name, _, path in listed]
    for kind, values in (("pkey", keys), ("name", names)):
        fix = f"give each partition a {kind} of its own."
        yield from unique(values, f"two partitions have the {kind} {{}}.", fix)


def check_partition_member(spec: ClusterSpec) -> Findings:
    """Each member of a partition is a host of the file with known port GUIDs.

    A subnet manager knows ports, not hosts. A partition needs a full member: limited ones do not
    reach each other.
    """
    for partition, path in list_partitions(spec.infiniband):
        if not partition.members:
            where = (at((*path, "members"), "[]"),)
            fix = "name its hosts, write all, or remove the partition."
            yield Finding(f"partition {partition.name} has no members.", where, fix)
        if partition.members == "all":
            kinds, key = {partition.membership}, "membership"
        else:
            kinds, key = {partition.membership_of(each.host) for each in partition.members}, ""
        if kinds == {"limited"}:
            yield Finding(
                f"all members of partition {partition.name} are limited, so none reaches another.",
                (at((*path, key), "limited") if key else at((*path, "members")),),
                "make one of them full." if not key else "remove membership: full is the default.",
            )
        yield from _wrong_members(spec, partition, path)


def _wrong_members(spec: ClusterSpec, partition: IbPartition, path: SpecPath) -> Findings:
    members = () if partition.members == "all" else partition.members
    seen: set[str] = set()
    for m, member in enumerate(members):
        host, where = spec.host(member.host), at((*path, "members", m), member.host)
        if host is None:
            names = [each.name for each in spec.hosts]
            hint = did_you_mean(member.host, names)
            what, fix = f"there is no host {member.host!r}.{hint}", "name a host, or remove it."
        elif not host.hca_guids:
            what = f"the port GUIDs of {member.host} are not known."
            fix = "list them as hca_guids of the host; ibstat prints them as Port GUID."
        elif (beyond := max(member.hcas or (0,))) >= len(host.hca_guids):
            what = f"{member.host} has {len(host.hca_guids)} port GUIDs, and HCA {beyond} is named."
            fix = f"count from 0: the last one is {len(host.hca_guids) - 1}."
        elif member.host in seen:
            what, fix = f"{member.host} is in it twice.", "name it once."
        else:
            seen.add(member.host)
            continue
        yield Finding(f"partition {partition.name}: {what}", (where,), fix)


def check_partition_limit(spec: ClusterSpec) -> Findings:
    """No partition asks for a larger MTU or a higher rate than the fabric has.

    Otherwise no host can create or join its multicast group of IPoIB.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    for partition, path in list_partitions(fabric):
        for name, value, most in (
            ("mtu_bytes", partition.mtu_bytes, fabric.mtu_bytes),
            ("rate_gbit_s", partition.rate_gbit_s, fabric.rate_gbit_s),
        ):
            if value is not None and value > most:
                yield Finding(
                    f"{name} of partition {partition.name} is {value}, and the fabric has {most}.",
                    (at((*path, name), value), at((*_BLOCK, name), most)),
                    f"choose {most} or less.",
                )


def check_partition_count(spec: ClusterSpec) -> Findings:
    """A host's partitions fit into the key table of its ports, next to Default.

    The table of a ConnectX card has 128 entries. A key outside of it cannot be used.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    counts = {
        host.name: sum(each.membership_of(host.name) is not None for each in fabric.partitions)
        for host in spec.workers
    }
    over = [name for name, count in counts.items() if count >= _KEY_TABLE]
    if over:
        others = f", and {len(over) - 1} more hosts in too many" if over[1:] else ""
        yield Finding(
            f"{over[0]} is in {counts[over[0]]} partitions beside Default{others}: the key table "
            f"of an HCA port has {_KEY_TABLE} entries.",
            (at((*_BLOCK, "partitions")),),
            f"put a host into {_KEY_TABLE - 1} at most.",
        )


def check_partition_name(spec: ClusterSpec) -> Findings:
    """No two partitions have names that differ in case only.

    It is not published whether MLNX-OS distinguishes them. If not, the second would give the first
    one its key.
    """
    named = ((each.name, (*path, "name")) for each, path in list_partitions(spec.infiniband))
    for one, other in repeated((name.lower(), at(path, name)) for name, path in named):
        if one.value != other.value:
            what = f"the partitions {other.value} and {one.value} differ in case only."
            yield Finding(what, (one, other), "rename one of them.", "warning")


def check_ufm(spec: ClusterSpec) -> Findings:
    """If the file has an address of UFM, UFM is the subnet manager.

    A switch that also runs one takes over with other partitions.
    """
    fabric = spec.infiniband
    if fabric is not None and fabric.ufm is not None and fabric.subnet_manager == "switch":
        what = "ufm says how UFM is reached, and the subnet manager is on the switches."
        where = places(spec, "infiniband.ufm.address", "infiniband.subnet_manager")
        yield Finding(what, where, "set subnet_manager to external, or remove ufm.")


def check_ufm_partition(spec: ClusterSpec) -> Findings:
    """Partitions in UFM list their members, and use only settings that its API has for members.

    The API takes port GUIDs, and cannot name all of them at once; it sets a partition's MTU and
    rate only with a service level, which the file lacks. Only UFM can put a key first in a port's
    table, and a table has one first entry.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    first: dict[str, tuple[str, SpecPath]] = {}
    for partition, path in list_partitions(fabric):
        if fabric.ufm is not None:
            yield from _unsettable(partition, path)
        elif partition.index0:
            yield Finding(
                f"the key of partition {partition.name} is to be at index 0, which only UFM sets.",
                (at((*path, "index0"), value=True),),
                "remove index0, or say in infiniband.ufm how UFM is reached.",
            )
        hosts = () if partition.members == "all" else partition.members
        for m, member in enumerate(hosts if partition.index0 else ()):
            for guid in member.ports_of(host.hca_guids if (host := spec.host(member.host)) else ()):
                where: SpecPath = (*path, "members", m)
                other, there = first.setdefault(guid, (partition.name, where))
                if there != where:
                    yield Finding(
                        f"{partition.name} and {other} are both to be at index 0 of {member.host}.",
                        (at(where, member.host), at(there, member.host)),
                        "remove index0 of one of them.",
                    )


def _unsettable(partition: IbPartition, path: SpecPath) -> Findings:
    if partition.members == "all":
        what = f"partition {partition.name} is of all ports, and UFM knows members by their GUIDs."
        fix = "name its hosts; their hca_guids become the members."
        yield Finding(what, (at((*path, "members"), "all"),), fix)
    for key in ("mtu_bytes", "rate_gbit_s"):
        value = getattr(partition, key)
        if value is not None:
            what = f"partition {partition.name} has {key} {value}, which is not set in UFM."
            fix = f"remove {key}, and set it in UFM with the service level of the partition."
            yield Finding(what, (at((*path, key), value),), fix)


_FABRIC: SpecPath = ("infiniband",)


def check_pod_partition(spec: ClusterSpec) -> Findings:
    """VFs can join the partition of their rail by their GUIDs.

    On switches Railyard adds the GUIDs that the hosts give the VFs. With UFM, ib-kubernetes adds a
    GUID for each pod. CNI plugins set no partition key.
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
) -> Findings:
    names = {each.name: each for each in fabric.partitions}
    partition = names.get(rail.partition or "")
    if partition is None:
        hint = did_you_mean(rail.partition or "", [*names])
        what = f"{rail.name} is in {rail.partition}, and the fabric has no such partition.{hint}"
        fix = "add it to infiniband.partitions, or correct the name."
        yield Finding(what, (where, at((*_FABRIC, "partitions"))), fix)
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
    """Explain why VFs cannot join a partition, with the fix; None if they can."""
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


def _members(spec: ClusterSpec, rail: IbRail, partition: IbPartition, where: Place) -> Findings:
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
