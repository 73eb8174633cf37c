"""Rules on rails with a subnet on each leaf, and on the addresses of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import product
from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import (
    Cable,
    PlacedNic,
    list_all_ports,
    list_cables,
    list_nics,
    list_ports,
)
from components.core.judge import needs
from components.core.problem import Place, SpecPath
from components.fabric.links import (
    LEAF,
    SPINE,
    LinkEnd,
    joined_by_routes,
    leaves_below,
    list_links,
    reachable,
    switches_of_rails,
    tiers_of,
    units_of,
)
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.model.places import link_address, link_of, routed_cards
from components.reading.wording import did_you_mean

_SMALLEST: Final = 30
"""Prefix length of a subnet for one machine and its gateway."""
_NAMED: Final = 2
"""Number of names in a sentence; the others are counted."""


def in_words(names: Sequence[str]) -> str:
    """Join names: `a and b`, `a, b and 30 more`."""
    first, more = names[:_NAMED], len(names) - _NAMED
    return f"{', '.join(first)} and {more} more" if more > 0 else " and ".join(first)


def suggest_leaves(rail: Rail, leaves: Sequence[str]) -> str:
    """Write the `leaves` for a fix: the rail's subnet in equal parts, one for each leaf."""
    prefix = rail.subnet.prefixlen + (len(leaves) - 1).bit_length()
    if prefix > _SMALLEST:
        return "leaves, with parts of a larger subnet of the rail"
    parts = rail.subnet.subnets(new_prefix=prefix)
    texts = (_part_text(leaf, part) for leaf, part in zip(leaves, parts, strict=False))
    return f"leaves: {{{', '.join(texts)}}}"


def _part_text(leaf: str, part: IPv4Network) -> str:
    return f"{leaf}: {{subnet: {part}, gateway: {part.network_address + 1}}}"


@needs("switches")
def check_rail_leaf(spec: ClusterSpec) -> Findings:
    """On a rail with `leaves`, each leaf with hosts of that rail has a part of its subnet.

    The parts do not overlap, since a pod's address shows its leaf. Each leaf is routed and reaches
    the others over routed links: over a trunk pods would ask for each other's address in vain.
    """
    holders = switches_of_rails(spec)
    for r, rail in enumerate(spec.rails):
        if rail.leaves:
            yield from _named(spec, r, rail, holders[rail.name])
            yield from _without(spec, r, rail)
            yield from _parts(spec, r, rail)
            yield from _ways(spec, r, rail, holders[rail.name])


def _path(r: int, leaf: str, *more: str) -> SpecPath:
    return ("rails", r, "leaves", leaf, *more)


def _named(spec: ClusterSpec, r: int, rail: Rail, holders: Sequence[str]) -> Findings:
    switches = {switch.name: switch for switch in spec.switches}
    # A port to an unknown rail may be the missing one: `port-target` reports it.
    odd = {port.switch.name for port in list_ports(spec) if spec.rail(port.rail) is None}
    for leaf in rail.leaves:
        where = (at(_path(r, leaf)),)
        if leaf not in switches:
            hint = did_you_mean(leaf, [*switches])
            what = f"{rail.name} has a subnet on {leaf!r}, which is not a switch.{hint}"
            fix = "name the switch into which the hosts of that subnet are plugged."
            yield Finding(what, where, fix)
        elif leaf not in holders and leaf not in odd:
            what = f"{rail.name} has a subnet on {leaf}, but none of its hosts is plugged in there."
            yield Finding(what, where, "remove it, or add the ports of its hosts to the switch.")
        elif leaf in holders and not is_routed(switches[leaf]):
            what = f"{rail.name} has a subnet on {leaf}, but {leaf} is not routed."
            fix = "add routing: {asn: 65101, router_id: 10.255.0.1}, and links with mode: routed."
            yield Finding(what, where, fix)


def is_routed(switch: Switch) -> bool:
    """Whether a switch has `routing`, or links that need it."""
    return switch.routing is not None or any(
        port.mode == "routed" for port in switch.ports.values()
    )


