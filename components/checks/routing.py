"""Rules on routed switches: numbers and addresses, without which BGP comes up and loses routes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from components.checks.rail_leaves import suggest_leaves
from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.fabric.links import (
    LinkEnd,
    bridging_switches_of_rails,
    list_links,
    switches_of_rails,
)
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.pod_network.kept import probe_address


def check_routing(spec: ClusterSpec) -> Iterator[Finding]:
    """A switch with routed links has `routing`, and numbers that let every path be used.

    Each leaf has a number of its own: BGP refuses a route that has passed the same number before.
    All spines above a leaf share one: several paths are used at once only if they come from the
    same neighbouring number. A router's identifier is unique. Both ends of a link have BFD or none.
    """
    numbered = {s.name: (index, s.routing) for index, s in enumerate(spec.switches) if s.routing}
    for index, switch in enumerate(spec.switches):
        routed = [name for name, port in switch.ports.items() if port.mode == "routed"]
        if routed and switch.routing is None:
            yield Finding(
                f"port {routed[0]} of {switch.name} is routed, and {switch.name} has no routing.",
                (at(("switches", index, "ports", routed[0], "mode"), "routed"),),
                "add routing: {asn: 65101, router_id: 10.255.0.1} with numbers of its own.",
            )
    first: dict[IPv4Address, str] = {}
    for name, (index, routing) in numbered.items():
        other = first.setdefault(routing.router_id, name)
        if other != name:
            yield Finding(
                f"{other} and {name} have the same router_id {routing.router_id}.",
                (at(("switches", index, "routing", "router_id"), routing.router_id),),
                "give each switch an address of its own.",
            )
        why = _why_no_identifier(spec, routing.router_id)
        if why is not None:
            yield Finding(
                f"the router_id of {name}, {routing.router_id}, {why}.",
                (at(("switches", index, "routing", "router_id"), routing.router_id),),
                "choose an address that nothing else has, for example 10.255.0.1.",
            )
    yield from _same_number(spec)
    yield from _uneven_paths(spec)
    yield from _one_sided(spec)


def _why_no_identifier(spec: ClusterSpec, address: IPv4Address) -> str | None:
    """It becomes an address of the loopback interface, which BGP tells to the whole fabric."""
    rail = next((rail for rail in spec.rails if address in rail.subnet), None)
    if rail is not None:
        return f"lies in the subnet of {rail.name}, {rail.subnet}"
    host = next((host for host in spec.reached if str(address) == host.way.address), None)
    return f"is the address of {host.name}" if host else None


def _asn(spec: ClusterSpec, name: str) -> tuple[int, int] | None:
    """Index and number of a switch."""
    for index, switch in enumerate(spec.switches):
        if switch.name == name and switch.routing:
            return index, switch.routing.asn
    return None


def _same_number(spec: ClusterSpec) -> Iterator[Finding]:
    leaves = {name for names in switches_of_rails(spec).values() for name in names}
    first: dict[int, str] = {}
    for index, switch in enumerate(spec.switches):
        if switch.routing is None or switch.name not in leaves:
            continue
        other = first.setdefault(switch.routing.asn, switch.name)
        if other != switch.name:
            yield Finding(
                f"the leaves {other} and {switch.name} have the same asn {switch.routing.asn}, and "
                "would refuse each other's routes.",
                (at(("switches", index, "routing", "asn"), switch.routing.asn),),
                "give each leaf a number of its own, for example 65101, 65102 and so on.",
            )
    for link in list_links(spec):
        one, other = (_asn(spec, end.switch.name) for end in (link.one, link.other))
        if link.one.port.mode == "routed" and one and other and one[1] == other[1]:
            yield Finding(
                f"{link.one.switch.name} and {link.other.switch.name} are joined by a routed link "
                f"and have the same asn {one[1]}; the session is one between different numbers.",
                tuple(at(("switches", i, "routing", "asn"), asn) for i, asn in (one, other)),
                "give the two sides of a routed link different numbers.",
            )


def _one_sided(spec: ClusterSpec) -> Iterator[Finding]:
    """BFD is a talk of two: what only one side has stays down, and notices nothing."""
    indexes = {switch.name: index for index, switch in enumerate(spec.switches)}
    seen: set[tuple[str, str]] = set()
    for link in list_links(spec):
        with_it, without = sorted((link.one.switch, link.other.switch), key=_has_no_bfd)
        pair = (with_it.name, without.name)
        if link.one.port.mode != "routed" or pair in seen or without.routing is None:
            continue
        if _has_no_bfd(without) and not _has_no_bfd(with_it):
            seen.add(pair)
            yield Finding(
                f"{with_it.name} has BFD on its links to {without.name}, which has none.",
                tuple(
                    at(("switches", indexes[each.name], "routing", "bfd"), not _has_no_bfd(each))
                    for each in (with_it, without)
                ),
                "write bfd: true on both switches, or on neither.",
            )


def _has_no_bfd(switch: Switch) -> bool:
    return switch.routing is None or not switch.routing.bfd


def _uneven_paths(spec: ClusterSpec) -> Iterator[Finding]:
    above: dict[str, dict[str, LinkEnd]] = {}
    leaves = {name for names in switches_of_rails(spec).values() for name in names}
    for link in list_links(spec):
        for end, far in ((link.one, link.other), (link.other, link.one)):
            if end.port.mode == "routed" and end.switch.name in leaves:
                above.setdefault(end.switch.name, {})[far.switch.name] = far
    seen: set[tuple[str, str]] = set()
    for leaf, spines in above.items():
        above_it = [name for name in spines if name not in leaves]
        known = [(name, found) for name in above_it if (found := _asn(spec, name)) is not None]
        for name, (index, asn) in known[1:]:
            base, (first_index, first_asn) = known[0]
            if asn == first_asn or (base, name) in seen:
                continue
            seen.add((base, name))
            yield Finding(
                f"{leaf} reaches the fabric over {base} with asn {first_asn} and over {name} with "
                f"asn {asn}: paths of different numbers are not used together.",
                (
                    at(("switches", first_index, "routing", "asn"), first_asn),
                    at(("switches", index, "routing", "asn"), asn),
                ),
                "give all spines the same asn.",
            )


def check_rail_gateway(spec: ClusterSpec) -> Iterator[Finding]:
    """A rail that is reached over the spines has a gateway: a free address of its subnet, once.

    The leaf that carries the rail has it. On two leaves it would be one address on two machines, so
    each of them has a subnet and a gateway of its own; on a leaf that is not routed no machine
    would have it.
    """
    holders = bridging_switches_of_rails(spec)
    switches = {switch.name: switch for switch in spec.switches}
    for r, rail in enumerate(spec.rails):
        routed = [name for name in holders[rail.name] if switches[name].routing is not None]
        where = (at(("rails", r, "gateway"), rail.gateway),)
        if rail.leaves:
            yield from _leaf_gateways(spec, r, rail)
        elif len(routed) > 1:
            held = f"has the gateway {rail.gateway}" if rail.gateway else "has no gateway"
            yield Finding(
                f"{rail.name} is on the routed leaves {' and '.join(routed)}, and {held}: each of "
                "them needs one of its own, in a subnet of its own.",
                where,
                f"{'replace gateway by' if rail.gateway else 'add'} "
                f"{suggest_leaves(rail, routed)}.",
            )
        elif rail.gateway is None:
            if routed:
                yield Finding(
                    f"{routed[0]} is routed, and {rail.name} on it has no gateway, so that nothing "
                    "leads to it.",
                    where,
                    f"set gateway to a free address of {rail.subnet}, for example "
                    f"{rail.subnet.network_address + 1}.",
                )
        elif why := _why_no_gateway(spec, rail, [switches[name] for name in holders[rail.name]]):
            yield Finding(
                f"the gateway of {rail.name}, {rail.gateway}, {why}.",
                where,
                "use the first address of the rail's subnet on one routed leaf, or remove gateway.",
            )


def _leaf_gateways(spec: ClusterSpec, r: int, rail: Rail) -> Iterator[Finding]:
    if rail.gateway is not None:
        yield Finding(
            f"{rail.name} has the gateway {rail.gateway}, and each of its {len(rail.leaves)} "
            "leaves has one of its own.",
            (at(("rails", r, "gateway"), rail.gateway),),
            "remove gateway.",
        )
    for leaf, part in rail.leaves.items():
        why = _why_no_address(spec, part.gateway, part.subnet)
        if why is not None:
            yield Finding(
                f"the gateway of {rail.name} on {leaf}, {part.gateway}, {why}.",
                (at(("rails", r, "leaves", leaf, "gateway"), part.gateway),),
                f"use a free address of {part.subnet}, for example "
                f"{part.subnet.network_address + 1}.",
            )


def _is_routed(switch: Switch) -> bool:
    return any(port.mode == "routed" for port in switch.ports.values())


def _why_no_gateway(spec: ClusterSpec, rail: Rail, holders: list[Switch]) -> str | None:
    if holders and not any(switch.routing or _is_routed(switch) for switch in holders):
        return "is on no routed switch"
    if len(holders) > 1:
        return f"would be on {' and '.join(switch.name for switch in holders)}"
    return _why_no_address(spec, rail.gateway, rail.subnet)


def _why_no_address(
    spec: ClusterSpec, address: IPv4Address | None, subnet: IPv4Network
) -> str | None:
    cards = {nic.nic.address: f"{nic.host.name} {nic.nic.netdev}" for nic in list_nics(spec)}
    if address not in subnet or address in {subnet.network_address, subnet.broadcast_address}:
        return f"is no address of a machine in {subnet}"
    if address == probe_address(subnet):
        return "is kept for the server of the bandwidth test, the last one of the subnet"
    if str(address) in cards:
        return f"is the address of {cards[str(address)]}"
    return None
