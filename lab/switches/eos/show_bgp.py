"""What an emulated EOS switch says of BGP, its routes and BFD (sources.md#eos)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.switches.eos.show import Tree, short
from lab.views import RouterView, RouteView, SessionView


def bgp_summary(view: RouterView, sessions: Mapping[str, SessionView]) -> Tree:
    """`show ip bgp summary | json`.

    A neighbour on a port is there once it was heard, by its link-local address (captures of
    aristanetworks/anta have `fe80::…%Vl4094`).
    """
    peers: Tree = {
        f"fe80::1%{short(name)}" if name.startswith("Ethernet") else name: {
            "version": 4,
            "asn": view.neighbors[name],
            "prefixAccepted": each.networks,
            "prefixReceived": each.networks,
            "underMaintenance": False,
            "peerState": "Established" if each.up else "Idle",
        }
        for name, each in sessions.items()
        if each.up or not name.startswith("Ethernet")
    }
    vrf: Tree = {"vrf": "default", "asn": str(view.asn), "peers": peers}
    return {"vrfs": {"default": vrf if view.asn else {"peers": {}}}}


def routes(found: Sequence[RouteView]) -> Tree:
    """`show ip route | json` of routes by BGP (aristanetworks/anta, `VerifyRoutingTableEntry`).

    That a next hop over a port without an address has the port as others have it is a guess.
    """
    table: Tree = {
        each.network: {
            "hardwareProgrammed": True,
            "routeType": "eBGP",
            "kernelProgrammed": True,
            "routeAction": "forward",
            "directlyConnected": False,
            "preference": 200,
            "metric": 0,
            "vias": [{"nexthopAddr": "fe80::1", "interface": port} for port in each.interfaces],
        }
        for each in found
    }
    return {"vrfs": {"default": {"routes": table}}}


def bfd_peers(sessions: Mapping[str, SessionView]) -> Tree:
    """`show bfd peers | json`."""
    families: dict[str, Tree] = {"ipv4Neighbors": {}, "ipv6Neighbors": {}}
    for number, (name, each) in enumerate(sessions.items(), start=1):
        if each.bfd is None:
            continue
        on_port = name.startswith("Ethernet")
        status: Tree = {
            "status": "up" if each.bfd else "down",
            "l3intf": name if on_port else "",
        }
        stats: Tree = {"peerStats": {name if on_port else "": status}}
        address = f"fe80::{number}" if on_port else name
        families["ipv6Neighbors" if on_port else "ipv4Neighbors"][address] = stats
    return {"vrfs": {"default": {**families}}}
