"""Rules on the autonomous system numbers of a routed fabric, by tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from components.checks.rule import Finding, at
from components.core.problem import Place
from components.fabric.links import (
    LEAF,
    SPINE,
    above,
    joined_by_routes,
    leaves_below,
    list_links,
    tiers_of,
)
from components.model.cluster import ClusterSpec

_NAMED: Final = 2
"""So many names are in a sentence; the others are counted."""
Numbers = Mapping[str, tuple[int, int]]
"""Switch to its place in the file and its number."""


def find_wrong_numbers(spec: ClusterSpec) -> Iterator[Finding]:
    """Numbers that lose routes or paths, each cause once."""
    numbers = {s.name: (i, s.routing.asn) for i, s in enumerate(spec.switches) if s.routing}
    yield from _same_leaves(spec, numbers)
    yield from _same_ends(spec, numbers)
    yield from _uneven_paths(spec, numbers)
    yield from _same_units(spec, numbers)


def in_words(names: Sequence[str]) -> str:
    """`a and b`, `a, b and 30 more`."""
    first, more = names[:_NAMED], len(names) - _NAMED
    return f"{', '.join(first)} and {more} more" if more > 0 else " and ".join(first)


def _places(names: Iterable[str], numbers: Numbers) -> tuple[Place, ...]:
    return tuple(at(("switches", numbers[n][0], "routing", "asn"), numbers[n][1]) for n in names)


def _by_number(names: Iterable[str], numbers: Numbers) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in names:
        if name in numbers:
            found.setdefault(numbers[name][1], []).append(name)
    return found


def _same_leaves(spec: ClusterSpec, numbers: Numbers) -> Iterator[Finding]:
    leaves = [name for name in numbers if tiers_of(spec).get(name) == LEAF]
    for asn, names in _by_number(leaves, numbers).items():
        if len(names) > 1:
            yield Finding(
                f"the leaves {in_words(names)} have the same asn {asn}, and would refuse each "
                "other's routes.",
                _places(names[1:], numbers),
                "give each leaf a number of its own, for example 65101, 65102 and so on.",
            )


def _same_ends(spec: ClusterSpec, numbers: Numbers) -> Iterator[Finding]:
    leaves = [name for name in numbers if tiers_of(spec).get(name) == LEAF]
    alike = {name for names in _by_number(leaves, numbers).values() if names[1:] for name in names}
    found: dict[int, dict[str, None]] = {}
    for link in list_links(spec):
        one, other = link.one.switch.name, link.other.switch.name
        if link.one.port.mode != "routed" or not {one, other} <= {*numbers}:
            continue
        # Leaves with one number get others, and so differ from what is above them.
        if numbers[one][1] == numbers[other][1] and not {one, other} & alike:
            found.setdefault(numbers[one][1], {}).update({one: None, other: None})
    for asn, names in found.items():
        yield Finding(
            f"{in_words([*names])} are joined by a routed link and have the same asn {asn}; the "
            "session is one between different numbers.",
            _places(names, numbers),
            "give the two sides of a routed link different numbers.",
        )


def _uneven_paths(spec: ClusterSpec, numbers: Numbers) -> Iterator[Finding]:
    """All that a leaf climbs over to one tier has one number."""
    seen: set[frozenset[str]] = set()
    for leaf in (name for name, tier in tiers_of(spec).items() if tier == LEAF):
        climbed, tier = above(spec, leaf), SPINE
        while climbed:
            found = _by_number(climbed, numbers)
            if len(found) > 1 and frozenset(climbed) not in seen:
                seen.add(frozenset(climbed))
                yield _uneven(leaf, tier, found, numbers)
            upper = (far for name in climbed for far in above(spec, name))
            climbed, tier = tuple(dict.fromkeys(upper)), tier + 1


def _uneven(leaf: str, tier: int, found: Mapping[int, list[str]], numbers: Numbers) -> Finding:
    firsts = {names[0]: asn for asn, names in found.items()}
    ways = [f"over {name} with asn {asn}" for name, asn in firsts.items()]
    return Finding(
        f"{leaf} reaches the fabric {in_words(ways)}: paths of different numbers are not used "
        "together.",
        _places(firsts, numbers),
        "give all super-spines the same asn."
        if tier > SPINE
        else "give all spines above a leaf the same asn.",
    )


def _same_units(spec: ClusterSpec, numbers: Numbers) -> Iterator[Finding]:
    """Switches above leaves that have no leaf in common: each needs the other's routes."""
    tiers, under = tiers_of(spec), leaves_below(spec)
    upper = [name for name in numbers if tiers.get(name, LEAF) > LEAF]
    for asn, names in _by_number(upper, numbers).items():
        first = names[0]
        apart = [
            name
            for name in names[1:]
            if not under[name] & under[first] and name in joined_by_routes(spec).get(first, ())
        ]
        if apart:
            yield Finding(
                f"{in_words([first, *apart])} have the same asn {asn} above different leaves, so "
                "that each would refuse the routes to the other's.",
                _places([first, *apart], numbers),
                "give the spines of each scalable unit a number of their own, for example 65001 "
                "and 65002.",
            )
