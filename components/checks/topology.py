"""Cables between NICs and switch ports, with their paths, and the tiers of switches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from components.checks.rule import at
from components.core.problem import Place, SpecPath
from components.fabric.links import list_links, rails_on_link, routed_neighbours, switches_of_rails
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.hosts import Host, Nic
from components.model.once import once


def reachable(spec: ClusterSpec, rail: str, start: str) -> frozenset[str]:
    """Return the switches that the VLAN of a rail reaches over trunks between switches."""
    return _joined(spec).get(rail, {}).get(start, frozenset({start}))


@once
def joined_by_routes(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Map each switch to all switches that routed links join with it, including itself."""
    return _islands({name: {*far} for name, far in routed_neighbours(spec).items()})


@once
def _joined(spec: ClusterSpec) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Rail to switch to all switches that the rail's trunks join with it."""
    neighbours: dict[str, dict[str, set[str]]] = {}
    for link in list_links(spec):
        ends = (link.one, link.other)
        one, other = (end.switch.name for end in ends)
        carried = [{each.name for each in rails_on_link(spec, end.port)} for end in ends]
        for rail in carried[0] & carried[1]:
            joined = neighbours.setdefault(rail, {})
            joined.setdefault(one, set()).add(other)
            joined.setdefault(other, set()).add(one)
    return {rail: _islands(joined) for rail, joined in neighbours.items()}


def _islands(neighbours: Mapping[str, set[str]]) -> Mapping[str, frozenset[str]]:
    """Map each switch to all switches joined with it, including itself."""
    island: dict[str, frozenset[str]] = {}
    for start in neighbours:
        if start in island:
            continue
        seen, waiting = {start}, [start]
        while waiting:
            new = neighbours[waiting.pop()] - seen
            seen |= new
            waiting += new
        island |= dict.fromkeys(seen, frozenset(seen))
    return island


LEAF, SPINE = 0, 1


@once
def tiers_of(spec: ClusterSpec) -> Mapping[str, int]:
    """Switch to the number of routed links between it and the nearest leaf.

    0 is a leaf, 1 a spine, 2 a super-spine. A switch that no routed links join with a leaf is in
    none.
    """
    found = {name: LEAF for names in switches_of_rails(spec).values() for name in names}
    waiting = [*found]
    while waiting:
        above = [far for name in waiting for far in routed_neighbours(spec).get(name, ())]
        tier = found[waiting[0]] + 1
        waiting = [name for name in dict.fromkeys(above) if name not in found]
        found |= dict.fromkeys(waiting, tier)
    return found


def above(spec: ClusterSpec, name: str, step: int = 1) -> tuple[str, ...]:
    """Return the switches of the next tier that a switch has links to."""
    tiers = tiers_of(spec)
    wanted = tiers.get(name, LEAF) + step
    far = routed_neighbours(spec).get(name, ())
    return tuple(each for each in far if name in tiers and tiers.get(each) == wanted)


def below(spec: ClusterSpec, name: str) -> tuple[str, ...]:
    """Return the switches that a switch is linked to in the tier beneath."""
    return above(spec, name, -1)


