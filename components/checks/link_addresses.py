"""Rules on the addresses of numbered links between switches."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import (
    Cable,
    PlacedNic,
    PlacedPort,
    list_all_ports,
    list_cables,
    list_nics,
)
from components.core.problem import Place
from components.fabric.links import Link, LinkEnd, list_links
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.rail_subnets import link_address, link_of, routed_cards


def check_link_address(spec: ClusterSpec) -> Findings:
    """A link with an address is routed, and its /31 is in no other network.

    Each end has one address of the pair: 10.254.0.0 leaves 10.254.0.1 to the other. Two links with
    one network, or a network within a rail's subnet, send packets to the wrong switch. A host's end
    follows the card's own `address`.
    """
    for port in list_all_ports(spec):
        if port.port.address is not None and (port.port.peer is None or port.port.mode != "routed"):
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
                "give each link its own /31: 10.254.0.0, 10.254.0.2 and so on.",
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


def _misplaced(port: PlacedPort) -> Finding:
    named = f"{port}"
    what, fix = "leads to a host", "remove address: the port follows the address of the card."
    if port.port.peer is not None:
        what, fix = "is a trunk", "set mode: routed at both ends, or remove address."
    where = (port.at("address"),)
    return Finding(f"{named} {what}, and an address is one of a routed link.", where, fix)


def _why_taken(spec: ClusterSpec, network: IPv4Network) -> str | None:
    rail = next((rail for rail in spec.rails if network.overlaps(rail.subnet)), None)
    if rail is not None:
        return f"lies in the subnet of {rail.name}, {rail.subnet}"
    logins = {host.way.address: host.name for host in spec.reached}
    logins |= {switch.ssh.address: switch.name for switch in spec.switches}
    named = next((logins[str(each)] for each in network if str(each) in logins), None)
    return f"has the address of {named}" if named else None


def check_routed_port(spec: ClusterSpec) -> Findings:
    """A card on a routed port, or the one pod on its VF, has an address of the rail.

    The port has the other address of that /31: with 10.10.111.1 it has 10.10.111.0. The host's end
    is the card itself (`address`, with jobs in the host's network), or the pod that has the card's
    only VF (`pod_address`, with `vfs: 1`), which gets it from nv-ipam. What the leaf announces is
    these networks, so the rail has no gateway and no subnets of leaves beside them. BGP with hosts
    is not supported, and neither are larger networks for several pods behind one port.
    """
    routed = [cable for cable in list_cables(spec) if cable.port.port.mode == "routed"]
    # `routed-link` tells of ports that cannot be routed.
    cables = [cable for cable in routed if is_able_to_route(cable.port.switch)]
    yield from _unused_pod_addresses(spec)
    pods, taken = _without_links(spec, cables), dict[str, Cable]()
    if pods is not None:
        yield pods
    for cable in cables if pods is None else ():
        yield from _card(spec, cable, taken)
    names = {cable.port.rail for cable in cables}
    for r, rail in enumerate(spec.rails):
        key = "leaves" if rail.leaves else "gateway"
        if rail.name in names and (rail.leaves or rail.gateway):
            what = f"{rail.name} has {key}, but its routed ports have networks of their own."
            yield Finding(what, (at(("rails", r, key)),), f"remove {key}, or the ports' mode.")


def is_able_to_route(switch: Switch) -> bool:
    """Whether the driver of its system sets routed ports at all."""
    return not isinstance(system_of(switch.os).since("routing"), str)


def _has_pods_on_vfs(spec: ClusterSpec) -> bool:
    return spec.kubernetes is not None and not spec.pod_network.host_network


def _unused_pod_addresses(spec: ClusterSpec) -> Findings:
    """An address of a pod that no pod would get."""
    for nic in list_nics(spec):
        on_routed = (nic.host.name, nic.nic.rail) in routed_cards(spec)
        if nic.nic.pod_address is None or (on_routed and _has_pods_on_vfs(spec)):
            continue
        why, fix = "its switch port is not routed", "remove pod_address."
        if on_routed:
            why = "pods have no VFs"
        elif not spec.switches:
            why = "the file has no switch: routed ports to cards are those of switches of the file"
            fix = "remove pod_address, and let those switches carry the rail as a VLAN."
        yield Finding(f"{nic} has a pod_address, but {why}.", (nic.at("pod_address"),), fix)


def _without_links(spec: ClusterSpec, cables: list[Cable]) -> Finding | None:
    """All that pods on VFs lack behind routed ports, in one message; None: nothing."""
    if not cables or not _has_pods_on_vfs(spec):
        return None
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
        *_some("an address of its own", [n for n in cards if n.nic.address], "address"),
        *_some("a port in a VLAN", others, "rail"),
        *_some("no address", [n for n in plain if n.nic.address is None], "address"),
    ]
    if not found:
        return None
    rail = spec.rail(first.port.rail)
    start = rail.subnet.network_address if rail else IPv4Address("10.10.111.0")
    return Finding(
        f"{first.port} leads to a card and is routed, so no VLAN carries the addresses of pods: "
        "each card needs one VF, and its pod a network with the port, but "
        f"{', '.join(text for text, _ in found)}.",
        (at((*first.port.path, "mode"), "routed"), *(place for _, place in found)),
        "set pod_network to {mode: sriov, ipam: nv-ipam}, and write vfs: 1 and pod_address at each "
        f"card of the rail, every second address: {start + 1}, {start + 3} and so on (the ports "
        "get the others). Or set pod_network to {mode: rdma_shared, host_network: true}, with "
        "address in place of pod_address. Or use mode: trunk. BGP with hosts is not supported.",
    )


def _some(what: str, nics: list[PlacedNic], key: str) -> Iterator[tuple[str, Place]]:
    if nics:
        names = f"{len(nics)} cards have" if len(nics) > 1 else f"{nics[0]} has"
        yield f"{names} {what}", nics[0].at(key)


def _card(spec: ClusterSpec, cable: Cable, taken: dict[str, Cable]) -> Findings:
    nic, port, rail = cable.nic, cable.port, spec.rail(cable.port.rail)
    who, key = ("pod", "pod_address") if nic.nic.pod_address else ("card", "address")
    where = (at((*port.path, "mode"), "routed"), nic.at(key))
    address = link_address(nic.nic)
    if rail is None or address is None:
        return  # `host-network` and `container-hosts` ask for an address
    named = f"{port}"
    network, own = link_of(address)
    other = taken.setdefault(str(network), cable)
    if not network.subnet_of(rail.subnet):
        yield Finding(
            f"the {who} at {named} has {address}, not in {rail.subnet} of {rail.name}.",
            (*where, at(("rails", spec.rails.index(rail), "subnet"), rail.subnet)),
            "choose an address of that subnet, every second one.",
        )
    elif other is not cable:
        yield Finding(
            f"the {who} at {named} has {address}, and the port would have {own}: the network "
            f"{network} is that of {other.port.name} of {other.port.switch.name}.",
            (*where, other.nic.at(key)),
            f"give each {who} on a routed port an address of a /31 of its own, every second one.",
        )
