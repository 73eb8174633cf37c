"""Rules on routed switches: numbers and addresses, without which BGP comes up and loses routes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from components.checks.as_numbers import find_wrong_numbers
from components.checks.rail_leaves import suggest_leaves
from components.checks.rule import Finding, at
from components.checks.topology import list_nics
from components.fabric.links import bridging_switches_of_rails, link_addresses, list_links
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.pod_network.leaf_pools import probe_address


def check_routing(spec: ClusterSpec) -> Iterator[Finding]:
    """A switch with routed links has `routing`, and numbers that let every path be used.

    Each leaf has a number of its own: BGP refuses a route that has passed the same number before.
    All spines above a leaf share one, and so do all super-spines above them: several paths are used
    at once only if they have passed the same numbers. The spines of two scalable units, which
    super-spines join, have different ones. A router's identifier is unique, and is in no network of
    others. Both ends of a link have BFD or none.
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
        why = _why_no_identifier(spec, name, routing.router_id)
        if why is not None:
            yield Finding(
                f"the router_id of {name}, {routing.router_id}, {why}.",
                (at(("switches", index, "routing", "router_id"), routing.router_id),),
                "choose an address that nothing else has, for example 10.255.0.1.",
            )
    yield from find_wrong_numbers(spec)
    yield from _one_sided(spec)


def _why_no_identifier(spec: ClusterSpec, name: str, address: IPv4Address) -> str | None:
    """It becomes an address of the loopback interface, which BGP tells to the whole fabric."""
    rail = next((rail for rail in spec.rails if address in rail.subnet), None)
    if rail is not None:
        return f"lies in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    # Its own address is what `management-port` tells of.
    logins |= {each.ssh.address: each.name for each in spec.switches if each.name != name}
    if str(address) in logins:
        return f"is the address of {logins[str(address)]}"
    ends = link_addresses(spec).items()
    link = next((key for key, (own, _) in ends if own == address), None)
    return f"is the address of {link[0]} on its link {link[1]}" if link else None


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
