"""In which order switches change, so that redundant ones are never out of service together. Pure.

Switches that must not change together stand in one group: of a group, a wave has one at most.
Groups are made from sets of switches, so 1,000 hosts on the same leaves cost as much as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from components.fabric.links import list_links
from components.model.cluster import ClusterSpec
from components.model.once import once


@once
def plan_waves(spec: ClusterSpec) -> tuple[tuple[str, ...], ...]:
    """Put every switch of the site into a wave.

    Each switch goes into the first wave that has room and none of its partners. So the order is
    that of the file as far as possible, and the same at every run.

    Args:
        spec: The checked site.

    Returns:
        Names of switches, wave by wave. The first `disruption.switches.canary` waves have one
        switch each, the others `disruption.switches.max_unavailable` at most.
    """
    limits = spec.disruption.switch_waves
    partners: dict[str, list[int]] = {}
    for number, group in enumerate(_groups(spec)):
        for name in group:
            partners.setdefault(name, []).append(number)
    waves: list[list[str]] = []
    taken: list[set[int]] = []  # the groups that have a switch in each wave
    for switch in spec.switches:
        groups = partners.get(switch.name, [])
        for number in range(len(waves) + 1):
            if number == len(waves):
                waves.append([])
                taken.append(set())
            room = 1 if number < limits.canary else limits.max_unavailable
            if len(waves[number]) < room and taken[number].isdisjoint(groups):
                waves[number].append(switch.name)
                taken[number].update(groups)
                break
    return tuple(map(tuple, waves))


@once
def leaves_of_hosts(spec: ClusterSpec) -> Mapping[str, frozenset[str]]:
    """Host of the file to the switches that it is cabled to."""
    found: dict[str, set[str]] = {}
    for switch in spec.switches:
        ends = [port.to for port in switch.ports.values() if port.peer is None]
        for end in ends:
            host, slash, _ = end.partition("/")
            if slash and spec.host(host) is not None:
                found.setdefault(host, set()).add(switch.name)
    return {host: frozenset(names) for host, names in found.items()}


def _groups(spec: ClusterSpec) -> set[frozenset[str]]:
    """Switches of which one at most may be out of service at a time."""
    near = _neighbours(spec)
    found = {frozenset({one, other}) for one, far in near.items() for other in far}
    found |= {frozenset({each.name, each.mlag_peer}) for each in spec.switches if each.mlag_peer}
    found |= {frozenset(each.name for each in spec.sm_switches)}
    leaves = {*leaves_of_hosts(spec).values()}
    return found | leaves | {*_redundant_spines(near, frozenset[str]().union(*leaves))}


def _neighbours(spec: ClusterSpec) -> Mapping[str, set[str]]:
    """Switch to those at the other ends of its links, routed or not."""
    found: dict[str, set[str]] = {switch.name: set() for switch in spec.switches}
    for link in list_links(spec):
        one, other = link.one.switch.name, link.other.switch.name
        found[one].add(other)
        found[other].add(one)
    return found


def _redundant_spines(
    near: Mapping[str, Collection[str]], leaves: frozenset[str]
) -> Iterator[frozenset[str]]:
    """For each leaf, the switches of each tier above it that join it with the others."""
    tier, edge, above = dict.fromkeys(leaves, 0), [*leaves], dict[str, set[str]]()
    while edge:
        edge = [name for name in {far for each in edge for far in near[each]} if name not in tier]
        tier |= dict.fromkeys(edge, max(tier.values()) + 1)
    for name in sorted(tier, key=lambda each: (tier[each], each)):
        for far in near[name]:
            if tier[far] == tier[name] + 1:
                above.setdefault(far, set()).update({name} if not tier[name] else above[name])
    joined: dict[tuple[str, int], set[str]] = {}
    for spine, below in above.items():
        for leaf in below:
            joined.setdefault((leaf, tier[spine]), set()).add(spine)
    return map(frozenset, joined.values())
