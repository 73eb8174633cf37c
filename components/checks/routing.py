"""Rules on routed switches: AS numbers, link addresses, and rails with a subnet on each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import product
from typing import Final

from components.checks import topology
from components.checks.rule import Finding, Findings, Here, at, find, places, walk
from components.core.judge import needs
from components.core.problem import Place
from components.fabric import links
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import Caution
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Switch
from components.model.places import link_address, link_of, routed_cards
from components.pod_network.rails import pools_of
from components.reading.wording import did_you_mean

Numbers = Mapping[str, tuple[int, int]]
"""Switch to its place in the file and its number."""
_SMALLEST: Final = 30
"""Prefix length of a subnet for one machine and its gateway."""
_NAMED: Final = 2
"""Number of names in a sentence; the others are counted."""
_TO_PODS: Final = (
    "set pod_network to {{mode: sriov, ipam: nv-ipam}}, and write vfs: 1 and pod_address at each "
    "card of the rail: {one}, {two} and so on (the ports get the others). Or set pod_network to "
    "{{mode: rdma_shared, host_network: true}}, with address in place of pod_address. Or use mode: "
    "trunk. BGP with hosts is not supported."
)


def _cautions(spec: ClusterSpec) -> Findings:
    """Warn of unexpected behaviour of a system that no rule can refuse."""
    addressed = links.link_addresses(spec)
    sides = (side for link in links.list_links(spec) for side in (link.one, link.other))
    ends = ((each.switch.name, each.name) for each in sides if each.port.mode == "routed")
    bare = {switch for switch, port in ends if (switch, port) not in addressed}
    found: dict[Caution, dict[str, Place]] = {}
    for switch, here in walk(spec, "switches.*", Switch):
        system = system_of(switch.os)
        for each in system.routed.cautions if switch.routing else ():
            is_over = each.until and system.parse_release(switch.release) >= each.until
            if not is_over and (switch.name in bare or not each.unnumbered):
                found.setdefault(each, {})[switch.name] = here("release")[0]
    for each, names in found.items():
        what = f"{in_words([*names])}: {each.text}."
        yield Finding(what, (*names.values(),), each.fix, "warning")


@needs("switches")
def check_routing(spec: ClusterSpec) -> Findings:
    """A switch with routed links has `routing`, with AS numbers that allow every path.

    Each leaf needs a different number: BGP refuses a route that has passed the same number before.
    All spines above a leaf share one, and so do all super-spines above them: BGP uses several paths
    at once only if they passed the same numbers. The spines of two scalable units need different
    ones. A router's identifier is unique, and outside of other networks. Both ends of a link use
    BFD, or neither. A warning names unproven parts of a system's BGP.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        routed = [name for name, port in switch.ports.items() if port.mode == "routed"]
        if routed and switch.routing is None and _is_able_to_route(switch):
            yield find("no-routing", *here(f"ports.{routed[0]}.mode"), routed=routed, switch=switch)
        if switch.routing is None:
            continue
        own = switch.routing.router_id  # it becomes a loopback address that BGP announces
        ends = links.link_addresses(spec).items()
        link = next((key for key, (address, _) in ends if address == own), None)
        on_link = f"is the address of {link[0]} on its link {link[1]}" if link else None
        if why := _why_taken(spec, IPv4Network(own), switch.name) or on_link:
            yield find("router-id", *here("routing.router_id"), switch=switch, own=own, why=why)
    yield from find_wrong_numbers(spec)
    # BFD on only one end of a link: its session stays down, and detects nothing.
    uses = {s.name: s.routing.bfd if s.routing else None for s in spec.switches}
    heres = {switch.name: here for switch, here in walk(spec, "switches.*", Switch)}
    routed = [link for link in links.list_links(spec) if link.one.port.mode == "routed"]
    ends = ((link.one.switch.name, link.other.switch.name) for link in routed)
    pairs = dict.fromkeys(tuple(sorted(pair, key=lambda name: not uses[name])) for pair in ends)
    for with_it, without in pairs:
        if uses[with_it] and uses[without] is False:
            where = heres[with_it]("routing.bfd") + heres[without]("routing.bfd")
            yield find("routing-bfd", *where, with_it=with_it, without=without)
    yield from _cautions(spec)


