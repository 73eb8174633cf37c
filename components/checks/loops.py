"""The rule that no frame goes in circles: over trunks, bundles, and the links of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from components.checks.links import list_pairs
from components.checks.rule import Finding, Findings, at
from components.checks.topology import PlacedPort
from components.core.problem import Place
from components.fabric.systems import driver_of, system_of
from components.model.cluster import ClusterSpec

End = tuple[str, str]
"""A switch, or a pair, and its port or bundle."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """One way of a frame between two switches."""

    ends: tuple[End, End]
    what: str
    places: tuple[Place, ...]
    fix: str
    is_bundle: bool = False

    @property
    def joined(self) -> frozenset[str]:
        """The two switches or pairs."""
        return frozenset(name for name, _ in self.ends)


def check_link_loop(spec: ClusterSpec) -> Findings:
    """The trunks and bundles between switches form no loop.

    Spanning tree would block one link of each loop: its bandwidth is lost, and which one it is
    changes with the root. Several paths at once are what routed links are for, and the ports of one
    bundle. A bundle that both switches of a pair number alike is one link of the two.
    """
    one_of = _pairs_as_one(spec)
    group = {name: name for name in one_of.values()}
    bundled: dict[frozenset[str], str] = {}

    def root(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    for edge in (*_trunks(spec, one_of), *_bundles(spec, one_of)):
        first, second = (root(name) for name, _ in edge.ends)
        other = bundled.setdefault(edge.joined, edge.what) if edge.is_bundle else edge.what
        if first != second:
            group[second] = first
            continue
        beside = other != edge.what
        yield Finding(
            f"{edge.what} closes a loop, and spanning tree would block a link of it.",
            edge.places,
            "put all ports between the two into one bundle." if beside else edge.fix,
        )


def _pairs_as_one(spec: ClusterSpec) -> Mapping[str, str]:
    """Switch to itself; to the first one of its pair where it is half of one."""
    halves = {switch.name: switch.mlag.peer for switch in spec.switches if switch.mlag}
    return {
        switch.name: min(switch.name, halves[switch.name])
        if halves.get(halves.get(switch.name, "")) == switch.name
        else switch.name
        for switch in spec.switches
    }


def _trunks(spec: ClusterSpec, one_of: Mapping[str, str]) -> Iterator[_Edge]:
    for one, other in list_pairs(spec):
        if "routed" in {one.port.mode, other.port.mode}:
            continue
        title = driver_of((other if _can_route(one) else one).switch.os).title
        fix = f"remove one link of the loop: {title} is not routed."
        if _can_route(one) and _can_route(other):
            fix = (
                "remove one link of the loop, or make the links routed: mode: routed at both ends."
            )
        yield _Edge(
            ((one_of[one.switch.name], one.name), (one_of[other.switch.name], other.name)),
            f"the trunk from {one.switch.name} {one.name} to {other.switch.name} {other.name}",
            (one.place, other.place),
            fix,
        )


def _bundles(spec: ClusterSpec, one_of: Mapping[str, str]) -> Iterator[_Edge]:
    """Each bundle to another switch once, whichever ends of it the file has."""
    numbers = {
        (switch.name, name): f"mlag {bond.mlag}"
        for switch in spec.switches
        for name, bond in switch.bonds.items()
        if bond.mlag and one_of[switch.name] == one_of.get(switch.mlag.peer if switch.mlag else "")
    }
    seen: set[frozenset[End]] = set()
    for s, switch in enumerate(spec.switches):
        for name, bond in switch.bonds.items():
            far, colon, port = bond.to.partition(":")
            if not colon:
                continue
            here, there = (switch.name, name), (far, port)
            mine, other = (
                (one_of.get(end[0], end[0]), numbers.get(end, end[1])) for end in (here, there)
            )
            if frozenset({mine, other}) in seen:
                continue
            seen.add(frozenset({mine, other}))
            yield _Edge(
                (mine, other),
                f"the bundle {name} from {switch.name} to {far}",
                (at(("switches", s, "bonds", name, "to"), bond.to),),
                "remove one link of the loop.",
                is_bundle=True,
            )


def _can_route(port: PlacedPort) -> bool:
    return not isinstance(system_of(port.switch.os).routing, str)
