"""Addresses of a rail that no pod gets: those of the probe's server, of cards, and of the file."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, summarize_address_range

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

    def is_in(self, network: IPv4Network) -> bool:
        """Whether some of them are addresses of a network."""
        return self.first <= network[-1] and network[0] <= self.last


def probe_address(subnet: IPv4Network) -> IPv4Address:
    """The address kept for the perftest server: the last one of a rail's subnet."""
    return subnet[-2]


def written_exclusions(spec: ClusterSpec, rail: str) -> tuple[Kept, ...]:
    """The addresses of a rail that the file keeps from pods."""
    found = (each for each in spec.pod_network.exclusions if each.rail == rail)
    return tuple(Kept(each.first, each.last or each.first) for each in found)


def kept_addresses(spec: ClusterSpec, rail: Rail | IbRail) -> tuple[Kept, ...]:
    """What pods do not get, beside the gateway: the probe's address, the cards', the file's."""
    single: list[IPv4Address] = []
    if isinstance(rail, Rail):
        nics = (nic for host in spec.hosts for nic in host.nics if nic.rail == rail.name)
        cards = [IPv4Address(nic.address) for nic in nics if nic.address is not None]
        single = [probe_address(rail.subnet), *cards]
    return (
        *(Kept(address, address) for address in single),
        *written_exclusions(spec, rail.name),
    )
