"""The links between switches, and the waves in which switches change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch, SwitchPort
from components.model.once import once
from components.model.places import link_of

LEAF: Final = 0
SPINE: Final = 1


class LinkEnd(NamedTuple):
    """One port of a switch that the file says leads to another switch."""

    switch: Switch
    name: str
    port: SwitchPort

    @property
    def key(self) -> tuple[str, str]:
        """Switch and port, by which the other end names it."""
        return self.switch.name, self.name


class Link(NamedTuple):
    """Two ends naming each other, in the order of the file."""

    one: LinkEnd
    other: LinkEnd


def list_ends(spec: ClusterSpec) -> tuple[LinkEnd, ...]:
    """Every port that leads to another switch, whether or not that one agrees."""
    return tuple(
        LinkEnd(switch, name, port)
        for switch in spec.switches
        for name, port in switch.ports.items()
        if port.peer is not None
    )


@once
def list_links(spec: ClusterSpec) -> tuple[Link, ...]:
    """Every pair of ends naming each other, once."""
    ends = {end.key: end for end in list_ends(spec)}
    links: dict[frozenset[tuple[str, str]], Link] = {}
    for end in ends.values():
        other = ends.get(end.port.peer or ("", ""))
        if other is not None and other is not end and other.port.peer == end.key:
            links.setdefault(frozenset({end.key, other.key}), Link(end, other))
    return tuple(links.values())


@once
def link_addresses(spec: ClusterSpec) -> Mapping[tuple[str, str], tuple[IPv4Address, IPv4Address]]:
    """Each end of a numbered link, by switch and port, to its own address and the other's (/31)."""
    found: dict[tuple[str, str], tuple[IPv4Address, IPv4Address]] = {}
    for link in list_links(spec):
        one, other = link.one.port.address, link.other.port.address
        if link.one.port.mode == link.other.port.mode == "routed" and (one or other):
            own = one or link_of(other or IPv4Address(0))[1]
            far = other or link_of(own)[1]
            found |= {link.one.key: (own, far), link.other.key: (far, own)}
    return found


def rails_on_link(spec: ClusterSpec, port: SwitchPort) -> tuple[Rail, ...]:
    """The rails whose VLANs a trunk between switches carries, in the order of the file."""
    if port.mode == "routed":
        return ()
    return tuple(rail for rail in spec.rails if port.rails is None or rail.name in port.rails)


@once
def switches_of_rails(spec: ClusterSpec) -> Mapping[str, tuple[str, ...]]:
    """Rail to the switches with a host on it, in the order of the file."""
    return _holders(spec, bridged=False)


@once
def bridging_switches_of_rails(spec: ClusterSpec) -> Mapping[str, tuple[str, ...]]:
    """As `switches_of_rails`, without switches that only route the rail and lack its VLAN."""
    return _holders(spec, bridged=True)


def _holders(spec: ClusterSpec, *, bridged: bool) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {rail.name: {} for rail in spec.rails}
    for switch in spec.switches:
        for port in switch.ports.values():
            rail = port.to.partition("/")[2]
            if port.peer is None and rail in found and not (bridged and port.mode == "routed"):
                found[rail][switch.name] = None
    return {rail: tuple(names) for rail, names in found.items()}


@once
def routed_neighbours(spec: ClusterSpec) -> Mapping[str, tuple[str, ...]]:
    """Switch to those at the other ends of its routed links, each once, in the order of links."""
    links = (each for each in list_links(spec) if each.one.port.mode == each.other.port.mode)
    found = _neighbours(link for link in links if link.one.port.mode == "routed")
    return {name: tuple(names) for name, names in found.items()}


def _neighbours(links: Iterable[Link]) -> dict[str, dict[str, None]]:
    """Switch to those at the other ends of some links, each once, in the order of links."""
    found: dict[str, dict[str, None]] = {}
    for link in links:
        one, other = link.one.switch.name, link.other.switch.name
        found.setdefault(one, {})[other] = None
        found.setdefault(other, {})[one] = None
    return found


