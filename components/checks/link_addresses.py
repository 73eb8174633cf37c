"""Rules on the addresses of numbered links between switches."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from components.checks.rule import Finding, Findings, at
from components.checks.topology import Cable, PlacedPort, list_all_ports, list_cables
from components.core.problem import Place
from components.fabric.links import Link, LinkEnd, list_links
from components.model.cluster import ClusterSpec
from components.model.rail_subnets import link_of


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
    return Finding(
        f"{named} {what}, and an address is one of a routed link.",
        (port.at("address"),),
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


def check_routed_port(spec: ClusterSpec) -> Findings:
    """A card on a routed port has an address of the rail, and the port the other one of its /31.

    The card's address decides: with 10.10.111.1 the port has 10.10.111.0. A virtual function tags
    its frames, which such a port drops, so pods run in the host's network there. What the leaf
    announces is these networks, so the rail has no gateway and no subnets of leaves beside them.
    """
    cables = [cable for cable in list_cables(spec) if cable.port.port.mode == "routed"]
    taken: dict[str, Cable] = {}
    for cable in cables:
        yield from _card(spec, cable, taken)
    if not cables:
        return
    first, network = cables[0], spec.pod_network
    if spec.kubernetes is not None and not network.host_network:
        yield Finding(
            f"{first.port} is routed, and no VLAN carries the pods' own rail addresses.",
            (
                at((*first.port.path, "mode"), "routed"),
                at(("pod_network", "host_network"), network.host_network),
            ),
            "set pod_network to {mode: rdma_shared, host_network: true}, or use mode: trunk.",
        )
    routed = {cable.port.rail for cable in cables}
    for r, rail in enumerate(spec.rails):
        key = "leaves" if rail.leaves else "gateway"
        if rail.name in routed and (rail.leaves or rail.gateway):
            yield Finding(
                f"{rail.name} has {key}, but its routed ports have networks of their own.",
                (at(("rails", r, key)),),
                f"remove {key}, or the ports' mode.",
            )


def _card(spec: ClusterSpec, cable: Cable, taken: dict[str, Cable]) -> Findings:
    nic, port, rail = cable.nic, cable.port, spec.rail(cable.port.rail)
    where = (at((*port.path, "mode"), "routed"), nic.at("address"))
    if rail is None:
        return
    named = f"{port}"
    if nic.nic.address is None:
        if spec.pod_network.host_network or spec.containers is not None:
            return  # `host-network` and `container-hosts` ask for it
        yield Finding(
            f"{named} is routed, and the card there has no address.",
            where,
            f"give each card on a routed port an address of its rail, every second one: "
            f"{rail.subnet.network_address + 1}, {rail.subnet.network_address + 3} and so on.",
        )
        return
    address = IPv4Address(nic.nic.address)
    network, own = link_of(address)
    other = taken.setdefault(str(network), cable)
    if not network.subnet_of(rail.subnet):
        yield Finding(
            f"the card at {named} has {address}, not in {rail.subnet} of {rail.name}.",
            (*where, at(("rails", spec.rails.index(rail), "subnet"), rail.subnet)),
            "choose an address of that subnet, every second one.",
        )
    elif other is not cable:
        yield Finding(
            f"the card at {named} has {address}, and the port would have {own}: the network "
            f"{network} is that of {other.port.name} of {other.port.switch.name}.",
            (*where, other.nic.at("address")),
            "give each card on a routed port an address of a /31 of its own, every second one.",
        )