def _without(spec: ClusterSpec, r: int, rail: Rail) -> Findings:
    seen: set[str] = set()
    taken = [each.subnet for each in rail.leaves.values()]
    prefix = max(rail.subnet.prefixlen, *(each.prefixlen for each in taken))
    parts = rail.subnet.subnets(new_prefix=prefix)
    free = next((part for part in parts if not any(map(part.overlaps, taken))), None)
    for port in list_ports(spec):
        leaf = port.switch.name
        if port.rail != rail.name or leaf in rail.leaves or leaf in seen:
            continue
        seen.add(leaf)
        what = f"{port.port.to} is plugged into {leaf}, but {rail.name} lacks a subnet on {leaf}."
        where = (port.place, at(("rails", r, "leaves"), ", ".join(rail.leaves)))
        fix = f"give the rail a larger subnet, and {leaf} a part."
        if free:
            fix = f"add to its leaves {_part_text(leaf, free)}."
        yield Finding(what, where, fix)


def _parts(spec: ClusterSpec, r: int, rail: Rail) -> Findings:
    whole = at(("rails", r, "subnet"), rail.subnet)
    # Then the rail's own subnet is wrong: `subnet-overlap` reports it.
    is_wrong = any(each.subnet.overlaps(rail.subnet) for each in spec.rails if each is not rail)
    for leaf, part in rail.leaves.items():
        if not is_wrong and not part.subnet.subnet_of(rail.subnet):
            what = f"{part.subnet} of {rail.name} on {leaf} is outside of the rail's {rail.subnet}."
            fix = "choose a part of it, or give the rail a larger subnet."
            yield Finding(what, (at(_path(r, leaf, "subnet"), part.subnet), whole), fix)
    for group in _overlapping(rail):
        parts = [f"on {leaf}, {rail.leaves[leaf].subnet}" for leaf in group]
        what = f"{rail.name} has overlapping subnets {in_words(parts)}: both leaves announce them."
        where = tuple(at(_path(r, leaf, "subnet"), rail.leaves[leaf].subnet) for leaf in group)
        fix = f"choose separate parts, for example {suggest_leaves(rail, [*rail.leaves])}."
        yield Finding(what, where, fix)


def _overlapping(rail: Rail) -> Iterator[list[str]]:
    """Yield leaves whose parts overlap, each group once, in the order of addresses."""
    group, end = list[str](), -1
    for leaf in sorted(rail.leaves, key=lambda leaf: rail.leaves[leaf].subnet):
        part = rail.leaves[leaf].subnet
        if int(part.network_address) > end:
            yield from [group] if len(group) > 1 else []
            group = []
        group.append(leaf)
        end = max(end, int(part.broadcast_address))
    yield from [group] if len(group) > 1 else []


def _ways(spec: ClusterSpec, r: int, rail: Rail, holders: Sequence[str]) -> Findings:
    """Check that routed links, and no trunk, lead from the first leaf to each other leaf."""
    leaves = [leaf for leaf in rail.leaves if leaf in holders]
    joined = joined_by_routes(spec)
    for leaf in leaves[1:]:
        where = (at(_path(r, leaves[0])), at(_path(r, leaf)))
        if leaf in reachable(spec, rail.name, leaves[0]):
            what = f"a trunk joins {leaves[0]} and {leaf}, two subnets of {rail.name}."
            fix = f"set mode: routed at both ends, or leave {rail.name} out of the link's rails."
            yield Finding(what, where, fix)
        elif leaf not in joined.get(leaves[0], frozenset()):
            what = f"no routed links join {leaves[0]} and {leaf}, which both have {rail.name}."
            fix = f"write links with mode: routed from {leaf} to the spines of {leaves[0]}."
            yield Finding(what, where, fix)


@needs("switches")
def check_spine_link(spec: ClusterSpec) -> Findings:
    """A spine that serves one leaf of a rail serves all of them in its scalable unit.

    Otherwise the other leaves reach that leaf over fewer spines than they have links to. A
    super-spine leads to the leaves of every unit. Spines may serve only some rails.
    """
    holders, units, tiers = switches_of_rails(spec), units_of(spec), tiers_of(spec)
    numbers = {switch.name: index for index, switch in enumerate(spec.switches)}
    named: set[tuple[str, str]] = set()
    uppers = [name for name, tier in tiers.items() if tier > LEAF]
    for spine, rail in product(uppers, spec.rails):
        under, is_upper = leaves_below(spec)[spine], tiers[spine] > SPINE
        unit = frozenset[str]().union(*(units[leaf] for leaf in under))
        on = [leaf for leaf in rail.leaves if leaf in holders[rail.name]]
        on = [leaf for leaf in on if leaf in unit or is_upper]
        linked = [leaf for leaf in on if leaf in under]
        lacking = [leaf for leaf in on if leaf not in under and (spine, leaf) not in named]
        if linked and is_upper:
            # One link to a unit serves all of its leaves: report it once.
            lacking = [*{units[leaf]: leaf for leaf in reversed(lacking)}.values()][::-1]
        for leaf in lacking if linked else ():
            named |= {(spine, each) for each in (leaf, *(units[leaf] if is_upper else ()))}
            way, far = ("way down", f"a spine of {leaf}") if is_upper else ("link", leaf)
            what = f"{spine} lacks a {way} to {leaf}, but has links to {in_words(linked)} for "
            where = places(spec, f"switches.{numbers[spine]}.name")
            fix = f"write a link with mode: routed between {spine} and {far}, at both ends."
            yield Finding(f"{what}{rail.name}.", where, fix, "warning")


