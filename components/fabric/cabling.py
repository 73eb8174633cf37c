"""Compare the cables and routed links of the file with what LLDP and BGP say. Pure.

Silence of LLDP is not a finding: it may be off at either end, and many cards send none. A BGP
neighbour must announce every network to which it is on a shortest path: they are counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pydantic import Field

from components.core.difference import RoutingFault
from components.core.plain_text import one_line
from components.core.templates import fault_text
from components.fabric.links import link_addresses, list_links, routed_neighbours
from components.fabric.network_plan import plan_routing
from components.fabric.parts import Frozen, Session, Sessions
from components.fabric.state import BgpState, Neighbour
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.once import once

_MAC: Final = re.compile(r"(?:[0-9a-f]{2}[:.-]?){5}[0-9a-f]{2}", re.IGNORECASE)
_LEAST: Final = 2
"""Least number of wrong cables that hints at another switch: a single one is a misplugged port."""
_PORT_PREFIX: Final = re.compile(r"^(?:Ethernet|Eth)(?=\d+/)", re.IGNORECASE)
"""Onyx calls its port 1/31 `Eth1/31` to others (a public client's fixture)."""
MOST_PATHS: Final = 64
"""FRR and EOS, as configured, use at most this many equal paths; of more it is not known which."""
Networks = Mapping[str, tuple[str, ...]]
"""Switch to the networks that it announces."""


class CableEnd(Frozen):
    """The far end of a port's cable, from the file."""

    text: str
    """As the file has it: `gpu01/rail-0`, `leaf-02:1/31`."""
    system: str
    ports: tuple[str, ...] = ()
    """Names of its port: a network device, or the port of a switch."""


def plan_cables(spec: ClusterSpec, switch: Switch) -> dict[str, CableEnd]:
    """The cables of one switch, by port."""
    found: dict[str, CableEnd] = {}
    for name, port in switch.ports.items():
        system, _, rail = port.to.partition("/")
        host = spec.host(system)
        ports = tuple(nic.netdev for nic in host.nics if nic.rail == rail) if host else ()
        if port.peer is not None:
            system, ports = port.peer[0], port.peer[1:]
        found[name] = CableEnd(text=port.to, system=system, ports=ports)
    return found


def find_wrong_cables(
    cables: Mapping[str, CableEnd], neighbours: Mapping[str, Neighbour] | None
) -> tuple[str, ...]:
    """Describe each port whose neighbour is another device than in the file."""
    found: list[str] = []
    for port, cable in cables.items():
        seen = (neighbours or {}).get(port)
        if seen is None or not seen.system:
            continue
        # lldpd on Linux has the port's name in the description, and a MAC address as port.
        names = [*filter(_plain_port, (seen.port.strip(), seen.description.strip()))]
        # A host that tells a MAC address alone has said which machine it is, and no more.
        ends = {*map(_plain_port, names)} & {*map(_plain_port, cable.ports)}
        is_there = not names or not cable.ports or bool(ends)
        if _short(seen.system) != _short(cable.system) or not is_there:
            there = one_line(f"{_short(seen.system)} {' '.join(names[:1])}".strip())
            found.append(f"port {port}: {there} is plugged in, the file says {cable.text}")
    return tuple(found)


def contradictions(
    cables: Mapping[str, CableEnd], neighbours: Mapping[str, Neighbour] | None
) -> tuple[str, ...]:
    """The wrong cables if they are two or more, and over half of the heard ones: another switch."""
    wrong = find_wrong_cables(cables, neighbours)
    heard = [port for port, seen in (neighbours or {}).items() if port in cables and seen.system]
    return wrong if len(wrong) >= _LEAST and 2 * len(wrong) > len(heard) else ()


def _short(system: str) -> str:
    return system.partition(".")[0].lower()


def _plain_port(text: str) -> str:
    """A port's name without what systems put before it; blank for a MAC address or a sentence."""
    name = text.strip()
    return "" if _MAC.fullmatch(name) or " " in name else _PORT_PREFIX.sub("", name)


class FarEnd(Frozen):
    """The other end of one routed link."""

    port: str
    to: str
    """`spine-01:swp1`, as the file has it."""
    networks: int = 0
    """The least number of networks that it announces. 0: not known, for example if two switches of
    one tier have different AS numbers, since BGP then uses one path, not several."""


class Way(Frozen):
    """How packets to some switches leave."""

    to: tuple[str, ...]
    """Switches that announce networks."""
    ports: tuple[str, ...]
    """The ports of all next hops."""


class RoutedLinks(Frozen):
    """The BGP sessions and routes that one switch should have over its routed links."""

    os: str
    ends: dict[str, FarEnd]
    """Neighbour, as BGP names it, to the other end."""
    bfd: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    """The ports through which its packets should leave for the networks of other switches."""
    networks: Networks = Field(default={}, exclude=True)
    """Those networks by switch. The judge fills them in, because all switches share them and a plan
    of many switches then holds them once."""


@once
def plan_links(spec: ClusterSpec) -> Mapping[str, RoutedLinks]:
    """Each switch with routed links to the sessions and routes it should have over them."""
    bgp, numbered, near_of = planned_bgp(spec), link_addresses(spec), routed_neighbours(spec)
    asns = {each.name: each.routing.asn for each in spec.switches if each.routing}
    # Switch to every other one, to the neighbours on all ways that BGP takes to it together: only
    # ways that pass the same AS numbers (FRR without `multipath-relax`).
    hops: dict[str, dict[str, frozenset[str]]] = {}
    for target in near_of:
        for start, (first, paths) in _ways_to(target, near_of, asns).items():
            if first and len(paths) == 1:
                hops.setdefault(start, {})[target] = first
    ends: dict[str, dict[str, FarEnd]] = {}
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
            ways=_plan_ways(hops.get(each.name, {}), ends[each.name], bgp),
        )
        for each in spec.switches
        if each.name in ends
    }


