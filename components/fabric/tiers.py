"""The tiers of switches, and the switches that trunks or routed links join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.fabric.links import list_links, rails_on_link, routed_neighbours, switches_of_rails
from components.model.cluster import ClusterSpec
from components.model.once import once

LEAF: Final = 0
SPINE: Final = 1


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
