"""The links between switches, from both ends of the file: pure, and the same for plan and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch, SwitchPort


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One port of a switch that the file says leads to another switch."""

    switch: Switch
    name: str
    port: SwitchPort

    @property
    def key(self) -> tuple[str, str]:
        """Switch and port, by which the other end names it."""
        return self.switch.name, self.name


@dataclass(frozen=True, slots=True)
class Link:
    """Two ends that name each other, in the order of the file."""

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


def list_links(spec: ClusterSpec) -> Iterator[Link]:
    """Every pair of ends that name each other, once."""
    ends = {end.key: end for end in list_ends(spec)}
    for number, end in enumerate(ends.values()):
        other = ends.get(end.port.peer or ("", ""))
        if other is not None and other.port.peer == end.key and other is not end:
            earlier = [*ends].index(other.key) < number
            if not earlier:
                yield Link(end, other)


def rails_on_link(spec: ClusterSpec, port: SwitchPort) -> tuple[Rail, ...]:
    """The rails whose VLANs a trunk between switches carries, in the order of the file."""
    if port.mode == "routed":
        return ()
    return tuple(rail for rail in spec.rails if port.rails is None or rail.name in port.rails)


def switches_of_rails(spec: ClusterSpec) -> Mapping[str, tuple[str, ...]]:
    """Rail to the switches that have a host of it, in the order of the file."""
    found: dict[str, dict[str, None]] = {rail.name: {} for rail in spec.rails}
    for switch in spec.switches:
        for port in switch.ports.values():
            rail = port.to.partition("/")[2]
            if port.peer is None and rail in found:
                found[rail][switch.name] = None
    return {rail: tuple(names) for rail, names in found.items()}


def reachable(spec: ClusterSpec, rail: str, start: str) -> frozenset[str]:
    """The switches that the VLAN of a rail gets to over trunks between switches."""
    neighbours: dict[str, set[str]] = {}
    for link in list_links(spec):
        ends = (link.one, link.other)
        carried = [{each.name for each in rails_on_link(spec, end.port)} for end in ends]
        if all(rail in names for names in carried):
            one, other = (end.switch.name for end in ends)
            neighbours.setdefault(one, set()).add(other)
            neighbours.setdefault(other, set()).add(one)
    seen, waiting = {start}, [start]
    while waiting:
        new = neighbours.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += sorted(new)
    return frozenset(seen)
