"""The cables of `make lab-pods`: bridges for management and for each rail, veth to each node.

All of it lies in a network namespace of the lab's own, so no interface of the machine is touched.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

from components.core.errors import DeviceError
from components.core.record import record
from lab.pods.configs import CONTROL_PLANE
from lab.pods.node import Node

MANAGEMENT_BRIDGE: Final = "management"
MANAGEMENT_PORT: Final = "eth0"
"""What a node calls its port in the network of nodes."""
SPARE_CARD: Final = "enp77s0"
"""What a node calls the card that a pod gets whole."""
SPARE_PORT: Final = "spare"


@record
class RailCable:
    """One rail: the bridge that plays its leaf, and what the nodes call their cards on it."""

    bridge: str
    netdev: str
    mtu_bytes: int
    leaf_mtu_bytes: int


def lay_site(rails: Sequence[RailCable]) -> None:
    """Make the bridges in the namespace that this process is in."""
    ip("link", "set", "lo", "up")
    ip("link", "add", MANAGEMENT_BRIDGE, "type", "bridge")
    ip("address", "add", f"{CONTROL_PLANE}/24", "dev", MANAGEMENT_BRIDGE)
    ip("link", "set", MANAGEMENT_BRIDGE, "up")
    for rail in rails:
        ip("link", "add", rail.bridge, "mtu", str(rail.leaf_mtu_bytes), "type", "bridge")
        ip("link", "set", rail.bridge, "up")


def plug_in(node: Node, others: Sequence[Node], rails: Sequence[RailCable]) -> None:
    """Give a node its port in the network of nodes and a card on every rail.

    Args:
        node: A node that has booted.
        others: The other nodes; their pods are reached by their addresses, as flannel's `host-gw`
            does it.
        rails: All rails.
    """
    _cable(node, MANAGEMENT_BRIDGE, MANAGEMENT_PORT, (1500, 1500))
    address = node.addresses.management
    node.run("ip", "link", "set", "lo", "up")
    node.run("ip", "address", "add", f"{address}/24", "dev", MANAGEMENT_PORT)
    # Addresses of Services are no machine's; a node must have a route on which they are rewritten.
    node.run("ip", "route", "add", "default", "via", CONTROL_PLANE)
    for other in others:
        if other.number != node.number:
            node.run("ip", "route", "add", other.addresses.pods, "via", other.addresses.management)
    ip("route", "replace", node.addresses.pods, "via", address)
    for rail in rails:
        _cable(node, rail.bridge, rail.netdev, (rail.leaf_mtu_bytes, rail.mtu_bytes))


def plug_in_spare(node: Node, rail: RailCable) -> None:
    """Give a node one more card on a rail, which nothing uses: a pod may have it whole."""
    _cable(node, rail.bridge, SPARE_CARD, (rail.leaf_mtu_bytes, rail.mtu_bytes), SPARE_PORT)


def _cable(
    node: Node, bridge: str, netdev: str, mtus: tuple[int, int], port_name: str = ""
) -> None:
    port, (far, near) = port_name or f"{bridge[:10]}-{node.number}", mtus
    # The kernel takes the namespace of a node that died apart later, and this port with it.
    subprocess.run(["ip", "link", "delete", port], capture_output=True, check=False, timeout=30)
    peer = ("peer", "name", netdev, "netns", str(node.pid), "mtu", str(near))
    ip("link", "add", port, "mtu", str(far), "type", "veth", *peer)
    ip("link", "set", port, "master", bridge, "up")
    node.run("ip", "link", "set", netdev, "up")


def ip(*words: str) -> None:
    """Run `ip` in the network that this process is in.

    Raises:
        DeviceError: It refused.
    """
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise DeviceError(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
