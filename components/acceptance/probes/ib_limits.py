"""Plan from the file what to expect of an InfiniBand fabric, and what to ask of which hosts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from pydantic import Field

from components.acceptance.logs.log_model import Seen
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.infiniband import DEFAULT_PARTITION, InfiniBand, Membership
from components.model.places import list_ib_switches
from components.model.worker_kinds import on_infiniband
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

SUBNET_PREFIX: Final = "fe80000000000000"
"""The default prefix of a subnet (InfiniBand specification), which opensm leaves as it is."""
_FULL: Final = 0x8000


class PathAsk(Seen):
    """One path query of a host in a partition, between its own port and another one."""

    name: str
    """The name of the answer: `training.1`."""
    partition: str
    source: str
    target: str
    to: str
    """The other port, for people: `gpu02/hca-0`."""
    pkey: int
    """With the bit of full members if the asking port has it."""
    wanted: bool

    @property
    def words(self) -> str:
        """The query as one word, for the script."""
        wholes = (SUBNET_PREFIX + guid for guid in (self.source, self.target))
        gids = (":".join(gid[at : at + 4] for at in range(0, len(gid), 4)) for gid in wholes)
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
    """For each partition of named members, query a path to a member and one to another port.

    The subnet manager gives one only to two ports that may talk there: the answers prove a key.
    """
    found, fabric = list[PathAsk](), on_infiniband(spec)
    others = [h for h in fabric if h.name != host.name and h.hca_guids]
    partitions = spec.infiniband.partitions if spec.infiniband else ()
    for partition in (each for each in partitions if each.members != "all"):
        listed = {h.name: (h, partition.member(h.name)) for h in fabric}
        members = {name: m.ports_of(h.hca_guids) if m else () for name, (h, m) in listed.items()}
        own = members.get(host.name, ())
        kind = partition.membership_of(host.name)
        source = own[0] if own else next(iter(host.hca_guids), None)
        inside = [
            (h, guid)
            for h in others
            for guid in members[h.name]
            if "full" in {kind, partition.membership_of(h.name)}
        ]
        outside = [(h, guid) for h in others for guid in h.hca_guids if guid not in members[h.name]]
        for number, (ends, wanted) in enumerate(((inside, bool(own)), (outside, False)), start=1):
            if source is not None and ends:
                other, guid = ends[0]
                ask = PathAsk(
                    name=f"{partition.name}.{number}",
                    partition=partition.name,
                    source=source,
                    target=guid,
                    to=f"{other.name}/hca-{other.hca_guids.index(guid)}",
                    pkey=partition.pkey | (_FULL if kind == "full" else 0),
                    wanted=wanted,
                )
                found.append(ask)
    return tuple(found)


LOOK_DEADLINE_S: Final = 120.0
"""Seconds to read files of /sys and to query the subnet manager once for each path, on a busy host:
one in the lab took over 60 where 20 processes waited for its two cores."""
TAKEOVER_S: Final = 90.0
"""Seconds in which a standby takes over: opensm's took 55 with its defaults (four unanswered polls
of ten seconds, and a sweep of the subnet)."""
DIAGNOSE_DEADLINE_S: Final = 600.0
"""Seconds with ibdiagnet: it asks every node of the fabric, some thousand in a large one."""


class PartitionLimit(Seen):
    """One partition, and its required members."""

    name: str
    pkey: int
    members: dict[str, Membership]
    """Host to membership; it counts for every HCA port of the host."""
    ports: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Host to the GUIDs of the ports in it; without an entry, all ports of the host are in it."""
    exclusive: bool = False
    """Other hosts, and HCAs that a host does not list, must not have the key."""


class IbLimits(Seen):
    """The plan's expectations for the fabric."""

    hcas: int
    """HCA ports that must be active on each worker."""
    rate_gbit_s: float
    mtu_bytes: int
    partitions: tuple[PartitionLimit, ...] = ()
    master_priority: int | None = None
    """Priority of the master; None if the file runs no subnet manager."""
    standbys: int | None = None
    """Standby subnet managers; None if the file runs no subnet manager."""
    adaptive_routing: bool = False
    rails: tuple[RailLimit, ...] = ()
    """The same HCA of every worker, each proven separately."""
    paths: dict[str, tuple[PathAsk, ...]] = Field(default_factory=dict[str, tuple[PathAsk, ...]])
    """Host to its path queries to the subnet."""
    cables: dict[str, str] = Field(default_factory=dict[str, str])
    """Port GUID of an HCA to the switch and the port that it is plugged into."""


