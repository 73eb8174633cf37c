"""The ports that a packet may take from one routed leaf to another: which, the switches choose."""

from __future__ import annotations

from collections.abc import Mapping

from components.acceptance.evidence import HopRole
from components.fabric.links import list_links
from components.model.cluster import ClusterSpec
from components.model.once import once

Way = list[tuple[HopRole, str, str]]
"""Role, switch and port of each place."""


@once
def _routed_ports(spec: ClusterSpec) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Two switches that routed links join, to the ports of each link, from the first one's side."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for link in list_links(spec):
        if link.one.port.mode == "routed":
            for end, far in ((link.one, link.other), (link.other, link.one)):
                found.setdefault((end.switch.name, far.switch.name), []).append(
                    (end.name, far.name)
                )
    return {pair: tuple(ports) for pair, ports in found.items()}


def ports_between(spec: ClusterSpec, leaf: str, other: str) -> Way:
    """The uplinks of a leaf, what comes into the spines and leaves them, and the other's uplinks.

    Two leaves with a link of their own use that alone: the way over a spine is longer. Between
    leaves without a common spine nothing is listed.
    """
    ports = _routed_ports(spec)
    way: Way = []
    for here, there in ports.get((leaf, other), ()):
        way.extend([("uplink_egress", leaf, here), ("downlink_ingress", other, there)])
    spines = [far for near, far in ports if near == leaf and (far, other) in ports]
    for spine in spines if not way else ():
        for here, there in ports[leaf, spine]:
            way.extend([("uplink_egress", leaf, here), ("spine_ingress", spine, there)])
        for here, there in ports[spine, other]:
            way.extend([("spine_egress", spine, here), ("downlink_ingress", other, there)])
    return way
