"""What an emulated Cumulus switch routes by, read off its tree (sources.md#cumulus)."""

from __future__ import annotations

from lab.switches.cumulus.config import BRIDGE, Tree, child
from lab.switches.cumulus.nvue import expand
from lab.views import RouterView


def router_view(switch: str, tree: Tree) -> RouterView:
    """Addresses of VLANs that the bridge has, and BGP of the default VRF.

    An interface of a VLAN that the bridge has not stays down, and so do its address and network.
    """
    interfaces = child(tree, "interface")
    vlans = {
        f"vlan{number}"
        for key in child(tree, "bridge", "domain", BRIDGE, "vlan")
        for number in expand(key)
    }
    addresses = {
        name: tuple(child(interfaces, name, "ip", "address"))
        for key in interfaces
        for name in expand(key)
        if name == "lo" or name in vlans
    }
    own = child(tree, "vrf", "default", "router", "bgp")
    asn = own.get("autonomous-system", child(tree, "router", "bgp").get("autonomous-system"))
    neighbors = child(own, "neighbor")
    family = child(own, "address-family", "ipv4-unicast")
    return RouterView(
        switch=switch,
        addresses=addresses,
        asn=int(asn) if isinstance(asn, int | str) and str(asn).isdigit() else None,
        neighbors={
            name: str(child(neighbors, key).get("remote-as", ""))
            for key in neighbors
            for name in expand(key)
        },
        networks=tuple(child(family, "network")),
    )
