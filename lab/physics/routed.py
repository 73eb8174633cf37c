"""Where routed packets go: what a pod's routes say, what BGP has told the switches, which path.

Where the switches have FRR, its routes are followed (lab/routing). Elsewhere the lab computes them.
A route is then there only where a real one would be: a switch announces a network that its
configuration names and that an interface of its own is in; a session is up where both ends of a
link that is up name each other as neighbours, by their ports or by addresses in one network;
a switch takes no route that has passed its own number. Several next hops are used together where
their paths are of the same numbers (FRR's `maximum-paths` without `multipath-relax`), chosen by a
hash over the addresses, so that one connection takes one path; which hash the hardware has is a
guess.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from components.core.record import record
from lab.views import BgpView, PortView, RouterView, RouteView, SessionView

Hop = tuple[PortView, PortView]
"""A link between switches, in the direction that is asked for: the port it leaves, and enters."""
Routers = Mapping[str, RouterView]


def next_hop(address: str, prefix: int, routes: tuple[tuple[str, str], ...], to: str) -> str | None:
    """The router by which an interface sends to an address.

    Returns:
        Empty where the address is on the interface's own subnet, or no prefix is known; None where
        no route of this interface leads there.
    """
    if not prefix or not to:
        return ""
    target = IPv4Address(to)
    if target in IPv4Interface(f"{address}/{prefix}").network:
        return ""
    fitting = [(IPv4Network(net), gateway) for net, gateway in routes if target in IPv4Network(net)]
    return max(fitting, key=lambda route: route[0].prefixlen)[1] if fitting else None


def vlan_of(router: RouterView | None, address: str) -> int | None:
    """The VLAN in which a switch has an address; None: it has none of that."""
    for interface, own in router.addresses.items() if router else ():
        if interface.startswith("vlan") and any(each.split("/")[0] == address for each in own):
            return int(interface.removeprefix("vlan"))
    return None


def vlan_to(router: RouterView, address: str) -> int | None:
    """The VLAN whose subnet on a switch holds an address; None: it is not connected to it."""
    target = IPv4Address(address)
    for interface, own in router.addresses.items():
        if interface.startswith("vlan") and any(
            target in IPv4Interface(each).network for each in own
        ):
            return int(interface.removeprefix("vlan"))
    return None


@record
class _Route:
    """What one switch knows of the way to a network."""

    numbers: tuple[int, ...]
    """The autonomous systems on the way; empty on the switch that has the network."""
    hops: tuple[Hop, ...] = ()
    """The links that may be taken next."""


def find_hops(
    start: str, source: str, to: str, links: tuple[Hop, ...], routers: Routers
) -> tuple[Hop, ...] | None:
    """The links that a packet takes from a switch to the one that has its destination.

    Args:
        start: The switch that routes first.
        source: What the sender's packets have beside the receiver's address that the hash is over:
            its own address, and the UDP port of one of several connections.
        to: Address of the receiver.
        links: Every link between switches, once in each direction.
        routers: The switches that route.

    Returns:
        None where a switch on the way knows no route.
    """
    if all(router.routes is not None for router in routers.values()):
        return _follow(start, source, to, links, routers)
    table, here = _table(to, links, routers), start
    taken: list[Hop] = []
    while (route := table.get(here)) is not None:
        if not route.numbers:
            return tuple(taken)
        taken.append(_choose(route.hops, source, to, here))
        here = taken[-1][1].switch
    return None


def _choose(hops: tuple[Hop, ...], source: str, to: str, here: str) -> Hop:
    return hops[zlib.crc32(f"{source} {to} {here}".encode()) % len(hops)]


def _follow(
    start: str, source: str, to: str, links: tuple[Hop, ...], routers: Routers
) -> tuple[Hop, ...] | None:
    """The links by the routes that the switches' own daemons use."""
    leaving = {(hop[0].switch, hop[0].port): hop for hop in links}
    here, taken, seen = start, list[Hop](), set[str]()
    while here in routers and here not in seen:
        seen.add(here)
        route = _best(routers[here], to)
        if route is None or route.connected:
            return None if route is None else tuple(taken)
        ends = (leaving.get((here, port)) for port in sorted(route.interfaces))
        hops = tuple(hop for hop in ends if hop is not None)
        if not hops:
            return None
        taken.append(_choose(hops, source, to, here))
        here = taken[-1][1].switch
    return None


def _best(router: RouterView, to: str) -> RouteView | None:
    """The longest prefix that holds an address."""
    fitting = [r for r in router.routes or () if IPv4Address(to) in IPv4Network(r.network)]
    return max(fitting, key=lambda route: IPv4Network(route.network).prefixlen, default=None)


