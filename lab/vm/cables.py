"""The networks of guests that are nodes: management over a bridge of the lab's own, and the cable.

Both lie in a network namespace of the lab's own (`lab.pods.enter`).
"""

from __future__ import annotations

from typing import Final

from lab.pods.configs import NodeAddresses
from lab.pods.network import MANAGEMENT_BRIDGE, ip, lay_site

TAP: Final = "guest"
"""Prefix of the interfaces that QEMU plugs the management cards into."""


def lay_cables(nodes: tuple[NodeAddresses, ...]) -> None:
    """Make a bridge with a port for each guest, and let the loopback device carry multicast."""
    lay_site(())
    # The cable between the cards is a multicast socket, and a new namespace routes none.
    ip("link", "set", "lo", "multicast", "on")
    ip("route", "add", "224.0.0.0/4", "dev", "lo")
    for node in nodes:
        port = f"{TAP}{node.number}"
        ip("tuntap", "add", port, "mode", "tap")
        ip("link", "set", port, "master", MANAGEMENT_BRIDGE, "up")
        ip("route", "replace", node.pods, "via", node.management)
