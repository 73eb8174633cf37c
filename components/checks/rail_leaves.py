"""Rules on a rail that has a subnet on each of several leaves, and on the way between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network
from typing import Final

from components.checks.rule import Finding, Findings, at
from components.checks.topology import (
    LEAF,
    SPINE,
    joined_by_routes,
    leaves_below,
    list_ports,
    reachable,
    tiers_of,
    units_of,
)
from components.core.problem import SpecPath
from components.fabric.links import switches_of_rails
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.reading.wording import did_you_mean

_SMALLEST: Final = 30
"""Prefix length of a subnet for one machine and its gateway."""


_NAMED: Final = 2
"""So many names are in a sentence; the others are counted."""


def in_words(names: Sequence[str]) -> str:
    """`a and b`, `a, b and 30 more`."""
    first, more = names[:_NAMED], len(names) - _NAMED
    return f"{', '.join(first)} and {more} more" if more > 0 else " and ".join(first)


def suggest_leaves(rail: Rail, leaves: Sequence[str]) -> str:
    """What a fix writes: the rail's subnet in equal parts, one for each leaf."""
    prefix = rail.subnet.prefixlen + (len(leaves) - 1).bit_length()
    if prefix > _SMALLEST:
        return "leaves, with parts of a larger subnet of the rail"
    parts = rail.subnet.subnets(new_prefix=prefix)
    texts = (_part_text(leaf, part) for leaf, part in zip(leaves, parts, strict=False))
    return f"leaves: {{{', '.join(texts)}}}"


def _part_text(leaf: str, part: IPv4Network) -> str:
    return f"{leaf}: {{subnet: {part}, gateway: {part.network_address + 1}}}"


def check_rail_leaf(spec: ClusterSpec) -> Findings:
    """Of a rail with `leaves`, each leaf that has hosts of it has a part of the rail's subnet.

    The parts have no address in common, since a pod's address tells which leaf it is behind. Each
    leaf is routed and reaches the others over routed links; a trunk would make one network of two
    subnets, and pods would look for each other's address where nothing answers.
    """
    holders = switches_of_rails(spec)
    for r, rail in enumerate(spec.rails):
        if rail.leaves:
            yield from _named(spec, r, rail, holders[rail.name])
            yield from _without(spec, r, rail)
            yield from _parts(spec, r, rail)
            yield from _ways(spec, r, rail, holders[rail.name])


def _path(r: int, leaf: str, *more: str) -> SpecPath:
    return ("rails", r, "leaves", leaf, *more)


def _named(spec: ClusterSpec, r: int, rail: Rail, holders: Sequence[str]) -> Findings:
    """Each leaf is a switch with hosts of the rail, and it is routed."""
    switches = {switch.name: switch for switch in spec.switches}
    # A port that leads to no rail may be the missing one: `port-target` tells of it.
    odd = {port.switch.name for port in list_ports(spec) if spec.rail(port.rail) is None}
    for leaf in rail.leaves:
        where = (at(_path(r, leaf)),)
        if leaf not in switches:
            yield Finding(
                f"{rail.name} has a subnet on {leaf!r}, and there is no such switch."
                f"{did_you_mean(leaf, [*switches])}",
                where,
                "name the switch into which the hosts of that subnet are plugged.",
            )
        elif leaf not in holders and leaf not in odd:
            what = f"{rail.name} has a subnet on {leaf}, but no host of it is plugged in there."
            yield Finding(what, where, "remove it, or add the ports of its hosts to the switch.")
        elif leaf in holders and not is_routed(switches[leaf]):
            what = f"{rail.name} has a subnet on {leaf}, and {leaf} is not routed."
            fix = "add routing: {asn: 65101, router_id: 10.255.0.1}, and links with mode: routed."
            yield Finding(what, where, fix)


def is_routed(switch: Switch) -> bool:
    """It has numbers, or links for which `routing` asks for them."""
    return switch.routing is not None or any(
        port.mode == "routed" for port in switch.ports.values()
    )


def _without(spec: ClusterSpec, r: int, rail: Rail) -> Findings:
    """Each host of the rail is on a leaf that has a part of it."""
    seen: set[str] = set()
    for port in list_ports(spec):
        leaf = port.switch.name
        if port.rail != rail.name or leaf in rail.leaves or leaf in seen:
            continue
        seen.add(leaf)
        part = _free_part(rail)
        yield Finding(
            f"{port.port.to} is plugged into {leaf}, and {rail.name} has no subnet on {leaf}.",
            (port.place, at(("rails", r, "leaves"), ", ".join(rail.leaves))),
            f"add to its leaves {_part_text(leaf, part)}."
            if part
            else f"give the rail a larger subnet, and {leaf} a part of it.",
        )


def _free_part(rail: Rail) -> IPv4Network | None:
    """A part of the rail as large as the smallest that it has, and not taken."""
    taken = [each.subnet for each in rail.leaves.values()]
    prefix = max(rail.subnet.prefixlen, *(each.prefixlen for each in taken))
    parts = rail.subnet.subnets(new_prefix=prefix)
    return next((part for part in parts if not any(map(part.overlaps, taken))), None)