@once
def leaves_below(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Map each switch to the leaves below it; a leaf to itself."""
    tiers = tiers_of(spec)
    found: dict[str, frozenset[str]] = {}
    for name in sorted(tiers, key=lambda name: tiers[name]):
        under = (found[each] for each in below(spec, name))
        found[name] = frozenset({name}) if tiers[name] == LEAF else frozenset[str]().union(*under)
    return found


@once
def units_of(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Map each leaf to the leaves of its unit: those that spines join without super-spines."""
    tiers = tiers_of(spec)
    unit = {name: {name} for name, tier in tiers.items() if tier == LEAF}
    for spine, tier in tiers.items():
        joined = set[str]().union(*(unit[leaf] for leaf in below(spec, spine) if tier == SPINE))
        unit |= dict.fromkeys(joined, joined)
    return {leaf: frozenset(leaves) for leaf, leaves in unit.items()}


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlacedNic:
    """One NIC and its place in the file."""

    host: Host
    nic: Nic
    path: SpecPath

    def __str__(self) -> str:
        """`gpu01 eth2`, for people."""
        return f"{self.host.name} {self.nic.netdev}"

    def at(self, *keys: str) -> Place:
        """Return the place of one value in it: `nic.at("sriov", "vlan")`."""
        return at((*self.path, *keys), attrgetter(".".join(keys))(self.nic))


@dataclass(frozen=True, slots=True)
class PlacedPort:
    """One switch port and its place in the file."""

    switch: Switch
    name: str
    port: SwitchPort
    path: SpecPath

    def __str__(self) -> str:
        """`port 1/1 of leaf-01`, for people."""
        return f"port {self.name} of {self.switch.name}"

    @property
    def place(self) -> Place:
        """The place in the file with the other end of the port."""
        return at(self.path, self.port.to)

    def at(self, key: str) -> Place:
        """Return the place of one value in it: `port.at("mode")`."""
        return at((*self.path, key), getattr(self.port, key))

    @property
    def host(self) -> str:
        """The host that the port's entry names."""
        return self.port.to.partition("/")[0]

    @property
    def rail(self) -> str:
        """The rail that the port's entry names."""
        return self.port.to.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Cable:
    """A NIC and the port it is plugged into."""

    nic: PlacedNic
    port: PlacedPort


class HostBlock(NamedTuple, Generic[_T]):
    """Settings of hosts at one place in the file, and the hosts that they apply to."""

    path: SpecPath
    value: _T
    hosts: tuple[Host, ...]

    def at(self, *keys: str) -> Place:
        """Return the place of one value in it: `block.at("buffers", "priorities")`."""
        return at((*self.path, *keys), attrgetter(".".join(keys))(self.value))


def host_blocks(spec: ClusterSpec, key: str, kind: type[_T]) -> Iterator[HostBlock[_T]]:
    """Yield the values of one key in `host_defaults` and in each group of `host_groups`."""
    groups = [(group.name, getattr(group, key)) for group in spec.host_groups]
    own = {name for name, value in groups if value is not None}
    if isinstance(value := getattr(spec.host_defaults, key), kind):
        hosts = tuple(host for host in spec.hosts if host.group not in own)
        yield HostBlock(("host_defaults", key), value, hosts)
    for g, (name, value) in enumerate(groups):
        if isinstance(value, kind):
            hosts = tuple(host for host in spec.hosts if host.group == name)
            yield HostBlock(("host_groups", g, key), value, hosts)


def block_path(spec: ClusterSpec, host: Host, key: str) -> SpecPath:
    """Return the place of a host's setting: at its group, or for all hosts."""
    for g, group in enumerate(spec.host_groups):
        if group.name == host.group and getattr(group, key) is not None:
            return ("host_groups", g, key)
    return ("host_defaults", key)


@once
def list_nics(spec: ClusterSpec) -> tuple[PlacedNic, ...]:
    """List all NICs in the order of the file."""
    return tuple(
        PlacedNic(host, nic, ("hosts", h, "nics", n))
        for h, host in enumerate(spec.hosts)
        for n, nic in enumerate(host.nics)
    )


def nics_by_host(spec: ClusterSpec) -> Iterator[list[PlacedNic]]:
    """Yield the NICs of each host that has NICs; by mistake two hosts can share one name."""
    for _, nics in groupby(list_nics(spec), key=lambda nic: nic.path[:2]):
        yield list(nics)


@once
def list_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List all ports on rails, in the order of the file."""
    return tuple(port for port in list_all_ports(spec) if port.port.peer is None)


@once
def list_link_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List the switch ports that lead to other switches, in the order of the file."""
    return tuple(port for port in list_all_ports(spec) if port.port.peer is not None)


@once
def list_all_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List the ports of all Ethernet switches, in the order of the file."""
    return tuple(
        PlacedPort(switch, name, port, ("switches", s, "ports", name))
        for s, switch in enumerate(spec.switches)
        if switch.carries == "roce"
        for name, port in switch.ports.items()
    )


@once
def list_cables(spec: ClusterSpec) -> tuple[Cable, ...]:
    """List each NIC with each port that names its host and rail."""
    plugged: dict[str, list[PlacedPort]] = {}
    for port in list_ports(spec):
        plugged.setdefault(port.port.to, []).append(port)
    return tuple(
        Cable(nic, port)
        for nic in list_nics(spec)
        for port in plugged.get(f"{nic.host.name}/{nic.nic.rail}", ())
    )
