"""Which port is in which VLAN: what drivers of Ethernet switches have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.fabric.state import PortState


def holders_of(named: Mapping[str, Iterable[int]]) -> dict[int, tuple[str, ...]]:
    """Port to the VLANs that it names, turned round: `Reading.vlan_holders`."""
    holders: dict[int, tuple[str, ...]] = {}
    for name, vlans in named.items():
        for vlan in {*vlans}:
            holders[vlan] = (*holders.get(vlan, ()), name)
    return holders


def fill_membership(was: PortState, port: PortState) -> PortState:
    """A target of which only some VLAN settings are ours: the others stay as they are."""
    if port.mode is not None and port.mode != was.mode:
        return port
    changes: dict[str, object] = {"mode": was.mode}
    if port.access_vlan is None:
        changes["access_vlan"] = was.access_vlan
    if port.trunk_vlans is None:
        changes["trunk_vlans"] = was.trunk_vlans
    return port.model_copy(update=changes)
