"""What an emulated Cumulus switch holds: NVUE's revisions as trees, and its counters.

A tree holds only what somebody set. Factory: it is empty, every port is shut (the vendor's quick
start), the MTU is 9216. The RoCE numbers are those of the vendor's page on RDMA over Converged
Ethernet (docs/explanation/sources.md#cumulus).
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import JsonValue

from lab.switches import stored
from lab.switches.stored import Part

Tree = dict[str, JsonValue]
RoceMode = Literal["lossless", "lossy"]
Trust = Literal["L2", "L3", "both", "port"]

FACTORY_MTU_BYTES = 9216
BRIDGE = "br_default"
ECN_KIB = (146, 1464)
"""150,000 and 1,500,000 bytes; printed as 146.48 KB and 1.43 MB."""
TRUST_WORDS: dict[str, Trust] = {"l2": "L2", "l3": "L3", "both": "both", "port": "port"}


NV_S = 1.2
"""Seconds of one `nv`: 1.2 to 2.4 for each `nv set` on 5.14 (NVIDIA's bug 4491397, named in the
test of `nv config patch` with 30,000 lines). How much longer an apply takes is not public."""


class Unconfirmed(Part):
    """What was applied for a while, and what was there before it."""

    revision: str
    before: Tree


class Stored(stored.Stored):
    """What one switch keeps on its disk in the lab."""

    applied: Tree = {}
    """What is in force."""
    startup: Tree = {}
    """What the next boot loads."""
    pending: Tree | None = None
    """What was set and is not applied; None: nothing was."""
    revision: int = 1
    history: dict[str, tuple[str, str]] = {}
    """Revision to its state and the message of its apply."""
    unconfirmed: Unconfirmed | None = None
    """What the switch takes back unless somebody confirms it."""


def front_number(port: str) -> int:
    """The number on the front panel: 3 of `swp3`, and of its part `swp3s1`."""
    return int(port.removeprefix("swp").partition("s")[0])


def child(tree: Tree, *path: str) -> Tree:
    """The subtree at a path; what is not there is empty."""
    here: JsonValue = tree
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def roce_mode(tree: Tree) -> RoceMode | None:
    """The RoCE profile in force; `nv set qos roce` alone is lossless (the vendor's page)."""
    roce = child(tree, "qos", "roce")
    return cast("RoceMode", roce.get("mode", "lossless")) if roce else None


def admin_up(tree: Tree, port: str) -> bool:
    """Whether a port is not shut: it stands in the configuration, and not as down."""
    interfaces = child(tree, "interface")
    return port in interfaces and "down" not in child(interfaces, port, "link", "state")


def mtu_bytes(tree: Tree, port: str) -> int:
    """The MTU of a port."""
    found = child(tree, "interface", port, "link").get("mtu", FACTORY_MTU_BYTES)
    return cast("int", found)


def port_trust(tree: Tree, port: str) -> Trust:
    """What a port classifies by: its own mapping profile, else the RoCE profile's, else PCP.

    PCP on a switch that nobody has touched is a guess.
    """
    profile = child(tree, "interface", port, "qos", "mapping").get("profile")
    if isinstance(profile, str):
        return TRUST_WORDS[str(child(tree, "qos", "mapping", profile).get("trust", "l2"))]
    return "both" if roce_mode(tree) else "L2"