@dataclass(frozen=True, slots=True)
class IbLook:
    """One host to ask: one connection, one script."""

    endpoint: Endpoint
    script: str
    deadline_s: float
    takeover_s: float = 0.0
    """Seconds to wait for a lost master; 0 without a standby in the file."""


def plan_ib_limits(spec: ClusterSpec) -> IbLimits | None:
    """Plan the expectations; None without own InfiniBand switches, or without hosts to ask."""
    fabric = spec.infiniband
    if fabric is None or not _asked(spec):
        return None
    own = spec.sm_switches if fabric.subnet_manager == "switch" else ()
    # Every port is in Default, full or limited: else it cannot reach the subnet manager.
    members: dict[str, Membership] = {host.name: "limited" for host in on_infiniband(spec)}
    default = PartitionLimit(name=DEFAULT_PARTITION, pkey=0x7FFF, members=members)
    guids = {
        f"{host.name}/hca-{number}": guid
        for host in on_infiniband(spec)
        for number, guid in enumerate(host.hca_guids)
    }
    cables = {
        guids[to]: f"{switch.name} {name}"
        for switch in list_ib_switches(spec)
        for name, to in switch.ports.items()
        if to in guids
    }
    return IbLimits(
        hcas=fabric.hcas,
        rate_gbit_s=fabric.rate_gbit_s,
        mtu_bytes=fabric.mtu_bytes,
        partitions=(default, *_partitions(spec, fabric)),
        master_priority=own[0].sm_priority if own else None,
        standbys=len(own) - 1 if own else None,
        adaptive_routing=fabric.adaptive_routing,
        rails=plan_rails(spec),
        paths={host.name: asks for host in _asked(spec) if (asks := plan_paths(spec, host))},
        cables=cables,
    )


def _asked(spec: ClusterSpec) -> tuple[Host, ...]:
    """The workers on the fabric that Railyard logs in to: it cannot ask the others."""
    return tuple(host for host in on_infiniband(spec) if host.ssh is not None)


def _partitions(spec: ClusterSpec, fabric: InfiniBand) -> tuple[PartitionLimit, ...]:
    return tuple(
        PartitionLimit(
            name=partition.name,
            pkey=partition.pkey,
            members={
                host.name: kind
                for host in on_infiniband(spec)
                if (kind := partition.membership_of(host.name)) is not None
            },
            ports={
                host.name: member.ports_of(host.hca_guids) if member else host.hca_guids
                for host in on_infiniband(spec)
                if host.hca_guids and partition.membership_of(host.name)
                for member in (partition.member(host.name),)
            },
            exclusive=partition.members != "all",
        )
        for partition in fabric.partitions
    )


@cache
def host_script(name: str) -> str:
    """The text of one of the room's scripts, without its comments."""
    text = resources.files("components.acceptance").joinpath("scripts", f"{name}.sh")
    lines = text.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))


def plan_ib_looks(spec: ClusterSpec) -> tuple[IbLook, ...]:
    """Every worker on the fabric with a login is asked, the first one also with ibdiagnet."""
    fabric = spec.infiniband
    if fabric is None:
        return ()
    takeover_s = TAKEOVER_S if len(spec.sm_switches) > 1 else 0.0
    options = "--routing" if fabric.adaptive_routing else "''"
    found: list[IbLook] = []
    for host in _asked(spec):
        words = " ".join(ask.words for ask in plan_paths(spec, host))
        head = f"diagnose={'no' if found else options}\n" + (f"paths='{words}'\n" if words else "")
        deadline_s = LOOK_DEADLINE_S if found else DIAGNOSE_DEADLINE_S
        found.append(
            IbLook(host_endpoint(host), head + host_script("ib_look"), deadline_s, takeover_s)
        )
    return tuple(found)
