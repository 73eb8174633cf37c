"""How the configuration says bundles and the pair.

Lines and their order: aristanetworks/avd, captures of vEOS 4.29 (sources.md#eos).
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.switches.eos.config import Config, Port
from lab.switches.eos.grammar import collapse


def member_lines(port: Port) -> Iterator[str]:
    """The bundle that a port is in."""
    if port.group is not None:
        number, mode = port.group
        yield f"channel-group {number} mode {mode}"


def bundle_lines(port: Port) -> Iterator[str]:
    """What a bundle has beside the lines of every switch port."""
    yield from (f"switchport trunk group {group}" for group in port.trunk_groups)
    if port.mlag is not None:
        yield f"mlag {port.mlag}"


def tree_lines(config: Config) -> Iterator[str]:
    """VLANs without spanning tree, in one line."""
    if config.no_tree:
        yield from (f"no spanning-tree vlan-id {collapse(config.no_tree)}", "!")


def mlag_lines(config: Config) -> Iterator[str]:
    """`mlag configuration`, as AVD orders it."""
    held = config.mlag
    if held is None:
        return
    said = (
        ("domain-id", held.domain),
        ("local-interface", held.local_interface),
        ("peer-address", held.peer_address),
        ("peer-address heartbeat", held.heartbeat),
        ("peer-link", held.peer_link),
    )
    yield "mlag configuration"
    yield from (f"   {key} {value}" for key, value in said if value is not None)
    yield from (f"   reload-delay {kind} {n}" for kind, n in sorted(held.reload_delay.items()))
    if held.shutdown:
        yield "   shutdown"
    yield "!"