@once
def plan_waves(spec: ClusterSpec) -> tuple[tuple[str, ...], ...]:
    """Put every switch of the site into a wave; redundant ones never change together.

    Each switch goes into the first wave with room and without its partners, so the order is nearly
    that of the file. The first `disruption.switches.canary` waves have one switch each, the others
    at most `disruption.switches.max_unavailable`.
    """
    near = {each.name: dict[str, None]() for each in spec.switches}
    near |= _neighbours(list_links(spec))
    # From sets of switches, so 1,000 hosts on the same leaves cost as much as one.
    leaves = {*leaves_of_hosts(spec).values()}
    groups = {frozenset({one, other}) for one, far in near.items() for other in far}
    groups |= {frozenset({each.name, each.mlag_peer}) for each in spec.switches if each.mlag_peer}
    groups |= {frozenset(each.name for each in spec.sm_switches), *leaves}
    groups |= {*_redundant_spines(near, frozenset[str]().union(*leaves))}
    limits, partners = spec.disruption.switch_waves, dict[str, list[int]]()
    for number, group in enumerate(groups):
        for name in group:
            partners.setdefault(name, []).append(number)
    waves: list[list[str]] = []
    taken: list[set[int]] = []  # the groups with a switch in each wave
    for switch in spec.switches:
        own = partners.get(switch.name, [])
        for number in range(len(waves) + 1):
            if number == len(waves):
                waves.append([])
                taken.append(set())
            room = 1 if number < limits.canary else limits.max_unavailable
            if len(waves[number]) < room and taken[number].isdisjoint(own):
                waves[number].append(switch.name)
                taken[number].update(own)
                break
    return tuple(map(tuple, waves))


@once
def leaves_of_hosts(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Host of the file to the switches that it is cabled to."""
    found: dict[str, set[str]] = {}
    for switch in spec.switches:
        for port in switch.ports.values():
            host, slash, _ = port.to.partition("/")
            if slash and port.peer is None and spec.host(host) is not None:
                found.setdefault(host, set()).add(switch.name)
    return {host: frozenset(names) for host, names in found.items()}


def _redundant_spines(
    near: Mapping[str, Collection[str]], leaves: frozenset[str]
) -> Iterator[frozenset[str]]:
    """For each leaf, the switches of each tier above it that join it with the others."""
    tier, edge, over = dict.fromkeys(leaves, 0), [*leaves], dict[str, set[str]]()
    while edge:
        edge = [name for name in {far for each in edge for far in near[each]} if name not in tier]
        tier |= dict.fromkeys(edge, max(tier.values()) + 1)
    for name in sorted(tier, key=lambda each: (tier[each], each)):
        for far in near[name]:
            if tier[far] == tier[name] + 1:
                over.setdefault(far, set()).update({name} if not tier[name] else over[name])
    joined: dict[tuple[str, int], set[str]] = {}
    for spine, under in over.items():
        for leaf in under:
            joined.setdefault((leaf, tier[spine]), set()).add(spine)
    return map(frozenset, joined.values())


def reachable(spec: ClusterSpec, rail: str, start: str) -> frozenset[str]:
    """Return the switches that the VLAN of a rail reaches over trunks between switches."""
    return _joined(spec).get(rail, {}).get(start, frozenset({start}))


@once
def joined_by_routes(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Map each switch to all switches that routed links join with it, including itself."""
    return _islands(routed_neighbours(spec))


@once
def _joined(spec: ClusterSpec) -> Mapping[str, Mapping[str, frozenset[str]]]:
    links: dict[str, list[Link]] = {}
    for link in list_links(spec):
        one, other = (
            {rail.name for rail in rails_on_link(spec, end.port)} for end in (link.one, link.other)
        )
        for rail in one & other:
            links.setdefault(rail, []).append(link)
    return {rail: _islands(_neighbours(joined)) for rail, joined in links.items()}


def _islands(neighbours: Mapping[str, Collection[str]]) -> Mapping[str, frozenset[str]]:
    island: dict[str, frozenset[str]] = {}
    for start in neighbours:
        if start in island:
            continue
        seen, waiting = {start}, [start]
        while waiting:
            new = {*neighbours[waiting.pop()]} - seen
            seen |= new
            waiting += new
        island |= dict.fromkeys(seen, frozenset(seen))
    return island


@once
def tiers_of(spec: ClusterSpec) -> Mapping[str, int]:
    """Switch to the routed links between it and the nearest leaf: 0 is a leaf, 1 a spine."""
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
