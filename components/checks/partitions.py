"""Rules on the partitions of an InfiniBand fabric: keys, names, and who is in which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbPartition, InfiniBand
from components.reading.wording import did_you_mean

_KEY_TABLE: Final = 128
"""Entries of the key table of a ConnectX port, of which Default takes one (sources.md)."""
_BLOCK: SpecPath = ("infiniband",)


def list_partitions(fabric: InfiniBand) -> Iterator[tuple[IbPartition, SpecPath]]:
    """List the partitions with their paths, in the order of the file."""
    for p, partition in enumerate(fabric.partitions):
        yield partition, (*_BLOCK, "partitions", p)


def check_partition_key(spec: ClusterSpec) -> Iterator[Finding]:
    """Each partition has a key and a name of its own."""
    fabric = spec.infiniband
    if fabric is None:
        return
    first: dict[tuple[str, str], SpecPath] = {}
    for partition, path in list_partitions(fabric):
        for field, shown in (("pkey", show_pkey(partition.pkey)), ("name", partition.name)):
            other = first.setdefault((field, shown), path)
            if other != path:
                yield Finding(
                    f"two partitions have the {field} {shown}.",
                    (at((*path, field), shown), at((*other, field), shown)),
                    f"give each partition a {field} of its own.",
                )


def check_partition_member(spec: ClusterSpec) -> Iterator[Finding]:
    """Each member of a partition is a host of the file whose port GUIDs are known.

    A subnet manager knows ports, not hosts. There is a member, and at least one is full: limited
    ones do not reach each other.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    for partition, path in list_partitions(fabric):
        if not partition.members:
            yield Finding(
                f"partition {partition.name} has no members.",
                (at((*path, "members"), "[]"),),
                "name its hosts, write all, or remove the partition.",
            )
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


def _wrong_members(spec: ClusterSpec, partition: IbPartition, path: SpecPath) -> Iterator[Finding]:
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


def check_partition_limit(spec: ClusterSpec) -> Iterator[Finding]:
    """No partition asks for a larger MTU or a higher rate than the fabric has.

    The multicast group of IPoIB is then made by no host, or joined by none.
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


def check_partition_count(spec: ClusterSpec) -> Iterator[Finding]:
    """No host is in more partitions than the key table of a port has entries beside Default's.

    The table of a ConnectX card has 128 entries. A key without a place in it cannot be used.
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


def check_partition_name(spec: ClusterSpec) -> Iterator[Finding]:
    """No two partitions have names that differ in case only.

    Whether MLNX-OS tells them apart is not published. If not, the second would give the first one
    its key.
    """
    fabric = spec.infiniband
    if fabric is None:
        return
    first: dict[str, tuple[str, SpecPath]] = {}
    for partition, path in list_partitions(fabric):
        other, where = first.setdefault(partition.name.lower(), (partition.name, path))
        if other != partition.name:
            yield Finding(
                f"the partitions {other} and {partition.name} differ in case only.",
                (at((*path, "name"), partition.name), at((*where, "name"), other)),
                "rename one of them.",
                "warning",
            )
