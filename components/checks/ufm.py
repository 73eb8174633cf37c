"""Rules on UFM as the subnet manager, and on what only it can set."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.partitions import list_partitions
from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbPartition


def check_ufm(spec: ClusterSpec) -> Iterator[Finding]:
    """UFM is the subnet manager where the file says how it is reached.

    A switch that runs one beside it takes over with partitions of its own.
    """
    fabric = spec.infiniband
    if fabric is not None and fabric.ufm is not None and fabric.subnet_manager == "switch":
        yield Finding(
            "ufm says how UFM is reached, and the subnet manager is on the switches.",
            (
                at(("infiniband", "ufm", "address"), fabric.ufm.address),
                at(("infiniband", "subnet_manager"), "switch"),
            ),
            "set subnet_manager to external, or remove ufm.",
        )


def check_ufm_partition(spec: ClusterSpec) -> Iterator[Finding]:
    """Partitions in UFM name their members, and have what its API sets for each of them.

    It knows port GUIDs alone, and no word for all of them; MTU and rate of a partition go together
    with its service level there, which the file does not have. Only UFM puts a key first in a
    port's table, and a table has one first entry.
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


def _unsettable(partition: IbPartition, path: SpecPath) -> Iterator[Finding]:
    if partition.members == "all":
        yield Finding(
            f"partition {partition.name} is of all ports, and UFM knows members by their GUIDs.",
            (at((*path, "members"), "all"),),
            "name its hosts; their hca_guids become the members.",
        )
    for key in ("mtu_bytes", "rate_gbit_s"):
        value = getattr(partition, key)
        if value is not None:
            yield Finding(
                f"partition {partition.name} has {key} {value}, which is not set in UFM.",
                (at((*path, key), value),),
                f"remove {key}, and set it in UFM with the service level of the partition.",
            )
