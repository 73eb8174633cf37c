"""BGP sessions against the routed links of the file: what to expect of each, what is lost. Pure.

A neighbour must bring every network to which it is on a shortest way: what it brings is counted.
Which next hops each network has is in `ways.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from components.core.beside import LostWay
from components.fabric.links import link_addresses, list_links, routed_neighbours
from components.fabric.parts import Session, Sessions
from components.fabric.routing_plan import plan_routing
from components.fabric.state import BgpState
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.once import once


class FarEnd(BaseModel):
    """The other end of one routed link."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    port: str
    """The switch's own port."""
    to: str
    """`spine-01:swp1`, as the file has it."""
    networks: int = 0
    """Networks that it brings at the least; 0: not known, as where two switches of one tier have
    numbers of their own, so that one way is used and not several."""


class RoutedLinks(BaseModel):
    """What one switch is to have by its routed links."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    os: str
    ends: dict[str, FarEnd]
    """Neighbour, as BGP names it, to the other end."""
    bfd: tuple[str, ...] = ()
    """Neighbours whose loss BFD notices."""
    ways: tuple[Way, ...] = ()
    """Ports by which its packets are to leave for the networks of other switches."""
    networks: Networks = Field(default={}, exclude=True)
    """Those networks by switch, filled in where they are judged: they are the same for all, so that
    a plan of many switches has them once."""


@once
def plan_links(spec: ClusterSpec) -> Mapping[str, RoutedLinks]:
    """Each switch with routed links to what it is to have by them."""
    known = {each.name: plan_routing(spec, each).get("bgp") for each in spec.switches}
    bgp = {name: each for name, each in known.items() if isinstance(each, BgpState)}
    ends: dict[str, dict[str, FarEnd]] = {}
    numbered, hops = link_addresses(spec), _first_hops(spec)
    for link in list_links(spec):
        for near, far in ((link.one, link.other), (link.other, link.one)):
            name = near.switch.name
            if near.port.mode != "routed" or name not in bgp:
                continue
            brings = sum(
                len(bgp[other].networks)
                for other, first in hops.get(name, {}).items()
                if far.switch.name in first and other in bgp
            )
            peer = str(numbered[near.key][1]) if near.key in numbered else near.name
            end = FarEnd(port=near.name, to=f"{far.switch.name}:{far.name}", networks=brings)
            ends.setdefault(name, {})[peer] = end
    return {
        each.name: RoutedLinks(
            os=each.os,
            ends=ends[each.name],
            bfd=bgp[each.name].bfd,
            ways=plan_ways(hops.get(each.name, {}), _ports_to(ends[each.name]), bgp),
        )
        for each in spec.switches
        if each.name in ends
    }


@once
def plan_networks(spec: ClusterSpec) -> Networks:
    """Each routed switch to the networks that it announces."""
    known = {each.name: plan_routing(spec, each).get("bgp") for each in spec.switches}
    return {name: each.networks for name, each in known.items() if isinstance(each, BgpState)}


def _ports_to(ends: Mapping[str, FarEnd]) -> dict[str, list[str]]:
    """Each neighbouring switch to the ports that lead to it."""
    found: dict[str, list[str]] = {}
    for end in ends.values():
        found.setdefault(end.to.partition(":")[0], []).append(end.port)
    return found


@once
def _first_hops(spec: ClusterSpec) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Switch to every other one, to the neighbours on all ways that BGP takes to it together.

    Ways are taken together only where they pass the same numbers (FRR without `multipath-relax`).
    """
    asns = {each.name: each.routing.asn for each in spec.switches if each.routing}
    near = routed_neighbours(spec)
    found: dict[str, dict[str, frozenset[str]]] = {}
    for target in near:
        for start, (first, paths) in _ways_to(target, near, asns).items():
            if first and len(paths) == 1:
                found.setdefault(start, {})[target] = first
    return found


def _ways_to(
    target: str, near: Mapping[str, tuple[str, ...]], asns: Mapping[str, int]
) -> dict[str, tuple[frozenset[str], frozenset[tuple[int, ...]]]]:
    """Every switch to the neighbours on shortest ways to one, and to the numbers on those ways."""
    found = {target: (frozenset[str](), frozenset({()}))}
    edge = [target]
    while edge:
        heard: dict[str, tuple[set[str], set[tuple[int, ...]]]] = {}
        for teller in edge:
            told = {(asns.get(teller, 0), *path) for path in found[teller][1]}
            for name in near.get(teller, ()):
                own = {path for path in told if asns.get(name) not in path}
                if name not in found and own:
                    first, paths = heard.setdefault(name, (set(), set()))
                    first.add(teller)
                    paths |= own
        found |= {name: (frozenset(a), frozenset(b)) for name, (a, b) in heard.items()}
        edge = [*heard]
    return found


def find_lost(
    links: RoutedLinks, seen: Sessions | None, applied: BgpState | None = None
) -> tuple[LostWay, ...]:
    """What a switch's routed links lack.

    Args:
        links: What they are to be.
        seen: What was read; None: it was not asked.
        applied: What was last applied, where that may be less: a neighbour that nothing has set
            yet has no session.
    """
    if seen is None:
        return ()
    form = system_of(links.os).routed
    if seen.unread:
        what = f"the state of its BGP sessions is not known: {seen.unread}"
        return (LostWay("switch", what, form.sessions, "unread"),)
    found = tuple(_lost(links, seen, applied))
    return (*found, *_narrow(links, seen, applied, {each.where for each in found}))


def _narrow(
    links: RoutedLinks, seen: Sessions, applied: BgpState | None, lost: set[str]
) -> Iterator[LostWay]:
    """Networks that have fewer next hops than links lead to; a link that is lost is named once."""
    form = system_of(links.os).routed
    if seen.routes_unread and links.networks:
        what = f"which next hops are in use is not known: {seen.routes_unread}"
        yield LostWay("switch", what, form.routes, "unsaid")
    if seen.routes is None:
        return
    ends = {
        end.port: end.to
        for name, end in links.ends.items()
        if f"port {end.port}" not in lost and (applied is None or name in applied.neighbors)
    }
    yield from find_narrow(links.ways, links.networks, seen.routes, ends, form.route)


def _lost(links: RoutedLinks, seen: Sessions, applied: BgpState | None) -> Iterator[LostWay]:
    form = system_of(links.os).routed
    for name, end in links.ends.items():
        if applied is not None and name not in applied.neighbors:
            continue
        watched = name in links.bfd and (applied is None or name in applied.bfd)
        what = _fault(end, seen.neighbors.get(name), watched=watched)
        if what:
            fix = form.bfd_sessions if "BFD" in what else form.session.format(name)
            yield LostWay(f"port {end.port}", what, fix)
    if seen.bfd_unread and links.bfd:
        what = f"whether BFD is up is not known: {seen.bfd_unread}"
        yield LostWay("switch", what, form.bfd_sessions, "unsaid")


def _fault(end: FarEnd, session: Session | None, *, watched: bool) -> str:
    """What is wrong with one session; blank: nothing that is known."""
    if session is None:
        return f"there is no BGP session with {end.to}: it was never heard on this link"
    if not session.is_up:
        return f"BGP with {end.to} is {session.state}, not Established"
    if watched and session.bfd is not None and session.bfd != "up":
        return f"BFD with {end.to} is {session.bfd}: a loss there is noticed by BGP's hold time"
    if session.networks is not None and session.networks < end.networks:
        return (
            f"{end.to} brings {session.networks} of {end.networks} networks: a link behind it is"
            " lost, and traffic to the others takes fewer ways"
        )
    return ""


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
