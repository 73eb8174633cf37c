"""Plan each host's path queries to the subnet of an InfiniBand fabric, from the file. Pure.

The subnet manager gives a path in a partition only to two ports that may talk there. Therefore the
answered queries prove a key, not just the tables of the ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.acceptance.seen import Seen
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.infiniband import IbPartition
from components.model.worker_kinds import on_infiniband

SUBNET_PREFIX: Final = "fe80000000000000"
"""The default prefix of a subnet (InfiniBand specification), which opensm leaves as it is."""
_FULL: Final = 0x8000


class PathAsk(Seen):
    """One path query of a host in a partition, between its own port and another one."""

    name: str
    """The name of the answer: `training.1`."""
    partition: str
    source: str
    """Port GUID of the host that asks."""
    target: str
    to: str
    """The other port, for people: `gpu02/hca-0`."""
    pkey: int
    """With the bit of full members if the asking port has it."""
    wanted: bool
    """A path must exist."""

    @property
    def words(self) -> str:
        """The query as one word, for the script."""
        gids = (_gid(guid) for guid in (self.source, self.target))
        return ",".join((self.name, *gids, f"0x{self.pkey:04x}"))


class RailLimit(Seen):
    """One rail: the same HCA of every worker."""

    name: str
    ports: dict[str, str]
    """Host to the port GUID of its HCA."""


def plan_rails(spec: ClusterSpec) -> tuple[RailLimit, ...]:
    """Each HCA of the workers as a rail; empty if the file lists no GUIDs."""
    fabric = spec.infiniband
    hosts = [host for host in on_infiniband(spec) if host.hca_guids]
    count = min((len(host.hca_guids) for host in hosts), default=0)
    names = [rail.name for rail in fabric.rails] if fabric else []
    return tuple(
        RailLimit(
            name=names[number] if number < len(names) else f"hca-{number}",
            ports={host.name: host.hca_guids[number] for host in hosts},
        )
        for number in range(count)
    )


def plan_paths(spec: ClusterSpec, host: Host) -> tuple[PathAsk, ...]:
    """For each partition of named members, query a path to a member and one to another port."""
    fabric = spec.infiniband
    partitions = fabric.partitions if fabric else ()
    return tuple(
        ask for each in partitions if each.members != "all" for ask in _asks(spec, each, host)
    )


def _asks(spec: ClusterSpec, partition: IbPartition, host: Host) -> Iterator[PathAsk]:
    members = {h.name: _ports(partition, h) for h in on_infiniband(spec)}
    own = members.get(host.name, ())
    others = [h for h in on_infiniband(spec) if h.name != host.name and h.hca_guids]
    kind = partition.membership_of(host.name)
    source = own[0] if own else next(iter(host.hca_guids), None)
    inside = [
        (h, guid)
        for h in others
        for guid in members[h.name]
        if "full" in {kind, partition.membership_of(h.name)}
    ]
    outside = [(h, guid) for h in others for guid in h.hca_guids if guid not in members[h.name]]
    for number, (found, wanted) in enumerate(((inside, bool(own)), (outside, False)), start=1):
        if source is not None and found:
            other, guid = found[0]
            yield PathAsk(
                name=f"{partition.name}.{number}",
                partition=partition.name,
                source=source,
                target=guid,
                to=f"{other.name}/hca-{other.hca_guids.index(guid)}",
                pkey=partition.pkey | (_FULL if kind == "full" else 0),
                wanted=wanted,
            )


def _ports(partition: IbPartition, host: Host) -> tuple[str, ...]:
    member = partition.member(host.name)
    return member.ports_of(host.hca_guids) if member else ()


def _gid(guid: str) -> str:
    whole = SUBNET_PREFIX + guid
    return ":".join(whole[start : start + 4] for start in range(0, len(whole), 4))
