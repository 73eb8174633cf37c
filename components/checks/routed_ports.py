"""Rules on ports to hosts that are routed: a network of two addresses for each card."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from components.checks.rule import Finding, at
from components.checks.topology import Cable, list_cables
from components.model.cluster import ClusterSpec
from components.model.rail_subnets import link_of


def check_routed_port(spec: ClusterSpec) -> Iterator[Finding]:
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
            f"port {first.port.name} of {first.port.switch.name} is routed, and pods have "
            "addresses of their own on the rails, which no VLAN carries to them.",
            (
                at((*first.port.path, "mode"), "routed"),
                at(("pod_network", "host_network"), network.host_network),
            ),
            "set pod_network to {mode: rdma_shared, host_network: true}, or the port's mode to "
            "trunk.",
        )
    routed = {cable.port.rail for cable in cables}
    for r, rail in enumerate(spec.rails):
        key = "leaves" if rail.leaves else "gateway"
        if rail.name in routed and (rail.leaves or rail.gateway):
            yield Finding(
                f"{rail.name} has {key}, and its cards are on routed ports, each with a network "
                "and a gateway of its own.",
                (at(("rails", r, key)),),
                f"remove {key}, or the ports' mode.",
            )


def _card(spec: ClusterSpec, cable: Cable, taken: dict[str, Cable]) -> Iterator[Finding]:
    nic, port, rail = cable.nic, cable.port, spec.rail(cable.port.rail)
    where = (at((*port.path, "mode"), "routed"), at((*nic.path, "address"), nic.nic.address))
    if rail is None:
        return
    named = f"port {port.name} of {port.switch.name}"
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
            f"the card at {named} has {address}, which is not in the subnet of {rail.name}, "
            f"{rail.subnet}.",
            (*where, at(("rails", spec.rails.index(rail), "subnet"), rail.subnet)),
            "choose an address of that subnet, every second one.",
        )
    elif other is not cable:
        yield Finding(
            f"the card at {named} has {address}, and the port would have {own}: the network "
            f"{network} is that of {other.port.name} of {other.port.switch.name}.",
            (*where, at((*other.nic.path, "address"), other.nic.nic.address)),
            "give each card on a routed port an address of a /31 of its own, every second one.",
        )
