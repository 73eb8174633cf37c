"""Where a rail is: on which leaf each host of it is, and which subnet that leaf has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host, Nic
from components.model.once import once
from components.model.reach import is_machine_ipv4

_TWO_ENDS: Final = 31
"""Prefix length of a network of two addresses."""


@dataclass(frozen=True, slots=True)
class RailSubnet:
    """One subnet of a rail, whose machines reach each other without a router."""

    rail: str
    leaf: str
    """The leaf that has it; empty where the rail is one subnet."""
    network: IPv4Network
    gateway: IPv4Address | None


@once
def is_flat(spec: ClusterSpec) -> bool:
    """Whether all rails are one network: several rails with one VLAN and one subnet.

    Each card and pod then has all others of every rail as its neighbours.
    """
    networks = {(rail.vlan, rail.subnet) for rail in spec.rails}
    return len(spec.rails) > 1 and len(networks) == 1 and not any(r.leaves for r in spec.rails)


@once
def shares_resource(spec: ClusterSpec) -> bool:
    """Whether all rails have one extended resource, so that a VF of it may be of any rail."""
    names = {rail.resource for rail in spec.rails}
    return spec.pod_network.mode == "sriov" and len(spec.rails) > 1 and len(names) == 1


def has_way(spec: ClusterSpec, one: Rail, other: Rail) -> bool:
    """Whether pods on one rail reach another one; in the host's network a gateway is a way."""
    ways = [route.to for route in spec.pod_network.routes if route.rail == one.name]
    by_host = spec.pod_network.host_network and all(each.gateway for each in subnets_of(one))
    return is_flat(spec) or by_host or any(other.subnet.subnet_of(to) for to in ways)


def subnets_of(rail: Rail) -> tuple[RailSubnet, ...]:
    """The subnets of a rail: one, or one on each of its leaves, in the order of the file."""
    if not rail.leaves:
        return (RailSubnet(rail.name, "", rail.subnet, rail.gateway),)
    return tuple(
        RailSubnet(rail.name, leaf, each.subnet, each.gateway) for leaf, each in rail.leaves.items()
    )


@once
def leaves_of_hosts(spec: ClusterSpec) -> Mapping[tuple[str, str], str]:
    """Host and rail to the switch that the host's card there is plugged into; of two the first."""
    found: dict[tuple[str, str], str] = {}
    for switch in spec.switches:
        for port in switch.ports.values():
            host, slash, rail = port.to.partition("/")
            if slash:
                found.setdefault((host, rail), switch.name)
    return found


@once
def routed_cards(spec: ClusterSpec) -> frozenset[tuple[str, str]]:
    """Host and rail of each card that is plugged into a routed port."""
    found: set[tuple[str, str]] = set()
    for switch in spec.switches:
        for port in switch.ports.values():
            host, slash, rail = port.to.partition("/")
            if slash and port.mode == "routed":
                found.add((host, rail))
    return frozenset(found)


def link_of(address: IPv4Address) -> tuple[IPv4Network, IPv4Address]:
    """The network of a card on a routed port, of two addresses (RFC 3021), and the switch's one."""
    network = IPv4Network((address, _TWO_ENDS), strict=False)
    return network, next(each for each in network if each != address)


def link_address(card: Nic) -> IPv4Address | None:
    """The address at the host's end of a routed port: the card's own, or that of its one pod.

    None: it has none, or the file has a placeholder there.
    """
    text = card.address or card.pod_address or ""
    return IPv4Address(text) if is_machine_ipv4(text) else None


@once
def pod_links(spec: ClusterSpec) -> Mapping[str, Mapping[str, IPv4Address]]:
    """Rail to worker to the address of the one pod there, where cards are on routed ports."""
    found: dict[str, dict[str, IPv4Address]] = {}
    for host in spec.workers:
        for nic in host.nics:
            if nic.pod_address is not None and (host.name, nic.rail) in routed_cards(spec):
                found.setdefault(nic.rail, {})[host.name] = IPv4Address(nic.pod_address)
    return found


def _own_link(spec: ClusterSpec, rail: Rail, host: Host) -> RailSubnet | None:
    card = next((nic for nic in host.nics if nic.rail == rail.name), None)
    address = link_address(card) if card is not None else None
    if address is None or (host.name, rail.name) not in routed_cards(spec):
        return None
    network, gateway = link_of(address)
    return RailSubnet(rail.name, "", network, gateway)


def subnet_of(spec: ClusterSpec, rail: Rail, host: Host) -> RailSubnet | None:
    """The subnet in which a host's card on a rail is; None: its leaf has none of this rail.

    A card on a routed port has a network of its own, with the switch as its gateway.
    """
    own = _own_link(spec, rail, host)
    if own is not None:
        return own
    if not rail.leaves:
        return RailSubnet(rail.name, "", rail.subnet, rail.gateway)
    leaf = leaves_of_hosts(spec).get((host.name, rail.name), "")
    found = rail.leaves.get(leaf)
    return RailSubnet(rail.name, leaf, found.subnet, found.gateway) if found else None
