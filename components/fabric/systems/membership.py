"""Which port is in which VLAN: what drivers of Ethernet switches have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from components.fabric.state import OtherPorts, PortState


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


def named_vlans(port: PortState) -> set[int]:
    """The VLANs that a port names, whether or not they are in force in its mode."""
    named = () if port.trunk_vlans == "all" else port.trunk_vlans or ()
    return {*named, *((port.access_vlan,) if port.access_vlan else ())}


def others_of(ports: Mapping[str, PortState]) -> OtherPorts:
    """Ports that were not asked for, by the VLANs that they carry now."""
    carried = {name: _carried(port) for name, port in ports.items()}
    named = {name: vlans for name, vlans in carried.items() if not isinstance(vlans, str)}
    return OtherPorts(
        by_vlan=holders_of(named), of_all=tuple(name for name in carried if name not in named)
    )


def _carried(port: PortState) -> Literal["all"] | tuple[int, ...]:
    """The VLANs that are in force in the mode of a port; one in no bridge carries none."""
    access = (port.access_vlan,) if port.access_vlan and port.mode in {"access", "hybrid"} else ()
    listed = port.trunk_vlans or () if port.mode in {"trunk", "hybrid"} else ()
    return "all" if listed == "all" else (*listed, *access)
