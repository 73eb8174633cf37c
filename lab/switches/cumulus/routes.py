"""What an emulated Cumulus switch routes by, read off its tree (sources.md#cumulus)."""

from __future__ import annotations

from lab.switches.cumulus.config import BRIDGE, Tree, child
from lab.switches.cumulus.values import expand
from lab.views import BfdView, RouterView

_MAX_PATHS = 64
"""Equal paths that Cumulus uses at once by default."""


def router_view(switch: str, tree: Tree) -> RouterView:
    """Addresses of routed ports and of VLANs that the bridge has, and BGP of the default VRF.

    An interface of a VLAN that the bridge has not stays down, and so do its address and network.
    """
    interfaces, common = child(tree, "interface"), child(tree, "router", "bgp")
    vlans = {
        f"vlan{number}"
        for key in child(tree, "bridge", "domain", BRIDGE, "vlan")
        for number in expand(key)
    }
    addresses = {
        name: _addresses(interfaces, key)
        for key in interfaces
        for name in expand(key)
        if name == "lo" or name in vlans or (name.startswith("swp") and _addresses(interfaces, key))
    }
    own = child(tree, "vrf", "default", "router", "bgp")
    asn = own.get("autonomous-system", common.get("autonomous-system"))
    neighbors, family = child(own, "neighbor"), child(own, "address-family", "ipv4-unicast")
    router_id = own.get("router-id", common.get("router-id"))
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
        router_id=str(router_id) if router_id is not None else None,
        drained=common.get("graceful-shutdown") in {"on", "enabled"},
        max_paths=int(str(child(family, "multipaths").get("ebgp", _MAX_PATHS))),
        bfd={
            name: _bfd(held)
            for key in neighbors
            for name in expand(key)
            if (held := _times(tree, child(neighbors, key, "bfd"))) is not None
        },
    )


def _addresses(interfaces: Tree, key: str) -> tuple[str, ...]:
    return tuple(
        each for part in ("ip", "ipv4") for each in child(interfaces, key, part, "address")
    )


def _times(tree: Tree, held: Tree) -> Tree | None:
    """Where the times of a neighbour are: at the neighbour, or in the profile that it names."""
    if "profile" not in held:
        return held if held.get("enable") == "on" else None
    on = child(tree, "router", "bfd").get("state") == "enabled"
    return child(tree, "router", "bfd", "profile", str(held["profile"])) if on else None


def _bfd(held: Tree) -> BfdView:
    """Times of one neighbour; what is not set is as FRR has it."""
    names = ("detect-multiplier", "min-rx-interval", "min-tx-interval")
    plain = BfdView()
    defaults = (plain.multiplier, plain.receive_ms, plain.send_ms)
    said = [held.get(name, default) for name, default in zip(names, defaults, strict=True)]
    return BfdView(*(int(str(each)) for each in said))
