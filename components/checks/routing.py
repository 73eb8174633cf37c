"""Rules on routed switches: AS numbers and addresses, without which BGP loses routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network

from components.checks.rail_leaves import in_words, is_able_to_route, is_routed, suggest_leaves
from components.checks.rows import also, unique
from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import list_nics
from components.core.judge import needs
from components.core.problem import Place
from components.fabric.links import (
    LEAF,
    SPINE,
    above,
    bridging_switches_of_rails,
    joined_by_routes,
    leaves_below,
    link_addresses,
    list_links,
    tiers_of,
)
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import Caution
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.pod_network.rails import pools_of


def _cautions(spec: ClusterSpec) -> Findings:
    """Warn of unexpected behaviour of a system that no rule can refuse."""
    addressed = link_addresses(spec)
    bare = {
        side.switch.name
        for link in list_links(spec)
        for side in (link.one, link.other)
        if side.port.mode == "routed" and (side.switch.name, side.name) not in addressed
    }
    found: dict[Caution, dict[str, int]] = {}
    for index, switch in enumerate(spec.switches):
        system = system_of(switch.os)
        for each in system.routed.cautions if switch.routing else ():
            is_over = each.until and system.parse_release(switch.release) >= each.until
            if not is_over and (switch.name in bare or not each.unnumbered):
                found.setdefault(each, {})[switch.name] = index
    for each, names in found.items():
        keys = (f"switches.{index}.release" for index in names.values())
        what = f"{in_words([*names])}: {each.text}."
        yield Finding(what, places(spec, *keys), each.fix, "warning")


def _why_no_identifier(spec: ClusterSpec, name: str, address: IPv4Address) -> str | None:
    """Explain why an identifier is invalid: it becomes a loopback address that BGP announces."""
    rail = next((rail for rail in spec.rails if address in rail.subnet), None)
    if rail is not None:
        return f"is in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    # `management-port` reports its own address.
    logins |= {each.ssh.address: each.name for each in spec.switches if each.name != name}
    if str(address) in logins:
        return f"is the address of {logins[str(address)]}"
    ends = link_addresses(spec).items()
    link = next((key for key, (own, _) in ends if own == address), None)
    return f"is the address of {link[0]} on its link {link[1]}" if link else None


@needs("switches")
@also(unique("switches.*.routing.router_id", "give each switch a different address."))
def check_routing(spec: ClusterSpec) -> Findings:
    """A switch with routed links has `routing`, with AS numbers that allow every path.

    Each leaf needs a different number: BGP refuses a route that has passed the same number before.
    All spines above a leaf share one, and so do all super-spines above them: BGP uses several paths
    at once only if they passed the same numbers. The spines of two scalable units need different
    ones. A router's identifier is unique, and outside of other networks. Both ends of a link use
    BFD, or neither. A warning names unproven parts of a system's BGP.
    """
    for s, switch in enumerate(spec.switches):
        routed = [name for name, port in switch.ports.items() if port.mode == "routed"]
        if routed and switch.routing is None and is_able_to_route(switch):
            what = f"port {routed[0]} of {switch.name} is routed, but {switch.name} lacks routing."
            where = (at(("switches", s, "ports", routed[0], "mode"), "routed"),)
            fix = "add routing: {asn: 65101, router_id: 10.255.0.1}, different on each switch."
            yield Finding(what, where, fix)
        own = switch.routing.router_id if switch.routing else None
        if own is not None and (why := _why_no_identifier(spec, switch.name, own)):
            where = places(spec, f"switches.{s}.routing.router_id")
            fix = "choose an unused address, for example 10.255.0.1."
            yield Finding(f"the router_id of {switch.name}, {own}, {why}.", where, fix)
    yield from find_wrong_numbers(spec)
    yield from _one_sided(spec)
    yield from _cautions(spec)


def _one_sided(spec: ClusterSpec) -> Findings:
    """Report BFD on only one end of a link: its session stays down, and detects nothing."""
    indexes = {switch.name: index for index, switch in enumerate(spec.switches)}
    uses = {s.name: s.routing is not None and s.routing.bfd for s in spec.switches}
    seen: set[tuple[str, str]] = set()
    for link in list_links(spec):
        ends = (link.one.switch, link.other.switch)
        with_it, without = sorted(ends, key=lambda each: not uses[each.name])
        pair = (with_it.name, without.name)
        if link.one.port.mode != "routed" or pair in seen or without.routing is None:
            continue
        if uses[with_it.name] and not uses[without.name]:
            seen.add(pair)
            what = f"{pair[0]} uses BFD on its links to {pair[1]}, but {pair[1]} does not."
            where = (at(("switches", indexes[name], "routing", "bfd"), uses[name]) for name in pair)
            yield Finding(what, tuple(where), "write bfd: true on both switches, or on neither.")


@needs("switches")
def check_rail_gateway(spec: ClusterSpec) -> Findings:
    """A rail that is reached over the spines has a gateway: a free address of its subnet, once.

    The one routed leaf of the rail has it. Several leaves need a subnet and a gateway each, under
    `leaves`.
    """
    holders = bridging_switches_of_rails(spec)
    switches = {switch.name: switch for switch in spec.switches}
    for r, rail in enumerate(spec.rails):
        routed = [name for name in holders[rail.name] if switches[name].routing is not None]
        where = places(spec, f"rails.{r}.gateway")
        if rail.leaves:
            yield from _leaf_gateways(spec, r, rail)
        elif len(routed) > 1:
            what = (
                f"{rail.name} is on routed leaves ({' and '.join(routed)}), which need a gateway "
            )
            fix = (
                f"{'replace gateway by' if rail.gateway else 'add'} {suggest_leaves(rail, routed)}."
            )
            yield Finding(f"{what}each.", where, fix)
        elif rail.gateway is None and routed:
            what = f"{routed[0]} is routed, but {rail.name} lacks a gateway."
            fix = f"set gateway to a free address, such as {rail.subnet.network_address + 1}."
            yield Finding(what, where, fix)
        elif rail.gateway is not None and (
            why := _why_no_gateway(spec, rail, [switches[name] for name in holders[rail.name]])
        ):
            fix = "use the first address of the subnet on one routed leaf, or remove gateway."
            yield Finding(f"the gateway of {rail.name}, {rail.gateway}, {why}.", where, fix)


def _leaf_gateways(spec: ClusterSpec, r: int, rail: Rail) -> Findings:
    if rail.gateway is not None:
        what = f"{rail.name} has the gateway {rail.gateway}, but each leaf has its own."
        yield Finding(what, places(spec, f"rails.{r}.gateway"), "remove gateway.")
    for leaf, part in rail.leaves.items():
        why = _why_no_address(spec, part.gateway, part.subnet)
        if why is not None:
            what = f"the gateway of {rail.name} on {leaf}, {part.gateway}, {why}."
            fix = f"use a free address, for example {part.subnet.network_address + 1}."
            yield Finding(what, (at(("rails", r, "leaves", leaf, "gateway"), part.gateway),), fix)


def _why_no_gateway(spec: ClusterSpec, rail: Rail, holders: list[Switch]) -> str | None:
    if holders and not any(map(is_routed, holders)):
        return "needs a routed switch"
    if len(holders) > 1:
        return f"would be on {' and '.join(switch.name for switch in holders)}"
    return _why_no_address(spec, rail.gateway, rail.subnet)


def _why_no_address(
    spec: ClusterSpec, address: IPv4Address | None, subnet: IPv4Network
) -> str | None:
    cards = {nic.nic.address: f"{nic}" for nic in list_nics(spec)}
    if address not in subnet or address in {subnet.network_address, subnet.broadcast_address}:
        return f"is not an address for a machine in {subnet}"
    pools = (pool for each in pools_of(spec).values() for pool in each)
    if address in {pool.probe for pool in pools if pool.network == subnet}:
        return "is reserved for the bandwidth test's server"
    if str(address) in cards:
        return f"is the address of {cards[str(address)]}"
    return None


Numbers = Mapping[str, tuple[int, int]]
"""Switch to its place in the file and its number."""


def find_wrong_numbers(spec: ClusterSpec) -> Findings:
    """Report AS numbers that lose routes or paths, each cause once."""
    numbers = {s.name: (i, s.routing.asn) for i, s in enumerate(spec.switches) if s.routing}
    yield from _same_leaves(spec, numbers)
    yield from _same_ends(spec, numbers)
    yield from _uneven_paths(spec, numbers)
    yield from _same_units(spec, numbers)


def _places(names: Iterable[str], numbers: Numbers) -> tuple[Place, ...]:
    return tuple(at(("switches", numbers[n][0], "routing", "asn"), numbers[n][1]) for n in names)


def _by_number(names: Iterable[str], numbers: Numbers) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in names:
        if name in numbers:
            found.setdefault(numbers[name][1], []).append(name)
    return found


def _same_leaves(spec: ClusterSpec, numbers: Numbers) -> Findings:
    leaves = [name for name in numbers if tiers_of(spec).get(name) == LEAF]
    for asn, names in _by_number(leaves, numbers).items():
        if len(names) > 1:
            what = f"leaves {in_words(names)} share asn {asn}: they refuse each other's routes."
            fix = "give each leaf a different number, for example 65101, 65102 and so on."
            yield Finding(what, _places(names[1:], numbers), fix)


def _same_ends(spec: ClusterSpec, numbers: Numbers) -> Findings:
    leaves = [name for name in numbers if tiers_of(spec).get(name) == LEAF]
    alike = {name for names in _by_number(leaves, numbers).values() if names[1:] for name in names}
    found: dict[int, dict[str, None]] = {}
    for link in list_links(spec):
        one, other = link.one.switch.name, link.other.switch.name
        if link.one.port.mode != "routed" or not {one, other} <= {*numbers}:
            continue
        # Leaves that share a number get new ones, which then differ from those above.
        if numbers[one][1] == numbers[other][1] and not {one, other} & alike:
            found.setdefault(numbers[one][1], {}).update({one: None, other: None})
    for asn, names in found.items():
        what = f"{in_words([*names])} have a routed link, but the same asn {asn}; BGP needs two."
        fix = "give the two sides of a routed link different numbers."
        yield Finding(what, _places(names, numbers), fix)


def _uneven_paths(spec: ClusterSpec, numbers: Numbers) -> Findings:
    """Check that all switches of one tier above a leaf have one AS number."""
    seen: set[frozenset[str]] = set()
    for leaf in (name for name, tier in tiers_of(spec).items() if tier == LEAF):
        climbed, tier = above(spec, leaf), SPINE
        while climbed:
            found = _by_number(climbed, numbers)
            if len(found) > 1 and frozenset(climbed) not in seen:
                seen.add(frozenset(climbed))
                firsts = {names[0]: asn for asn, names in found.items()}
                ways = in_words([f"over {name} with asn {asn}" for name, asn in firsts.items()])
                what = f"{leaf} goes {ways}: BGP uses only paths with equal numbers together."
                all_of = "super-spines" if tier > SPINE else "spines above a leaf"
                fix = f"give all {all_of} the same asn."
                yield Finding(what, _places(firsts, numbers), fix)
            upper = (far for name in climbed for far in above(spec, name))
            climbed, tier = tuple(dict.fromkeys(upper)), tier + 1


def _same_units(spec: ClusterSpec, numbers: Numbers) -> Findings:
    """Report switches above different leaves with one number: each needs the other's routes."""
    tiers, under = tiers_of(spec), leaves_below(spec)
    upper = [name for name in numbers if tiers.get(name, LEAF) > LEAF]
    for asn, names in _by_number(upper, numbers).items():
        first = names[0]
        apart = [
            name
            for name in names[1:]
            if not under[name] & under[first] and name in joined_by_routes(spec).get(first, ())
        ]
        if apart:
            what = f"{in_words([first, *apart])} share asn {asn}: each refuses the other's routes."
            fix = "give the spines of each scalable unit a different number: 65001, 65002."
            yield Finding(what, _places([first, *apart], numbers), fix)