def _table(to: str, links: tuple[Hop, ...], routers: Routers) -> dict[str, _Route]:
    """Every switch that has a route to an address: the longest prefix that is told wins."""
    told = {
        IPv4Network(network)
        for router in routers.values()
        for network in router.networks
        if IPv4Address(to) in IPv4Network(network) and _has(router, IPv4Network(network))
    }
    connected = {
        name: _Route(()) for name, each in routers.items() if vlan_to(each, to) is not None
    }
    if not told:
        return connected
    best = max(told, key=lambda network: network.prefixlen)
    table = {
        name: _Route(())
        for name, router in routers.items()
        if str(best) in router.networks and _has(router, best)
    }
    reached = [*table]
    while reached:
        news = _heard(reached, links, routers, table)
        table |= news
        reached = [*news]
    return table | connected


def _heard(
    tellers: list[str], links: tuple[Hop, ...], routers: Routers, table: Mapping[str, _Route]
) -> dict[str, _Route]:
    """What the neighbours of the switches that heard last learn from them.

    A router in maintenance is taken only if no other one is as near; a longer way is not looked
    for.
    """
    offers: dict[str, dict[tuple[bool, tuple[int, ...]], list[Hop]]] = {}
    for hop in links:
        near, far = hop[0].switch, hop[1].switch
        if far not in tellers or near in table or not _session(hop, routers):
            continue
        numbers = (routers[far].asn or 0, *table[far].numbers)
        if routers[near].asn not in numbers:
            offer = (routers[far].drained, numbers)  # its local preference is 0 (RFC 8326)
            offers.setdefault(near, {}).setdefault(offer, []).append(hop)
    return {
        name: _Route(least[1], tuple(found[least][: routers[name].max_paths]))
        for name, found in offers.items()
        for least in [min(found)]
    }


def _has(router: RouterView, network: IPv4Network) -> bool:
    return any(
        IPv4Interface(each).network == network for own in router.addresses.values() for each in own
    )


def _session(hop: Hop, routers: Routers) -> bool:
    """Whether the two ends of a link are neighbours of each other; a port of a bridge is none."""
    if not all(port.oper_up and _is_routed(port) for port in hop):
        return False
    ends = [routers.get(port.switch) for port in hop]
    one, other = ends
    if one is None or other is None or one.asn is None or other.asn is None:
        return False
    near, far = hop
    return _takes(one, near, (other, far)) and _takes(other, far, (one, near))


def _is_routed(port: PortView) -> bool:
    return not port.allowed_vlans and not port.access_vlan


def _takes(router: RouterView, port: PortView, end: tuple[RouterView, PortView]) -> bool:
    """Whether it is to be a neighbour, by the port or by an address in a network of both."""
    other, far = end
    own = {IPv4Interface(each).network for each in router.addresses.get(port.port, ())}
    near = [IPv4Interface(each) for each in other.addresses.get(far.port, ())]
    by_port = (port.port,) if port.link_local else ()
    names = (*by_port, *(str(each.ip) for each in near if each.network in own))
    known = router.neighbors.keys() - router.barred
    wanted = [router.neighbors[name] for name in names if name in known]
    same = router.asn == other.asn
    return any(each in {"internal" if same else "external", str(other.asn)} for each in wanted)


def bgp_of(name: str, links: tuple[Hop, ...], routers: Routers) -> BgpView:
    """What the neighbours of a switch bring, and which of it the switch uses."""
    networks = {IPv4Network(each) for router in routers.values() for each in router.networks}
    tables = {str(each): _table(str(each[0]), links, routers) for each in sorted(networks)}
    known = {network: table[name].hops for network, table in tables.items() if name in table}
    routes = (
        RouteView(network, tuple(sorted(near.port for near, _ in hops)), connected=False)
        for network, hops in known.items()
        if hops
    )
    return BgpView(_sessions_of(name, links, routers, [*tables.values()]), tuple(routes))


def _sessions_of(
    name: str, links: tuple[Hop, ...], routers: Routers, tables: list[dict[str, _Route]]
) -> dict[str, SessionView]:
    """By port or address; only those with a session."""
    own = [hop for hop in links if hop[0].switch == name and _session(hop, routers)]
    found: dict[str, SessionView] = {}
    for near, far in own:
        teller, asn = routers[far.switch], routers[name].asn
        routes = [table[far.switch] for table in tables if far.switch in table]
        brought = sum(asn not in (teller.asn, *route.numbers) for route in routes)
        peer = _peer(routers[name], near, teller, far)
        watched = _peer(teller, far, routers[name], near) in teller.bfd
        bfd = watched if peer in routers[name].bfd else None
        found[peer] = SessionView(up=True, networks=brought, bfd=bfd)
    return found


def _peer(router: RouterView, near: PortView, other: RouterView, far: PortView) -> str:
    """How a switch calls its neighbour on a link: by the port, or by the other end's address."""
    ends = (str(IPv4Interface(each).ip) for each in other.addresses.get(far.port, ()))
    return next((name for name in ends if name in router.neighbors), near.port)