def _why_taken(spec: ClusterSpec, network: IPv4Network) -> str | None:
    rail = next((rail for rail in spec.rails if network.overlaps(rail.subnet)), None)
    if rail is not None:
        return f"is in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    logins |= {switch.ssh.address: switch.name for switch in spec.switches}
    named = next((logins[str(each)] for each in network if str(each) in logins), None)
    return f"contains the address of {named}" if named else None


def check_routed_port(spec: ClusterSpec) -> Findings:
    """A card on a routed port, or the one pod on its VF, has an address of the rail.

    The port has the other address of that /31. The host's end is the card itself (`address`, with
    jobs in the host's network), or the pod with the card's only VF (`pod_address`, with `vfs: 1`),
    by nv-ipam. The leaf announces these networks: the rail needs no gateway. BGP with hosts and
    larger networks behind one port are not supported.
    """
    routed = [cable for cable in list_cables(spec) if cable.port.port.mode == "routed"]
    # `routed-link` reports ports that cannot be routed.
    cables = [cable for cable in routed if is_able_to_route(cable.port.switch)]
    yield from _unused_pod_addresses(spec)
    pods = [*_without_links(spec, cables)]
    yield from pods or _cards(spec, cables)
    names = {cable.port.rail for cable in cables}
    for r, rail in enumerate(spec.rails):
        key = "leaves" if rail.leaves else "gateway"
        if rail.name in names and (rail.leaves or rail.gateway):
            what = f"{rail.name} sets {key}, but its routed ports have separate networks."
            yield Finding(what, (at(("rails", r, key)),), f"remove {key}, or the ports' mode.")


def is_able_to_route(switch: Switch) -> bool:
    """Whether the driver of its system sets routed ports at all."""
    return not isinstance(system_of(switch.os).since("routing"), str)


def _unused_pod_addresses(spec: ClusterSpec) -> Findings:
    in_pods = spec.kubernetes and not spec.pod_network.host_network
    for nic in [nic for nic in list_nics(spec) if nic.nic.pod_address is not None]:
        on_routed = (nic.host.name, nic.nic.rail) in routed_cards(spec)
        why, fix = "its switch port is not routed", "remove pod_address."
        if on_routed:
            why = "pods lack VFs"
        elif not spec.switches:
            why = "only a switch of the file can have routed ports to cards"
            fix = "remove pod_address, and let those switches carry the rail as a VLAN."
        if not (on_routed and in_pods):
            yield Finding(f"{nic} has a pod_address, but {why}.", (nic.at("pod_address"),), fix)


def _without_links(spec: ClusterSpec, cables: list[Cable]) -> Findings:
    """Report everything that pods on VFs lack behind routed ports in one message."""
    if not cables or (spec.kubernetes is None or spec.pod_network.host_network):
        return
    first, network = cables[0], spec.pod_network
    cards = [cable.nic for cable in cables if cable.nic.host.role == "worker"]
    plain = [cable.nic for cable in cables if cable.nic.host.role != "worker"]
    names = {nic.nic.rail for nic in cards}
    others = [n for n in list_nics(spec) if n.nic.rail in names and n.host.role == "worker"]
    others = [n for n in others if (n.host.name, n.nic.rail) not in routed_cards(spec)]
    found = [
        *(
            (f"{key} is {got}", places(spec, f"pod_network.{key}")[0])
            for key, got in (("mode", network.mode), ("ipam", network.ipam))
            if got not in {"sriov", "nv-ipam"}
        ),
        *_some("no pod_address", [n for n in cards if n.nic.pod_address is None], "pod_address"),
        *_some("more than one VF", [n for n in cards if n.nic.vfs > 1], "vfs"),
        *_some("address", [n for n in cards if n.nic.address], "address"),
        *_some("a port in a VLAN", others, "rail"),
        *_some("no address", [n for n in plain if n.nic.address is None], "address"),
    ]
    if found:
        rail, faults = spec.rail(first.port.rail), ", ".join(text for text, _ in found)
        start = rail.subnet.network_address if rail else IPv4Address("10.10.111.0")
        what = f"{first.port} is routed: each card needs one VF, and its pod an address, but "
        where = (first.port.at("mode"), *(place for _, place in found))
        fix = _TO_PODS.format(one=start + 1, two=start + 3)
        yield Finding(f"{what}{faults}.", where, fix)