@needs("switches")
def check_rail_gateway(spec: ClusterSpec) -> Findings:
    """A rail that is reached over the spines has a gateway: a free address of its subnet, once.

    The one routed leaf of the rail has it. Several leaves need a subnet and a gateway each, under
    `leaves`.
    """
    switches = {switch.name: switch for switch in spec.switches}
    for rail, here in walk(spec, "rails.*", Rail):
        holders = [switches[name] for name in links.bridging_switches_of_rails(spec)[rail.name]]
        routed, where = [each.name for each in holders if each.routing], here("gateway")
        if rail.leaves:
            yield from _leaf_gateways(spec, rail, here)
        elif len(routed) > 1:
            what = f"{rail.name} is on routed leaves ({' and '.join(routed)}), which need a "
            fix = f"{'replace gateway by' if rail.gateway else 'add'} "
            yield Finding(f"{what}gateway each.", where, f"{fix}{_suggest_leaves(rail, routed)}.")
        elif rail.gateway is None and routed:
            words = {"routed": routed, "rail": rail, "free": _first(rail.subnet)}
            yield find("rail-gateway-missing", *where, **words)
        elif rail.gateway is not None:
            names = " and ".join(switch.name for switch in holders)
            why = _why_no_address(spec, rail.gateway, rail.subnet)
            why = f"would be on {names}" if len(holders) > 1 else why
            why = why if not holders or any(map(is_routed, holders)) else "needs a routed switch"
            fix = "use the first address of the subnet on one routed leaf, or remove gateway."
            what = f"the gateway of {rail.name}, {rail.gateway}, {why}."
            yield from [Finding(what, where, fix)] if why else ()


def _leaf_gateways(spec: ClusterSpec, rail: Rail, here: Here) -> Findings:
    if rail.gateway is not None:
        yield find("rail-gateway-leaf", *here("gateway"), rail=rail)
    for leaf, part in rail.leaves.items():
        if (why := _why_no_address(spec, part.gateway, part.subnet)) is not None:
            what = f"the gateway of {rail.name} on {leaf}, {part.gateway}, {why}."
            fix = f"use a free address, for example {_first(part.subnet)}."
            yield Finding(what, here(f"leaves.{leaf}.gateway"), fix)


def _why_no_address(
    spec: ClusterSpec, address: IPv4Address | None, subnet: IPv4Network
) -> str | None:
    cards = {nic.nic.address: f"{nic}" for nic in topology.list_nics(spec)}
    if address not in subnet or address in {subnet.network_address, subnet.broadcast_address}:
        return f"is not an address for a machine in {subnet}"
    pools = (pool for each in pools_of(spec).values() for pool in each)
    if address in {pool.probe for pool in pools if pool.network == subnet}:
        return "is reserved for the bandwidth test's server"
    if str(address) in cards:
        return f"is the address of {cards[str(address)]}"
    return None


