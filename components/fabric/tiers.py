"""The tiers of a routed fabric: leaves have hosts, spines join leaves, super-spines join spines."""

from __future__ import annotations

from collections.abc import Mapping

from components.fabric.links import routed_neighbours, switches_of_rails
from components.model.cluster import ClusterSpec
from components.model.once import once

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


def above(spec: ClusterSpec, name: str) -> tuple[str, ...]:
    """The switches of the next tier that a switch has links to."""
    return _next(spec, name, 1)


def below(spec: ClusterSpec, name: str) -> tuple[str, ...]:
    """The same of the tier beneath."""
    return _next(spec, name, -1)


def _next(spec: ClusterSpec, name: str, step: int) -> tuple[str, ...]:
    tiers = tiers_of(spec)
    wanted = tiers.get(name, LEAF) + step
    far = routed_neighbours(spec).get(name, ())
    return tuple(each for each in far if name in tiers and tiers.get(each) == wanted)


@once
def leaves_below(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Switch to the leaves to which links lead down from it; a leaf to itself."""
    tiers = tiers_of(spec)
    found: dict[str, frozenset[str]] = {}
    for name in sorted(tiers, key=lambda name: tiers[name]):
        under = (found[each] for each in below(spec, name))
        found[name] = frozenset({name}) if tiers[name] == LEAF else frozenset[str]().union(*under)
    return found


@once
def units_of(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Leaf to the leaves of its scalable unit: those that spines join without super-spines."""
    tiers = tiers_of(spec)
    unit = {name: {name} for name, tier in tiers.items() if tier == LEAF}
    for spine, tier in tiers.items():
        joined = set[str]().union(*(unit[leaf] for leaf in below(spec, spine) if tier == SPINE))
        unit |= dict.fromkeys(joined, joined)
    return {leaf: frozenset(leaves) for leaf, leaves in unit.items()}
