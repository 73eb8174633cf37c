"""The state of an emulated Cumulus switch: NVUE's revisions as trees, and its counters.

A tree holds only explicit settings. In factory state it is empty, every port is shut (the vendor's
quick start), and the MTU is 9216. The RoCE numbers come from the vendor's page on RDMA over
Converged Ethernet (lab/sources.md#cumulus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, cast

from pydantic import JsonValue

from lab.switches import stored
from lab.switches.stored import Part
from lab.views import BfdView, RouterView

Tree = dict[str, JsonValue]
RoceMode = Literal["lossless", "lossy"]
Trust = Literal["L2", "L3", "both", "port"]

FACTORY_MTU_BYTES = 9216
BRIDGE = "br_default"
ECN_KIB = (146, 1464)
"""150,000 and 1,500,000 bytes; printed as 146.48 KB and 1.43 MB."""
TRUST_WORDS: dict[str, Trust] = {"l2": "L2", "l3": "L3", "both": "both", "port": "port"}


NV_S = 1.2
"""Seconds of one `nv`: 1.2 to 2.4 for each `nv set` on 5.14 (NVIDIA's bug 4491397).

The bug is named in the test of `nv config patch` with 30,000 lines. The extra time of an apply is
not public.
"""


class Unconfirmed(Part):
    """A temporarily applied revision, and the tree before it."""

    revision: str
    before: Tree


class Stored(stored.Stored):
    """The state that one switch keeps on disk in the lab."""

    applied: Tree = {}
    """The tree in force."""
    startup: Tree = {}
    """The tree that the next boot loads."""
    pending: Tree | None = None
    """The tree with settings that are not applied yet; None without such settings."""
    revision: int = 1
    history: dict[str, tuple[str, str]] = {}
    """Revision to its state and the message of its apply."""
    unconfirmed: Unconfirmed | None = None
    """The revision that the switch reverts unless a user confirms it."""


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; a missing one is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def roce_mode(tree: Tree) -> RoceMode | None:
    """The RoCE profile in force; `nv set qos roce` alone is lossless (the vendor's page)."""
    roce = child(tree, "qos", "roce")
    return cast("RoceMode", roce.get("mode", "lossless")) if roce else None


def admin_up(tree: Tree, port: str) -> bool:
    """Whether a port is not shut: the configuration names it, and not as down."""
    interfaces = child(tree, "interface")
    return port in interfaces and "down" not in child(interfaces, port, "link", "state")


def mtu_bytes(tree: Tree, port: str) -> int:
    """The MTU of a port."""
    found = child(tree, "interface", port, "link").get("mtu", FACTORY_MTU_BYTES)
    return cast("int", found)


def port_trust(tree: Tree, port: str) -> Trust:
    """How a port classifies: by its own mapping profile, else the RoCE profile's, else PCP.

    PCP in factory state is a guess.
    """
    profile = child(tree, "interface", port, "qos", "mapping").get("profile")
    if isinstance(profile, str):
        return TRUST_WORDS[str(child(tree, "qos", "mapping", profile).get("trust", "l2"))]
    return "both" if roce_mode(tree) else "L2"


def expand(text: str) -> Iterator[str]:
    """Spell out `swp1-3,swp7` and `10-12,20`."""
    for part in text.split(","):
        found = re.fullmatch(r"(|[A-Za-z]+|swp\d+s)(\d+)-(\d+)", part)
        if found is None:
            yield part
            continue
        for number in range(int(found[2]), int(found[3]) + 1):
            yield f"{found[1]}{number}"


_MAX_PATHS = 64
"""Number of equal paths that Cumulus uses by default."""


def router_view(switch: str, tree: Tree) -> RouterView:
    """Addresses of routed ports and of the bridge's VLANs, and BGP of the default VRF.

    If the bridge lacks a VLAN, that VLAN's interface stays down, and so do its address and network.
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
    """The BFD times of a neighbour: its own, or those of its profile; None if BFD is off."""
    if "profile" not in held:
        return held if held.get("enable") == "on" else None
    on = child(tree, "router", "bfd").get("state") == "enabled"
    return child(tree, "router", "bfd", "profile", str(held["profile"])) if on else None


def _bfd(held: Tree) -> BfdView:
    """BFD times of one neighbour; unset ones have FRR's defaults."""
    names = ("detect-multiplier", "min-rx-interval", "min-tx-interval")
    plain = BfdView()
    defaults = (plain.multiplier, plain.receive_ms, plain.send_ms)
    said = [held.get(name, default) for name, default in zip(names, defaults, strict=True)]
    return BfdView(*(int(str(each)) for each in said))