def find_wrong_numbers(spec: ClusterSpec) -> Findings:
    """Report AS numbers that lose routes or paths, each cause once."""
    numbers = {s.name: (i, s.routing.asn) for i, s in enumerate(spec.switches) if s.routing}
    leaves = [name for name in numbers if links.tiers_of(spec).get(name) == links.LEAF]
    alike = {asn: names for asn, names in _by_number(leaves, numbers).items() if names[1:]}
    for asn, names in alike.items():
        yield find("routing-leaves", *_places(names[1:], numbers), who=in_words(names), asn=asn)
    renumbered = {name for names in alike.values() for name in names}
    ends_of: dict[int, dict[str, None]] = {}
    for link in links.list_links(spec):
        ends = (link.one.switch.name, link.other.switch.name)
        asns = {numbers[name][1] for name in ends if name in numbers}
        both = link.one.port.mode == "routed" and {*ends} <= numbers.keys()
        # Leaves that share a number get new ones, which then differ from those above.
        if both and len(asns) == 1 and renumbered.isdisjoint(ends):
            ends_of.setdefault(asns.pop(), {}).update(dict.fromkeys(ends))
    for asn, both_ends in ends_of.items():
        where = _places(both_ends, numbers)
        yield find("routing-ends-alike", *where, who=in_words([*both_ends]), asn=asn)
    yield from _uneven_paths(spec, numbers)
    # Switches above different leaves with one number: each needs the other's routes.
    tiers, under = links.tiers_of(spec), links.leaves_below(spec)
    upper = [name for name in numbers if tiers.get(name, links.LEAF) > links.LEAF]
    for asn, (first, *others) in _by_number(upper, numbers).items():
        joined = links.joined_by_routes(spec).get(first, ())
        apart = [each for each in others if each in joined and not under[each] & under[first]]
        if apart:
            where = _places([first, *apart], numbers)
            yield find("routing-spines-alike", *where, who=in_words([first, *apart]), asn=asn)


def _places(names: Iterable[str], numbers: Numbers) -> tuple[Place, ...]:
    return tuple(at(("switches", numbers[n][0], "routing", "asn"), numbers[n][1]) for n in names)


def _by_number(names: Iterable[str], numbers: Numbers) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in names:
        if name in numbers:
            found.setdefault(numbers[name][1], []).append(name)
    return found


def _uneven_paths(spec: ClusterSpec, numbers: Numbers) -> Findings:
    """Check that all switches of one tier above a leaf have one AS number."""
    seen: set[frozenset[str]] = set()
    for leaf in (name for name, tier in links.tiers_of(spec).items() if tier == links.LEAF):
        climbed, tier = links.above(spec, leaf), links.SPINE
        while climbed:
            found = _by_number(climbed, numbers)
            if len(found) > 1 and frozenset(climbed) not in seen:
                seen.add(frozenset(climbed))
                firsts = {names[0]: asn for asn, names in found.items()}
                ways = in_words([f"over {name} with asn {asn}" for name, asn in firsts.items()])
                all_of = "super-spines" if tier > links.SPINE else "spines above a leaf"
                where = _places(firsts, numbers)
                yield find("routing-paths-unlike", *where, leaf=leaf, ways=ways, all_of=all_of)
            upper = (far for name in climbed for far in links.above(spec, name))
            climbed, tier = tuple(dict.fromkeys(upper)), tier + 1


def in_words(names: Sequence[str]) -> str:
    """Join names: `a and b`, `a, b and 30 more`."""
    first, more = names[:_NAMED], len(names) - _NAMED
    return f"{', '.join(first)} and {more} more" if more > 0 else " and ".join(first)


def _suggest_leaves(rail: Rail, leaves: Sequence[str]) -> str:
    """Write the `leaves` for a fix: the rail's subnet in equal parts, one for each leaf."""
    prefix = rail.subnet.prefixlen + (len(leaves) - 1).bit_length()
    if prefix > _SMALLEST:
        return "leaves, with parts of a larger subnet of the rail"
    parts = rail.subnet.subnets(new_prefix=prefix)
    texts = (_part_text(leaf, part) for leaf, part in zip(leaves, parts, strict=False))
    return f"leaves: {{{', '.join(texts)}}}"


def _part_text(leaf: str, part: IPv4Network) -> str:
    return f"{leaf}: {{subnet: {part}, gateway: {_first(part)}}}"


def _first(subnet: IPv4Network) -> IPv4Address:
    """The first address for a machine; that of a /32 is its only one."""
    return next(iter(subnet.hosts()))


