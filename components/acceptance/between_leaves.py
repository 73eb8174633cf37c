"""The ports that a packet may take between two routed leaves, and how many flows use them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.acceptance.evidence import HopRole
from components.fabric.links import list_links, routed_neighbours
from components.model.cluster import ClusterSpec
from components.model.once import once

Way = list[tuple[HopRole, str, str]]
"""Role, switch and port of each place."""


@once
def _routed_ports(spec: ClusterSpec) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Two switches that routed links join, to the ports of each link, from the first one's side."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for link in list_links(spec):
        if link.one.port.mode == "routed":
            for end, far in ((link.one, link.other), (link.other, link.one)):
                found.setdefault((end.switch.name, far.switch.name), []).append(
                    (end.name, far.name)
                )
    return {pair: tuple(ports) for pair, ports in found.items()}


def ports_between(spec: ClusterSpec, leaf: str, other: str) -> Way:
    """Give a leaf's uplinks, the spine ports on the way, and the other leaf's uplinks.

    If a link joins the two leaves, only that link counts: the way over a spine is longer. If they
    share no spine, the way goes over super-spines, which count as spines. Without routed links
    between the leaves the list is empty.
    """
    distances = _distances(spec, other)
    way: dict[tuple[HopRole, str, str], None] = {}
    waiting, seen = [leaf] if leaf in distances else [], set[str]()
    while waiting:
        near = waiting.pop()
        onward = routed_neighbours(spec).get(near, ())
        nearer = [far for far in onward if distances[far] == distances[near] - 1]
        for far in nearer if near not in seen else ():
            for here, there in _routed_ports(spec)[near, far]:
                way["uplink_egress" if near == leaf else "spine_egress", near, here] = None
                way["downlink_ingress" if far == other else "spine_ingress", far, there] = None
        waiting += [far for far in reversed(nearer) if near not in seen]
        seen.add(near)
    return [*way]


def _distances(spec: ClusterSpec, to: str) -> dict[str, int]:
    """Count the routed links from each switch to `to`."""
    found = {to: 0}
    waiting = [to]
    for name in waiting:
        for far in routed_neighbours(spec).get(name, ()):
            if far not in found:
                found[far] = found[name] + 1
                waiting.append(far)
    return found


FLOWS: Final = (16, 32, 64, 128)
"""Connections that a test may have: for 2, 4, 8 and 16 links. With more, a test of five seconds
would mostly set up connections."""
_RARE: Final = 0.01
"""Accepted chance that some link gets no connection although the hash is fair."""


def is_telling(flows: int, links: int) -> bool:
    """Whether so many connections prove a fault if one link carries none."""
    return links > 1 and links * (1 - 1 / links) ** flows < _RARE


def flows_for(links: int) -> int:
    """The least number that proves a fault; 1 if the leaf has one link, or too many."""
    return next((flows for flows in FLOWS if is_telling(flows, links)), 1)
