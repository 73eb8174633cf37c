"""Addresses of a rail that no pod gets: those of the probe's server, of cards, and of the file."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, summarize_address_range

from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.infiniband import IbRail


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """Addresses from one to another, both of them too."""

    first: IPv4Address
    last: IPv4Address

    def networks(self) -> tuple[str, ...]:
        """The same as networks, as whereabouts wants them."""
        ends = sorted((self.first, self.last))
        return tuple(str(each) for each in summarize_address_range(*ends))


def probe_address(rail: Rail) -> IPv4Address:
    """The address kept for the perftest server: the last one of the rail's subnet."""
    return rail.subnet[-2]


def kept_addresses(spec: ClusterSpec, rail: Rail | IbRail) -> tuple[Kept, ...]:
    """What pods do not get, beside the gateway: the probe's address, the cards', the file's."""
    single: list[IPv4Address] = []
    if isinstance(rail, Rail):
        nics = (nic for host in spec.hosts for nic in host.nics if nic.rail == rail.name)
        cards = [IPv4Address(nic.address) for nic in nics if nic.address is not None]
        single = [probe_address(rail), *cards]
    written = [
        Kept(each.first, each.last or each.first)
        for each in spec.pod_network.exclusions
        if each.rail == rail.name
    ]
    return (*(Kept(address, address) for address in single), *written)
