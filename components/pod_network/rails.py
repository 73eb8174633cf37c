"""The rail of each HCA of a worker, and the pools that give pods of a rail addresses. Pure.

A rail has one pool, or one for each leaf. This module decides their contents, and each IPAM renders
them in its own form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, summarize_address_range

from components.core.record import record
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.infiniband import IbRail
from components.model.once import once
from components.model.places import RailSubnet, is_flat, pod_links, subnet_of, subnets_of


def ib_rails(spec: ClusterSpec) -> tuple[IbRail, ...]:
    """The rails of a fabric with our own switches; empty on a cloud, whose HCAs vary in place."""
    return spec.infiniband.rails if spec.infiniband else ()


def rail_ports(host: Host, rail: IbRail) -> tuple[HcaPf, ...]:
    """The ports of a host on a rail: one, or the site is refused."""
    return tuple(port for port in host.hca_sriov if port.rail == rail.name)


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """Reserved addresses, from the first to the last, both included."""

    first: IPv4Address
    last: IPv4Address

    def networks(self) -> tuple[str, ...]:
        """The addresses as networks, in whereabouts' form."""
        ends = sorted((self.first, self.last))
        return tuple(str(each) for each in summarize_address_range(*ends))


@record
class Pool:
    """The addresses of pods in one subnet of a rail."""

    rail: str
    leaf: str
    """The leaf with the subnet; empty if the rail is one subnet."""
    network: IPv4Network
    gateway: IPv4Address | None
    kept: tuple[Kept, ...]
    """Addresses that pods never get: the probe's server first, the gateway, the cards, and those
    that the file excludes."""
    whole: IPv4Network | None
    """The whole rail: its other leaves are behind the gateway; None if the rail is one subnet."""
    nodes: tuple[str, ...]
    """The nodes of the workers with a card in it, in the order of the file."""

    @property
    def probe(self) -> IPv4Address:
        """The address of the probe's server."""
        return self.kept[0].first


@once
def pools_of(spec: ClusterSpec) -> Mapping[str, tuple[Pool, ...]]:
    """Rail to its pools, in the order of the file; empty if each card has a separate network."""
    cards: dict[tuple[str, str], list[IPv4Address]] = {}
    nodes: dict[tuple[str, str], list[str]] = {}
    for host in spec.hosts:
        for nic in host.nics:
            rail = spec.rail(nic.rail)
            subnet = subnet_of(spec, rail, host) if rail is not None else None
            if rail is None or subnet is None:
                continue
            if nic.address is not None:
                # On a flat fabric the cards of all rails are listed under the first.
                owner = spec.rails[0] if is_flat(spec) else rail
                own = cards.setdefault((owner.name, subnet.leaf), [])
                own.append(IPv4Address(nic.address))
            if host.role == "worker":
                nodes.setdefault((rail.name, subnet.leaf), []).append(host.node)
    return {
        rail.name: tuple(
            _pool(spec, rail, subnet, cards, tuple(nodes.get((rail.name, subnet.leaf), ())))
            for subnet in (() if rail.name in pod_links(spec) else subnets_of(rail))
        )
        for rail in spec.rails
    }


def _pool(
    spec: ClusterSpec,
    rail: Rail,
    subnet: RailSubnet,
    cards: Mapping[tuple[str, str], list[IPv4Address]],
    nodes: tuple[str, ...],
) -> Pool:
    gateway = [] if subnet.gateway is None else [subnet.gateway]
    alike = spec.rails if is_flat(spec) else (rail,)
    probes = {each.name: probe_address(subnet.network, n) for n, each in enumerate(alike)}
    own = cards.get((alike[0].name, subnet.leaf), ())
    single = (probes.pop(rail.name), *probes.values(), *gateway, *own)
    listed = (kept for each in alike for kept in written_exclusions(spec, each.name))
    begin, end = subnet.network[0], subnet.network[-1]
    written = (kept for kept in listed if kept.first <= end and begin <= kept.last)
    return Pool(
        rail=rail.name,
        leaf=subnet.leaf,
        network=subnet.network,
        gateway=subnet.gateway,
        kept=(*(Kept(each, each) for each in single), *written),
        whole=rail.subnet if rail.leaves else None,
        nodes=nodes,
    )


def pool_of(spec: ClusterSpec, rail: Rail, host: Host) -> Pool:
    """The pool of a worker's pods on a rail; the rules ensure that it exists."""
    found, place = pools_of(spec)[rail.name], subnet_of(spec, rail, host)
    leaf = place.leaf if place is not None else ""
    return next((pool for pool in found if pool.leaf == leaf), found[0])


def probe_address(subnet: IPv4Network, number: int = 0) -> IPv4Address:
    """The address of a perftest server: the last of its subnet, less the `number` of its rail."""
    return IPv4Address(max(int(subnet.broadcast_address) - 1 - number, 0))


def written_exclusions(spec: ClusterSpec, rail: str) -> tuple[Kept, ...]:
    """The addresses of a rail that the file excludes."""
    found = (each for each in spec.pod_network.exclusions if each.rail == rail)
    return tuple(Kept(each.first, each.last or each.first) for each in found)