@needs("switches")
def check_rail_leaf(spec: ClusterSpec) -> Findings:
    """On a rail with `leaves`, each leaf with hosts of that rail has a part of its subnet.

    The parts do not overlap, since a pod's address shows its leaf. Each leaf is routed and reaches
    the others over routed links: over a trunk pods would ask for each other's address in vain.
    """
    for rail, here in walk(spec, "rails.*", Rail):
        holders = links.switches_of_rails(spec)[rail.name]
        if not rail.leaves:
            continue
        yield from _named(spec, rail, here, holders)
        taken = [each.subnet for each in rail.leaves.values()]
        prefix = max(rail.subnet.prefixlen, *(each.prefixlen for each in taken))
        parts = rail.subnet.subnets(new_prefix=prefix)
        free = next((part for part in parts if not any(map(part.overlaps, taken))), None)
        ports = [port for port in topology.list_ports(spec) if port.rail == rail.name]
        first = {port.switch.name: port for port in reversed(ports)}
        for port in [port for port in ports if port is first[port.switch.name]]:
            leaf = port.switch.name
            if leaf not in rail.leaves:
                where = (port.place, at((*here.path, "leaves"), ", ".join(rail.leaves)))
                fix = f"give the rail a larger subnet, and {leaf} a part."
                fix = f"add to its leaves {_part_text(leaf, free)}." if free else fix
                yield find("rail-leaf-missing", *where, port=port, leaf=leaf, rail=rail, fix=fix)
        # Then the rail's own subnet is wrong: `subnet-overlap` reports it.
        is_wrong = any(each.subnet.overlaps(rail.subnet) for each in spec.rails if each is not rail)
        for leaf, part in rail.leaves.items():
            if not is_wrong and not part.subnet.subnet_of(rail.subnet):
                where = here(f"leaves.{leaf}.subnet", "subnet")
                yield find("rail-leaf-outside", *where, part=part, rail=rail, leaf=leaf)
        for group in _overlapping(rail):
            parts = [f"on {leaf}, {rail.leaves[leaf].subnet}" for leaf in group]
            subnets = f"overlapping subnets {in_words(parts)}"
            what = f"{rail.name} has {subnets}: both leaves announce them."
            where = here(*(f"leaves.{leaf}.subnet" for leaf in group))
            fix = f"choose separate parts, for example {_suggest_leaves(rail, [*rail.leaves])}."
            yield Finding(what, where, fix)
        yield from _ways(spec, rail, here, holders)


def _named(spec: ClusterSpec, rail: Rail, here: Here, holders: Sequence[str]) -> Findings:
    switches = {switch.name: switch for switch in spec.switches}
    # A port to an unknown rail may be the missing one: `port-target` reports it.
    odd = {port.switch.name for port in topology.list_ports(spec) if spec.rail(port.rail) is None}
    for leaf in rail.leaves:
        where = here(f"leaves.{leaf}")
        if leaf not in switches:
            hint = did_you_mean(leaf, [*switches])
            yield find("rail-leaf-unknown", *where, rail=rail, leaf=leaf, hint=hint)
        elif leaf not in holders and leaf not in odd:
            yield find("rail-leaf-unused", *where, rail=rail, leaf=leaf)
        elif leaf in holders and not is_routed(switches[leaf]):
            yield find("rail-leaf-unrouted", *where, rail=rail, leaf=leaf)


def is_routed(switch: Switch) -> bool:
    """Whether a switch has `routing`, or links that need it."""
    modes = {port.mode for port in switch.ports.values()}
    return switch.routing is not None or "routed" in modes


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


def _ways(spec: ClusterSpec, rail: Rail, here: Here, holders: Sequence[str]) -> Findings:
    """Check that routed links, and no trunk, lead from the first leaf to each other leaf."""
    first, *others = [leaf for leaf in rail.leaves if leaf in holders] or [""]
    for leaf in others:
        where = here(f"leaves.{first}", f"leaves.{leaf}")
        if leaf in links.reachable(spec, rail.name, first):
            yield find("rail-leaf-trunk", *where, first=first, leaf=leaf, rail=rail)
        elif leaf not in links.joined_by_routes(spec).get(first, frozenset()):
            yield find("rail-leaf-links", *where, first=first, leaf=leaf, rail=rail)