def _parts(spec: ClusterSpec, r: int, rail: Rail) -> Findings:
    whole = at(("rails", r, "subnet"), rail.subnet)
    # Then the rail's own subnet is the wrong one, which `subnet-overlap` tells.
    is_wrong = any(each.subnet.overlaps(rail.subnet) for each in spec.rails if each is not rail)
    for leaf, part in rail.leaves.items():
        if not is_wrong and not part.subnet.subnet_of(rail.subnet):
            yield Finding(
                f"the subnet of {rail.name} on {leaf}, {part.subnet}, is no part of the rail's, "
                f"{rail.subnet}, to which all its pods have a route.",
                (at(_path(r, leaf, "subnet"), part.subnet), whole),
                "choose a part of it, or give the rail a subnet that holds all of them.",
            )
    for group in _overlapping(rail):
        parts = [f"on {leaf}, {rail.leaves[leaf].subnet}" for leaf in group]
        what = f"{rail.name} has overlapping subnets {in_words(parts)}: both leaves announce them."
        where = tuple(at(_path(r, leaf, "subnet"), rail.leaves[leaf].subnet) for leaf in group)
        fix = f"choose separate parts, for example {suggest_leaves(rail, [*rail.leaves])}."
        yield Finding(what, where, fix)


def _overlapping(rail: Rail) -> Iterator[list[str]]:
    """Leaves whose parts overlap, each group once, in the order of addresses."""
    group, end = list[str](), -1
    for leaf in sorted(rail.leaves, key=lambda leaf: rail.leaves[leaf].subnet):
        part = rail.leaves[leaf].subnet
        if int(part.network_address) > end:
            yield from [group] if len(group) > 1 else []
            group = []
        group.append(leaf)
        end = max(end, int(part.broadcast_address))
    yield from [group] if len(group) > 1 else []


def _ways(spec: ClusterSpec, r: int, rail: Rail, holders: Sequence[str]) -> Findings:
    """From the first leaf to each other one there is a way over routed links, and no trunk."""
    leaves = [leaf for leaf in rail.leaves if leaf in holders]
    joined = joined_by_routes(spec)
    for leaf in leaves[1:]:
        where = (at(_path(r, leaves[0])), at(_path(r, leaf)))
        if leaf in reachable(spec, rail.name, leaves[0]):
            what = f"a trunk joins {leaves[0]} and {leaf}, two subnets of {rail.name}."
            fix = f"set mode: routed at both ends, or leave {rail.name} out of the link's rails."
            yield Finding(what, where, fix)
        elif leaf not in joined.get(leaves[0], frozenset()):
            what = f"no routed links join {leaves[0]} and {leaf}, which both have {rail.name}."
            fix = f"write links with mode: routed from {leaf} to the spines of {leaves[0]}."
            yield Finding(what, where, fix)


def check_spine_link(spec: ClusterSpec) -> Findings:
    """A spine that serves one leaf of a rail serves all of them in its scalable unit.

    A spine without a link to one leaf knows no way there: the others send to that leaf over fewer
    spines than they have links for. A super-spine leads to the leaves of every unit likewise.
    Fabrics in which a spine is of some rails only are not meant.
    """
    holders, units, tiers = switches_of_rails(spec), units_of(spec), tiers_of(spec)
    numbers = {switch.name: index for index, switch in enumerate(spec.switches)}
    named: set[tuple[str, str]] = set()
    for spine in (name for name, tier in tiers.items() if tier > LEAF):
        under = leaves_below(spec)[spine]
        unit = frozenset[str]().union(*(units[leaf] for leaf in under))
        for rail in spec.rails:
            on = [leaf for leaf in rail.leaves if leaf in holders[rail.name]]
            on = [leaf for leaf in on if leaf in unit or tiers[spine] > SPINE]
            linked = [leaf for leaf in on if leaf in under]
            lacking = [leaf for leaf in on if leaf not in under and (spine, leaf) not in named]
            if linked and tiers[spine] > SPINE:
                # One link to a unit serves all of its leaves: it is missed once.
                lacking = [*{units[leaf]: leaf for leaf in reversed(lacking)}.values()][::-1]
            for leaf in lacking if linked else ():
                named |= {(spine, each) for each in (leaf, *units[leaf]) if tiers[spine] > SPINE}
                named.add((spine, leaf))
                yield _missing_link(spine, leaf, rail, linked, numbers[spine], tiers[spine])


def _missing_link(
    spine: str, leaf: str, rail: Rail, linked: Sequence[str], number: int, tier: int
) -> Finding:
    what = "link to" if tier == SPINE else "way down to"
    far = leaf if tier == SPINE else f"a spine of {leaf}"
    return Finding(
        f"{spine} has no {what} {leaf}, and {rail.name} is there and on "
        f"{in_words(linked)}, which it has links to.",
        (at(("switches", number, "name"), spine),),
        f"write a link with mode: routed between {spine} and {far}, at both ends.",
        "warning",
    )
