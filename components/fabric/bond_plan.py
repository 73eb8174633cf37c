"""Bundles and pairs of one switch, from the file: pure."""

from __future__ import annotations

from components.fabric.bond_state import BondState, MlagState
from components.fabric.state import ALWAYS_UP, PortState
from components.fabric.systems import system_of
from components.fabric.systems.ranges import port_key
from components.fabric.systems.switch_system import BondForm
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.rail_subnets import link_of
from components.model.switch_ports import Mlag


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
    named = form.pair_vlan is not None
    link = BondState(
        members=_in_order(switch.mlag.ports), vlans=None if named else (), is_peer_link=True
    )
    pair = _named_pair(switch, switch.mlag) if named else _pair(spec, switch.mlag)
    return {"bonds": {**found, form.peer_link: link}, "mlag": pair}


def _pair(spec: ClusterSpec, mlag: Mlag) -> MlagState:
    backup = mlag.backup or _reached_at(spec, mlag.peer)
    return MlagState(mac=mlag.mac, backup=str(backup) if backup else None)


def _named_pair(switch: Switch, mlag: Mlag) -> MlagState:
    """The names of both are a name that no other pair has."""
    peer = None if mlag.address is None else str(link_of(mlag.address)[1])
    return MlagState(domain="-".join(sorted((switch.name, mlag.peer))), peer=peer)


def pair_addresses(switch: Switch) -> dict[str, tuple[str, ...]]:
    """The address of the switch on the link of its pair, by routed interface; none without one.

    The interface is up without a port in its VLAN: the peer link is the only one there.
    """
    vlan, mlag = pair_vlan(switch), switch.mlag
    if vlan is None or mlag is None or mlag.address is None:
        return {}
    network = link_of(mlag.address)[0]
    interface = system_of(switch.os).routed.vlan.format(vlan)
    return {interface: (f"{mlag.address}/{network.prefixlen}", ALWAYS_UP)}


def pair_vlan(switch: Switch) -> int | None:
    """The VLAN in which the switch speaks with the other one of its pair; None: it has none."""
    form = system_of(switch.os).bonds
    return form.pair_vlan if isinstance(form, BondForm) and switch.mlag else None


def bond_vlans(switch: Switch) -> set[int]:
    """VLANs that the switch needs for its bundles, and for its pair."""
    said = {vlan for bond in switch.bonds.values() for vlan in (*bond.vlans, bond.untagged)}
    return {vlan for vlan in (*said, pair_vlan(switch)) if vlan is not None}


def member_ports(switch: Switch) -> dict[str, PortState]:
    """The ports of its bundles, and of the link of its pair."""
    form = system_of(switch.os).bonds
    if isinstance(form, str):
        return {}
    names = [port for bond in switch.bonds.values() for port in bond.ports]
    names += switch.mlag.ports if switch.mlag else ()
    return dict.fromkeys(_in_order(tuple(names)), form.member)


def _in_order(ports: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(ports, key=port_key))


def _reached_at(spec: ClusterSpec, name: str) -> str | None:
    return next((each.ssh.address for each in spec.switches if each.name == name), None)