@needs("switches")
def check_spine_link(spec: ClusterSpec) -> Findings:
    """A spine that serves one leaf of a rail serves all of them in its scalable unit.

    Otherwise the other leaves reach that leaf over fewer spines than they have links to. A
    super-spine leads to the leaves of every unit. Spines may serve only some rails.
    """
    holders, units = links.switches_of_rails(spec), links.units_of(spec)
    tiers = links.tiers_of(spec)
    numbers = {switch.name: index for index, switch in enumerate(spec.switches)}
    named: set[tuple[str, str]] = set()
    uppers = [name for name, tier in tiers.items() if tier > links.LEAF]
    for spine, rail in product(uppers, spec.rails):
        under, is_upper = links.leaves_below(spec)[spine], tiers[spine] > links.SPINE
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


def _why_taken(spec: ClusterSpec, network: IPv4Network, switch: str = "") -> str | None:
    """Explain why a network is not free; `management-port` compares a switch's own login."""
    rail = next((rail for rail in spec.rails if network.overlaps(rail.subnet)), None)
    if rail is not None:
        return f"is in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    logins |= {each.ssh.address: each.name for each in spec.switches if each.name != switch}
    named = next((logins[str(each)] for each in network if str(each) in logins), None)
    verb = "contains" if network.num_addresses > 1 else "is"
    return f"{verb} the address of {named}" if named else None


def check_routed_port(spec: ClusterSpec) -> Findings:
    """A card on a routed port, or the one pod on its VF, has an address of the rail.

    The port has the other address of that /31. The host's end is the card itself (`address`, with
    jobs in the host's network), or the pod with the card's only VF (`pod_address`, with `vfs: 1`),
    by nv-ipam. The leaf announces these networks: the rail needs no gateway. BGP with hosts and
    larger networks behind one port are not supported.
    """
    routed = [cable for cable in topology.list_cables(spec) if cable.port.port.mode == "routed"]
    # `routed-link` reports ports that cannot be routed.
    cables = [cable for cable in routed if _is_able_to_route(cable.port.switch)]
    in_pods = spec.kubernetes and not spec.pod_network.host_network
    for nic in [nic for nic in topology.list_nics(spec) if nic.nic.pod_address is not None]:
        on_routed = (nic.host.name, nic.nic.rail) in routed_cards(spec)
        why, fix = "its switch port is not routed", "remove pod_address."
        if on_routed:
            why = "pods lack VFs"
        elif not spec.switches:
            why = "only a switch of the file can have routed ports to cards"
            fix = "remove pod_address, and let those switches carry the rail as a VLAN."
        if not (on_routed and in_pods):
            yield Finding(f"{nic} has a pod_address, but {why}.", nic.at("pod_address"), fix)
    pods = [*_without_links(spec, cables)]
    yield from pods or _cards(spec, cables)
    names = {cable.port.rail for cable in cables}
    for rail, here in walk(spec, "rails.*", Rail):
        key = "leaves" if rail.leaves else "gateway"
        if rail.name in names and (rail.leaves or rail.gateway):
            yield find("routed-port-unused", at((*here.path, key)), rail=rail, key=key)


def _is_able_to_route(switch: Switch) -> bool:
    """Whether the driver of its system sets routed ports at all."""
    return not isinstance(system_of(switch.os).since("routing"), str)


