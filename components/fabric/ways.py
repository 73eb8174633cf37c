"""Next hops of each network against the links of the file: what to expect, what is not used. Pure.

A session that is up may bring a network that is not used over it: a route map takes it away, or the
switch uses fewer equal paths than it has links. Traffic arrives all the same, over fewer spines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from components.core.beside import LostWay
from components.fabric.state import BgpState

MOST_PATHS: Final = 64
"""Equal paths that FRR and EOS use at most as they are configured; with more links than that, which
of them are used is not known."""
Networks = Mapping[str, tuple[str, ...]]
"""Switch to the networks that it announces."""


class Way(BaseModel):
    """Where packets to some switches are to leave."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    to: tuple[str, ...]
    """Switches that announce networks."""
    ports: tuple[str, ...]
    """The ports of all next hops."""


def plan_ways(
    hops: Mapping[str, frozenset[str]],
    ports: Mapping[str, Sequence[str]],
    announced: Mapping[str, BgpState],
) -> tuple[Way, ...]:
    """The ways of one switch, those to many switches by the same ports as one.

    Args:
        hops: Other switch to the neighbours on all ways that BGP takes to it together.
        ports: Neighbour to the ports that lead to it.
        announced: What each switch of BGP announces.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for other, first in hops.items():
        own = tuple(port for name in sorted(first) for port in ports.get(name, ()))
        if other in announced and 0 < len(own) <= MOST_PATHS:
            found.setdefault(own, []).append(other)
    return tuple(Way(to=tuple(to), ports=own) for own, to in found.items())


def find_narrow(
    ways: Sequence[Way],
    networks: Networks,
    routes: Networks,
    ends: Mapping[str, str],
    fix: str,
) -> Iterator[LostWay]:
    """The links that are no next hop of a network that they lead to.

    Args:
        ways: What is to be.
        networks: Switch to its networks; one that is not in it is not judged.
        routes: Network to the ports in use.
        ends: Port to the other end of its link, of the links to judge.
        fix: What to ask next of one network.
    """
    lacking: dict[str, list[tuple[str, Way]]] = {}
    for way in ways:
        for network in (each for name in way.to for each in networks.get(name, ())):
            for port in {*way.ports}.difference(routes.get(network, ())) & ends.keys():
                lacking.setdefault(port, []).append((network, way))
    for port, end in ends.items():
        if port in lacking:
            network, way = lacking[port][0]
            used = len({*way.ports}.intersection(routes.get(network, ())))
            more = len(lacking[port]) - 1
            some = f"{network} and {more} more networks" if more else network
            what = (
                f"{end} is no next hop to {some}, which goes over {used} of {len(way.ports)} links"
                if used
                else f"there is no route to {some}, over {end} or another link"
            )
            yield LostWay(f"port {port}", what, fix.format(network))


def applied_networks(planned: Mapping[str, BgpState], applied: Mapping[str, BgpState]) -> Networks:
    """The networks that each switch is to announce and has been given already."""
    return {
        name: tuple(each for each in bgp.networks if each in applied[name].networks)
        for name, bgp in planned.items()
        if name in applied
    }
