"""Bundles and pairs of one switch, from the file: pure."""

from __future__ import annotations

from components.fabric.bond_state import BondState, MlagState
from components.fabric.state import PortState
from components.fabric.systems import system_of
from components.fabric.systems.ranges import port_key
from components.fabric.systems.switch_system import BondForm
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch

MEMBER = PortState(admin_up=True, mode="routed")
"""A port of a bundle is up, and in no bridge of its own."""


def plan_bonds(spec: ClusterSpec, switch: Switch) -> dict[str, object]:
    """What a switch with bundles has beside its ports, by key of `SwitchState`."""
    form = system_of(switch.os).bonds
    if not isinstance(form, BondForm) or not (switch.bonds or switch.mlag):
        return {}
    found = {
        name: BondState(
            members=_in_order(bond.ports),
            vlans=tuple(sorted(bond.vlans)),
            untagged=bond.untagged,
            mlag=bond.mlag,
        )
        for name, bond in switch.bonds.items()
    }
    if switch.mlag is None:
        return {"bonds": found}
    link = BondState(members=_in_order(switch.mlag.ports), is_peer_link=True)
    backup = switch.mlag.backup or _reached_at(spec, switch.mlag.peer)
    pair = MlagState(mac=switch.mlag.mac, backup=str(backup) if backup else None)
    return {"bonds": {**found, form.peer_link: link}, "mlag": pair}


def bond_vlans(switch: Switch) -> set[int]:
    """VLANs that the switch needs for its bundles."""
    tagged = {vlan for bond in switch.bonds.values() for vlan in bond.vlans}
    return tagged | {bond.untagged for bond in switch.bonds.values() if bond.untagged is not None}


def member_ports(switch: Switch) -> dict[str, PortState]:
    """The ports of its bundles, and of the link of its pair."""
    if isinstance(system_of(switch.os).bonds, str):
        return {}
    names = [port for bond in switch.bonds.values() for port in bond.ports]
    names += switch.mlag.ports if switch.mlag else ()
    return dict.fromkeys(_in_order(tuple(names)), MEMBER)


def _in_order(ports: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(ports, key=port_key))


def _reached_at(spec: ClusterSpec, name: str) -> str | None:
    return next((each.ssh.address for each in spec.switches if each.name == name), None)