def _some(what: str, nics: list[PlacedNic], key: str) -> Iterator[tuple[str, Place]]:
    if nics:
        names = f"{len(nics)} cards have" if len(nics) > 1 else f"{nics[0]} has"
        yield f"{names} {what}", nics[0].at(key)


_TO_PODS: Final = (
    "set pod_network to {{mode: sriov, ipam: nv-ipam}}, and write vfs: 1 and pod_address at each "
    "card of the rail: {one}, {two} and so on (the ports get the others). Or set pod_network to "
    "{{mode: rdma_shared, host_network: true}}, with address in place of pod_address. Or use mode: "
    "trunk. BGP with hosts is not supported."
)


def _cards(spec: ClusterSpec, cables: list[Cable]) -> Findings:
    taken: dict[IPv4Network, Cable] = {}
    for cable in cables:
        nic, port, rail = cable.nic, cable.port, spec.rail(cable.port.rail)
        who, key = ("pod", "pod_address") if nic.nic.pod_address else ("card", "address")
        where = (port.at("mode"), nic.at(key))
        address = link_address(nic.nic)
        if rail is None or address is None:
            continue  # `host-network` and `container-hosts` require an address
        network, _ = link_of(address)
        other = taken.setdefault(network, cable)
        what = f"the {who} at {port} has {address}, "
        if not network.subnet_of(rail.subnet):
            what += f"which is not in {rail.subnet} of {rail.name}."
            where = (*where, *places(spec, f"rails.{spec.rails.index(rail)}.subnet"))
            yield Finding(what, where, "choose every second address of that subnet.")
        elif other is not cable:
            what += f"but {other.port} already uses {network}."
            fix = f"give each {who} on a routed port every second address, in a separate /31."
            yield Finding(what, (*where, other.nic.at(key)), fix)


def check_link_address(spec: ClusterSpec) -> Findings:
    """A link with an address is routed, and its /31 is in no other network.

    If two links share a network, or one is within a rail's subnet, packets go to the wrong switch.
    """
    for port in [port for port in list_all_ports(spec) if port.port.address is not None]:
        what, fix = "leads to a host", "remove address: the port follows the card's address."
        if port.port.peer is not None:
            what, fix = "is a trunk", "set mode: routed at both ends, or remove address."
        if port.port.peer is None or port.port.mode != "routed":
            what = f"{port} {what}, but only routed links have an address."
            yield Finding(what, (port.at("address"),), fix)
    yield from _link_networks(spec)


def _link_networks(spec: ClusterSpec) -> Findings:
    where = {(port.switch.name, port.name): port for port in list_all_ports(spec)}
    taken: dict[IPv4Network, tuple[LinkEnd, Place]] = {}
    for link in list_links(spec):
        ends = [end for end in (link.one, link.other) if end.port.address is not None]
        if not ends or {link.one.port.mode, link.other.port.mode} != {"routed"}:
            continue
        placed = [where[end.key].at("address") for end in ends]
        network, far = link_of(ends[0].port.address or IPv4Address(0))
        one, other = (f"{end.switch.name} {end.name}" for end in (link.one, link.other))
        if len(ends) > 1 and ends[1].port.address != far:
            pair = f"{link.one.port.address} and {link.other.port.address}"
            what = f"the link {one} to {other} needs both addresses of a /31, but has {pair}."
            fix = f"remove the second address: it follows from the first, and is {far}."
            yield Finding(what, tuple(placed), fix)
            continue
        what = f"the link from {one} has the network {network}, which"
        holder, place = taken.setdefault(network, (ends[0], placed[0]))
        if place is not placed[0]:
            what = f"{what} {holder.switch.name} {holder.name} also has."
            fix = "give each link its own /31: 10.254.0.0, 10.254.0.2 and so on."
            yield Finding(what, (placed[0], place), fix)
        elif why := _why_taken(spec, network):
            fix = "choose unused addresses, for example of 10.254.0.0/16."
            yield Finding(f"{what} {why}.", (placed[0],), fix)