@once
def planned_bgp(spec: ClusterSpec) -> Mapping[str, BgpState]:
    """Each routed switch to the BGP that the file wants."""
    known = {each.name: plan_routing(spec, each).get("bgp") for each in spec.switches}
    return {name: each for name, each in known.items() if isinstance(each, BgpState)}


def _ways_to(
    target: str, near: Mapping[str, tuple[str, ...]], asns: Mapping[str, int]
) -> dict[str, tuple[frozenset[str], frozenset[tuple[int, ...]]]]:
    """Every switch to its neighbours on the shortest ways to one, and to their AS numbers."""
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


def find_routing_faults(
    links: RoutedLinks, seen: Sessions | None, applied: BgpState | None = None
) -> tuple[RoutingFault, ...]:
    """The faults of a switch's routed links; one outside `applied` cannot lose a session yet."""
    if seen is None:
        return ()
    form = system_of(links.os).routed
    if seen.unread:
        what = f"the state of its BGP sessions is not known: {seen.unread}"
        return (RoutingFault("switch", what, form.sessions, "unread"),)
    known = links.ends.keys() if applied is None else applied.neighbors.keys()
    ends = {name: end for name, end in links.ends.items() if name in known}
    found: list[RoutingFault] = []
    for name, end in ends.items():
        watched = name in links.bfd and (applied is None or name in applied.bfd)
        if what := _fault(end, seen.neighbors.get(name), watched=watched):
            fix = form.bfd_sessions if "BFD" in what else form.session.format(name)
            found.append(RoutingFault(f"port {end.port}", what, fix))
    if seen.bfd_unread and links.bfd:
        what = f"whether BFD is up is not known: {seen.bfd_unread}"
        found.append(RoutingFault("switch", what, form.bfd_sessions, "unsaid"))
    if seen.routes_unread and links.networks:
        what = f"which next hops are in use is not known: {seen.routes_unread}"
        found.append(RoutingFault("switch", what, form.routes, "unsaid"))
    lost = {each.where for each in found}
    whole = {end.port: end.to for end in ends.values() if f"port {end.port}" not in lost}
    return (*found, *(() if seen.routes is None else _narrow(links, seen.routes, whole)))


def _fault(end: FarEnd, session: Session | None, *, watched: bool) -> str:
    if session is None:
        return f"no BGP session with {end.to}: the switch never heard it on this link"
    if not session.is_up:
        return f"BGP with {end.to} is {session.state}, not Established"
    if watched and session.bfd is not None and session.bfd != "up":
        return f"BFD with {end.to} is {session.bfd}: a loss there is noticed by BGP's hold time"
    if session.networks is not None and session.networks < end.networks:
        return fault_text(__file__, "few-networks", end=end, session=session)
    return ""


def _plan_ways(
    hops: Mapping[str, frozenset[str]], ends: Mapping[str, FarEnd], announced: Collection[str]
) -> tuple[Way, ...]:
    """The ways of one switch; those through the same ports are one way to many switches."""
    ports: dict[str, list[str]] = {}
    for end in ends.values():
        ports.setdefault(end.to.partition(":")[0], []).append(end.port)
    found: dict[tuple[str, ...], list[str]] = {}
    for other, first in hops.items():
        own = tuple(port for name in sorted(first) for port in ports.get(name, ()))
        if other in announced and 0 < len(own) <= MOST_PATHS:
            found.setdefault(own, []).append(other)
    return tuple(Way(to=tuple(to), ports=own) for own, to in found.items())


def _narrow(
    links: RoutedLinks, routes: Networks, ends: Mapping[str, str]
) -> Iterator[RoutingFault]:
    """Find links in `ends`, none of them lost, that lead to a network but are not its next hop."""
    lacking: dict[str, list[tuple[str, Way]]] = {}
    for way in links.ways:
        for network in (each for name in way.to for each in links.networks.get(name, ())):
            for port in {*way.ports}.difference(routes.get(network, ())) & ends.keys():
                lacking.setdefault(port, []).append((network, way))
    fix = system_of(links.os).routed.route
    for port, end in ends.items():
        if port in lacking:
            network, way = lacking[port][0]
            used = len({*way.ports}.intersection(routes.get(network, ())))
            more = len(lacking[port]) - 1
            some = f"{network} and {more} more networks" if more else network
            words = {"end": end, "some": some, "used": used, "count": len(way.ports)}
            what = fault_text(__file__, "no-hop" if used else "no-route", **words)
            yield RoutingFault(f"port {port}", what, fix.format(network))
