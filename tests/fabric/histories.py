"""What somebody may have typed on a switch before us, by its system."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tests.fabric import (
    test_cumulus_exchange,
    test_eos_exchange,
    test_exchange,
    test_sonic_exchange,
)
from tests.fabric.test_sonic_exchange import merge

Lines = st.SearchStrategy[list[str]]
EOS_ROUTING = st.sampled_from(
    [
        "ip routing",
        "ip routing ipv6 interfaces",
        "ipv6 unicast-routing",
        "router bgp {asn};router-id 10.9.9.9",
        "router bgp {asn};maximum-paths 4 ecmp 4",
        "router bgp {asn};neighbor 10.1.1.1 remote-as 65009;network 10.77.0.0/24",
        "router bgp {asn};neighbor RAILYARD peer group;neighbor RAILYARD bfd",
        "router bgp {asn};neighbor U peer group;neighbor interface Et29/1 peer-group U remote-as 6",
        "router bgp {asn};maximum-paths 8;address-family ipv4;network 10.255.0.9/32",
        "interface Loopback0;description router",
        "interface Loopback1;ip address 10.9.9.9/32",
        "interface Vlan111;mtu 4000",
        "interface Vlan20;ip address 10.20.0.1/24",
        "interface Ethernet29/1;no switchport;ip address 10.1.1.0/31;mtu 3000",
        "interface Ethernet30/1;ipv6 enable",
    ]
)
SONIC_ROUTING = st.sampled_from(
    [
        merge('{"INTERFACE":{"Ethernet224":{},"Ethernet224|10.1.1.0/31":{}}}'),
        merge('{"INTERFACE":{"Ethernet232":{"ipv6_use_link_local_only":"enable"}}}'),
        merge('{"LOOPBACK_INTERFACE":{"Loopback0":{},"Loopback0|10.9.9.9/32":{}}}'),
        merge('{"LOOPBACK_INTERFACE":{"Loopback0":{},"Loopback0|10.255.0.1/32":{}}}'),
        merge('{"BGP_GLOBALS":{"default":{"local_asn":"65101","router_id":"10.9.9.9"}}}'),
        merge('{"BGP_GLOBALS":{"default":{"local_asn":"64999"}}}'),
        merge('{"BGP_GLOBALS_AF":{"default|ipv4_unicast":{"max_ebgp_paths":"4"}}}'),
        merge('{"BGP_GLOBALS_AF_NETWORK":{"default|ipv4_unicast|10.77.0.0/24":{}}}'),
        merge('{"BGP_NEIGHBOR":{"default|10.1.1.1":{"asn":"65009"}}}'),
        merge('{"BGP_NEIGHBOR":{"default|Ethernet224":{"peer_type":"internal"}}}'),
        merge('{"BGP_NEIGHBOR":{"default|Ethernet232":{"asn":"65001","bfd":"true"}}}'),
        merge('{"ROUTE_MAP":{"ALL|1":{"route_operation":"permit"}},"ROUTE_MAP_SET":{"ALL":{}}}'),
        merge('{"ROUTE_MAP":{"RAILYARD|20":{"route_operation":"deny"}}}'),
        merge(
            '{"BGP_NEIGHBOR_AF":{"default|Ethernet224|ipv4_unicast":'
            '{"admin_status":"true","route_map_in":["ALL"]}}}'
        ),
    ]
)
CUMULUS_ROUTING = st.sampled_from(
    [
        "nv set router bgp autonomous-system 64999",
        "nv set router bgp router-id 10.9.9.9",
        "nv set vrf default router bgp neighbor swp9 remote-as external",
        "nv set vrf default router bgp neighbor swp29 remote-as 65001",
        "nv set vrf default router bgp neighbor swp49 remote-as external",
        "nv set vrf default router bgp neighbor swp10 remote-as 65001",
        "nv set vrf default router bgp neighbor swp49 description uplink",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.77.0.0/24",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.255.0.1/32",
        "nv set interface lo ip address 10.9.9.9/32",
        "nv set interface lo ip address 10.255.0.1/32",
        "nv set interface vlan111 ip address 10.10.111.1/24",
        "nv set interface vlan111 ip address 10.66.0.1/24",
        "nv set interface vlan20 ip address 10.20.0.1/24",
        "nv set interface swp49 qos pfc-watchdog state enable",
        "nv set interface swp1 qos pfc-watchdog state disable",
        "nv set interface swp49 ip address 10.1.1.0/31",
        "nv set interface swp49 bridge domain br_default access 10",
        # The mode is always written: undo says it, and what a length alone means is not public.
        "nv set qos roce mode lossless; nv set qos roce cable-length 40",
    ]
)
CUMULUS_ANY = st.one_of(CUMULUS_ROUTING, test_cumulus_exchange.HISTORIES.map(" ; ".join))
EOS_ANY = st.one_of(EOS_ROUTING, st.integers(1, 6).flatmap(test_eos_exchange.line_of))
PLAIN: Final[dict[str, Lines]] = {
    "onyx": test_exchange.HISTORIES,
    "cumulus": st.lists(CUMULUS_ANY, max_size=8),
    "eos": test_eos_exchange.HISTORIES,
    "sonic": test_sonic_exchange.HISTORIES,
}
"""On a switch that need not be routed."""
HISTORIES: Final[dict[str, Lines]] = {
    **PLAIN,
    "eos": st.lists(EOS_ANY, max_size=10),
    "sonic": st.lists(st.one_of(SONIC_ROUTING, test_sonic_exchange.LINES), max_size=10),
}
"""On one that may be; `{asn}` is the number of its own."""
TAKES: Final = ("qos clear", "CABLE_LENGTH", "buffer_model", "to tx-queue")
"""What of others is refused before a change (test_sonic_refusals.py, WHY.md of EOS)."""


def without(lines: list[str], *words: str) -> list[str]:
    """The lines with none of some words."""
    return [line for line in lines if not any(word in line for word in words)]
