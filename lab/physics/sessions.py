"""Tells the emulated switches of one lab what their BGP has of each other.

Where the lab runs FRR, its daemons say so themselves (lab/routing).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lab.physics.routed import bgp_of
from lab.switches.emulators import RoutingSwitch
from lab.views import BgpView

End = tuple[str, str]
"""Switch and port."""


def join(switches: Mapping[str, object], links: Mapping[End, End]) -> None:
    """Join the routed ones by the links between them.

    Args:
        switches: The emulators by name; others than routed ones are left alone.
        links: Each end of a link to the other one, in both directions.
    """
    routed = {n: each for n, each in switches.items() if isinstance(each, RoutingSwitch)}
    for name, switch in routed.items():
        switch.told = partial(_told, name, routed, links)


def _told(name: str, switches: Mapping[str, RoutingSwitch], links: Mapping[End, End]) -> BgpView:
    views = {end: switches[end[0]].port_view(end[1]) for end in links if end[0] in switches}
    hops = tuple((views[a], views[b]) for a, b in links.items() if a in views and b in views)
    return bgp_of(name, hops, {n: each.router_view() for n, each in switches.items()})