def _without_links(spec: ClusterSpec, cables: list[topology.Cable]) -> Findings:
    """Report everything that pods on VFs lack behind routed ports in one message."""
    if not cables or (spec.kubernetes is None or spec.pod_network.host_network):
        return
    first, network = cables[0], spec.pod_network
    cards = [cable.nic for cable in cables if cable.nic.host.role == "worker"]
    plain = [cable.nic for cable in cables if cable.nic.host.role != "worker"]
    names = {nic.nic.rail for nic in cards}
    others = [n for n in topology.list_nics(spec) if n.nic.rail in names]
    others = [n for n in others if n.host.role == "worker"]
    others = [n for n in others if (n.host.name, n.nic.rail) not in routed_cards(spec)]
    faults, where = list[str](), list(first.port.at("mode"))
    for key, got in (("mode", network.mode), ("ipam", network.ipam)):
        if got not in {"sriov", "nv-ipam"}:
            faults += [f"{key} is {got}"]
            where += places(spec, f"pod_network.{key}")
    for what, nics, key in (
        ("no pod_address", [n for n in cards if n.nic.pod_address is None], "pod_address"),
        ("more than one VF", [n for n in cards if n.nic.vfs > 1], "vfs"),
        ("address", [n for n in cards if n.nic.address], "address"),
        ("a port in a VLAN", others, "rail"),
        ("no address", [n for n in plain if n.nic.address is None], "address"),
    ):
        if nics:
            have = f"{len(nics)} cards have" if len(nics) > 1 else f"{nics[0]} has"
            faults += [f"{have} {what}"]
            where += nics[0].at(key)
    if faults:
        rail = spec.rail(first.port.rail)
        start = rail.subnet.network_address if rail else IPv4Address("10.10.111.0")
        what = f"{first.port} is routed: each card needs one VF, and its pod an address, but "
        fix = _TO_PODS.format(one=start + 1, two=start + 3)
        yield Finding(f"{what}{', '.join(faults)}.", tuple(where), fix)


def _cards(spec: ClusterSpec, cables: list[topology.Cable]) -> Findings:
    taken: dict[IPv4Network, topology.Cable] = {}
    for cable in cables:
        nic, port, rail = cable.nic, cable.port, spec.rail(cable.port.rail)
        who, key = ("pod", "pod_address") if nic.nic.pod_address else ("card", "address")
        address, where = link_address(nic.nic), port.at("mode") + nic.at(key)
        if rail is None or address is None:
            continue  # `host-network` and `container-hosts` require an address
        network, _ = link_of(address)
        other = taken.setdefault(network, cable)
        what = f"the {who} at {port} has {address}, "
        if not network.subnet_of(rail.subnet):
            what += f"which is not in {rail.subnet} of {rail.name}."
            where += places(spec, f"rails.{spec.rails.index(rail)}.subnet")
            yield Finding(what, where, "choose every second address of that subnet.")
        elif other is not cable:
            what += f"but {other.port} already uses {network}."
            fix = f"give each {who} on a routed port every second address, in a separate /31."
            yield Finding(what, where + other.nic.at(key), fix)


def check_link_address(spec: ClusterSpec) -> Findings:
    """A link with an address is routed, and its /31 is in no other network.

    If two links share a network, or one is within a rail's subnet, packets go to the wrong switch.
    """
    for port in [port for port in topology.list_all_ports(spec) if port.port.address is not None]:
        what, fix = "leads to a host", "remove address: the port follows the card's address."
        if port.port.peer is not None:
            what, fix = "is a trunk", "set mode: routed at both ends, or remove address."
        if port.port.peer is None or port.port.mode != "routed":
            what = f"{port} {what}, but only routed links have an address."
            yield Finding(what, port.at("address"), fix)
    yield from _link_networks(spec)


def _link_networks(spec: ClusterSpec) -> Findings:
    ports = {(port.switch.name, port.name): port for port in topology.list_all_ports(spec)}
    taken: dict[IPv4Network, topology.PlacedPort] = {}
    for link in links.list_links(spec):
        ends = [ports[end.key] for end in (link.one, link.other) if end.port.address is not None]
        if not ends or {link.one.port.mode, link.other.port.mode} != {"routed"}:
            continue
        network, far = link_of(ends[0].port.address or IPv4Address(0))
        one, other = (f"{end.switch.name} {end.name}" for end in (link.one, link.other))
        if len(ends) > 1 and ends[1].port.address != far:
            where = ends[0].at("address") + ends[1].at("address")
            yield find("link-address-pair", *where, one=one, other=other, link=link, far=far)
            continue
        holder = taken.setdefault(network, ends[0])
        if holder is not ends[0]:
            where = ends[0].at("address") + holder.at("address")
            yield find("link-address-twice", *where, one=one, network=network, holder=holder)
        elif why := _why_taken(spec, network):
            yield find("link-net-taken", *ends[0].at("address"), one=one, network=network, why=why)
