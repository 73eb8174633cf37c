"""Rules on the addresses of numbered links between switches."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from components.checks.rule import Finding, at
from components.checks.topology import PlacedPort, list_all_ports
from components.core.problem import Place
from components.fabric.links import Link, LinkEnd, list_links
from components.model.cluster import ClusterSpec
from components.model.rail_subnets import link_of


def check_link_address(spec: ClusterSpec) -> Iterator[Finding]:
    """A link with an address is routed, and its /31 is in no other network.

    Each end has one address of the pair: 10.254.0.0 leaves 10.254.0.1 to the other. Two links with
    one network, or a network within a rail's subnet, send packets to the wrong switch. A host's end
    follows the card's own `address`.
    """
    for port in list_all_ports(spec):
        if port.port.address is not None and (port.port.peer is None or _is_bridged(port)):
            yield _misplaced(port)
    where = {(port.switch.name, port.name): port for port in list_all_ports(spec)}
    taken: dict[IPv4Network, tuple[LinkEnd, Place]] = {}
    for link in list_links(spec):
        ends = [end for end in (link.one, link.other) if end.port.address is not None]
        if not ends or {link.one.port.mode, link.other.port.mode} != {"routed"}:
            continue
        places = [at((*where[end.key].path, "address"), end.port.address) for end in ends]
        network, far = link_of(ends[0].port.address or IPv4Address(0))
        if len(ends) > 1 and ends[1].port.address != far:
            yield _no_pair(link, places, far)
            continue
        other = taken.setdefault(network, (ends[0], places[0]))
        if other[1] is not places[0]:
            yield Finding(
                f"the link from {link.one.switch.name} {link.one.name} has the network {network}, "
                f"which {other[0].switch.name} {other[0].name} has too.",
                (places[0], other[1]),
                "give each link a /31 of its own, every second address: 10.254.0.0, 10.254.0.2 "
                "and so on.",
            )
            continue
        why = _why_taken(spec, network)
        if why is not None:
            yield Finding(
                f"the link from {link.one.switch.name} {link.one.name} has the network {network}, "
                f"which {why}.",
                (places[0],),
                "choose addresses that nothing else has, for example of 10.254.0.0/16.",
            )


def _no_pair(link: Link, places: list[Place], far: IPv4Address) -> Finding:
    one, other = link.one, link.other
    return Finding(
        f"the link from {one.switch.name} {one.name} to {other.switch.name} {other.name} has "
        f"{one.port.address} at one end and {other.port.address} at the other, which are not the "
        "two of one /31.",
        tuple(places),
        f"remove the second address: the end follows from the first, and is {far}.",
    )


def _is_bridged(port: PlacedPort) -> bool:
    return port.port.mode != "routed"


def _misplaced(port: PlacedPort) -> Finding:
    named = f"port {port.name} of {port.switch.name}"
    what, fix = "leads to a host", "remove address: the port follows the address of the card."
    if port.port.peer is not None:
        what, fix = "is a trunk", "set mode: routed at both ends, or remove address."
    return Finding(
        f"{named} {what}, and an address is one of a routed link.",
        (at((*port.path, "address"), port.port.address),),
        fix,
    )


def _why_taken(spec: ClusterSpec, network: IPv4Network) -> str | None:
    rail = next((rail for rail in spec.rails if network.overlaps(rail.subnet)), None)
    if rail is not None:
        return f"lies in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    logins |= {switch.ssh.address: switch.name for switch in spec.switches}
    named = next((logins[str(each)] for each in network if str(each) in logins), None)
    return f"has the address of {named}" if named else None
