"""Several rails on one host: each address answers and sends by its own card only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.rail_subnets import RailSubnet, subnet_of

FIRST_TABLE: Final = 7400
"""Routing table, and priority of its rule, of a host's first card; the next has the next number.

Our choice: below the tables of the kernel (253-255) nothing is free of CNI plugins (Calico takes
1-250, Cilium 2004 and 2005), and a priority above 32766 would come after the main table.
"""

CARD_SYSCTLS: Final = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
"""What makes each card answer for its own address alone."""


def routing_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """A table and a rule for each card's address: what it sends leaves by that card."""
    if not _routed(spec, host):
        return {}
    routes_of: dict[str, str] = {}
    for number, subnet, nic in routed_cards(spec, host):
        table = FIRST_TABLE + number
        routes = [f"{subnet.network} dev {nic.netdev} scope link src {nic.address}"]
        if subnet.gateway is not None:
            routes.append(f"default via {subnet.gateway} dev {nic.netdev}")
        routes_of[f"route.{table}.table"] = ",".join(sorted(routes))
        routes_of[f"route.{table}.rule"] = f"from {nic.address} lookup {table}"
    return routes_of


def rail_sysctls(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """ARP and reverse-path settings of each card, where a host has several with addresses.

    With the kernel's defaults a host answers on any card for all its addresses ("ARP flux"), and
    strict reverse-path filtering drops what comes in by another card than the main table's route
    (kernel documentation, ip-sysctl: arp_ignore, arp_announce, rp_filter; the greater of `all` and
    the device counts, so the cards' own values suffice).
    """
    cards = routed_cards(spec, host)
    if len(cards) < 2 or not _routed(spec, host):  # noqa: PLR2004 - one card cannot be confused
        return {}
    return {
        f"{conf_name(nic.netdev)}.{key}": value
        for _, _, nic in cards
        for key, value in CARD_SYSCTLS.items()
    }


def conf_name(netdev: str) -> str:
    """How the IPv4 settings of a network device begin; a dot inside a name is a slash there."""
    return f"net.ipv4.conf.{netdev.replace('.', '/')}"


def _routed(spec: ClusterSpec, host: Host) -> bool:
    cards = routed_cards(spec, host)
    needed = len(cards) > 1 or any(subnet.gateway for _, subnet, _ in cards)
    return needed and spec.settings_of(host).kernel.source_routing == "auto"


def routed_cards(spec: ClusterSpec, host: Host) -> list[tuple[int, RailSubnet, Nic]]:
    """The cards with an address on a rail: their number on the host, and their subnet."""
    found: list[tuple[int, RailSubnet, Nic]] = []
    for number, nic in enumerate(host.nics):
        rail = spec.rail(nic.rail)
        subnet = subnet_of(spec, rail, host) if rail is not None else None
        if subnet is not None and nic.address is not None:
            found.append((number, subnet, nic))
    return found
