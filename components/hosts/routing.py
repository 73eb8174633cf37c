"""Several rails on one host: each address answers and sends by its own card only."""

from __future__ import annotations

from typing import Final

from components.hosts.settings import Settings
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host, Nic

FIRST_TABLE: Final = 7400
"""Routing table, and priority of its rule, of a host's first card; the next has the next number.

Our choice: below the tables of the kernel (253-255) nothing is free of CNI plugins (Calico takes
1-250, Cilium 2004 and 2005), and a priority above 32766 would come after the main table.
"""


def routing_settings(spec: ClusterSpec, host: Host) -> Settings:
    """A table and a rule for each card's address: what it sends leaves by that card."""
    if not _routed(spec, host):
        return Settings()
    lost: dict[str, str] = {}
    for number, rail, nic in _addressed(spec, host):
        table = FIRST_TABLE + number
        routes = [f"{rail.subnet} dev {nic.netdev} scope link src {nic.address}"]
        if rail.gateway is not None:
            routes.append(f"default via {rail.gateway} dev {nic.netdev}")
        lost[f"route.{table}.table"] = ",".join(sorted(routes))
        lost[f"route.{table}.rule"] = f"from {nic.address} lookup {table}"
    return Settings(lost=lost)


def rail_sysctls(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """ARP and reverse-path settings of each card, where a host has several with addresses.

    With the kernel's defaults a host answers on any card for all its addresses ("ARP flux"), and
    strict reverse-path filtering drops what comes in by another card than the main table's route
    (kernel documentation, ip-sysctl: arp_ignore, arp_announce, rp_filter; the greater of `all` and
    the device counts, so the cards' own values suffice).
    """
    cards = _addressed(spec, host)
    if len(cards) < 2 or not _routed(spec, host):  # noqa: PLR2004 - one card cannot be confused
        return {}
    each = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
    return {
        f"net.ipv4.conf.{nic.netdev.replace('.', '/')}.{key}": value
        for _, _, nic in cards
        for key, value in each.items()
    }


def _routed(spec: ClusterSpec, host: Host) -> bool:
    cards = _addressed(spec, host)
    needed = len(cards) > 1 or any(rail.gateway for _, rail, _ in cards)
    return needed and spec.settings_of(host).kernel.source_routing == "auto"


def _addressed(spec: ClusterSpec, host: Host) -> list[tuple[int, Rail, Nic]]:
    """The cards with an address: their number on the host, and their rail."""
    found: list[tuple[int, Rail, Nic]] = []
    for number, nic in enumerate(host.nics):
        rail = spec.rail(nic.rail)
        if rail is not None and nic.address is not None:
            found.append((number, rail, nic))
    return found
