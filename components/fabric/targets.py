"""From what a switch has and what is wanted to the exact state it shall have: pure.

Desired and recorded states name what is ours; a target says, for those keys, everything that
shall be there afterwards, others' VLANs and classes included. A driver renders the way from an
actual state to a target and never has to know why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.fabric.bond_state import (
    MlagState,
    drop_bonds,
    overlay_bonds,
    restore_bonds,
)
from components.fabric.ib_targets import (
    ib_dropped,
    ib_overlay,
    ib_target_of_apply,
    ib_target_of_restore,
)
from components.fabric.routing_targets import (
    drop_addresses,
    drop_bgp,
    join_addresses,
    join_bgp,
    overlay_addresses,
    overlay_bgp,
    restore_addresses,
    restore_bgp,
)
from components.fabric.split_targets import drop_splits, overlay_splits, restore_splits
from components.fabric.state import (
    EcnState,
    PortState,
    SwitchState,
    first,
    list_vlans,
)
from components.fabric.systems.base import Reading

Vlans = tuple[int, ...]
FACTORY_VLAN: Final = 1
"""VLAN of frames without a tag before anybody sets one (IEEE 802.1Q)."""


def target_of_apply(actual: SwitchState, desired: SwitchState) -> SwitchState:
    """What the switch shall have after an apply: the wanted settings, and what others own."""
    return desired.model_copy(
        update={
            "vlans": _union(actual.vlans, desired.vlans),
            "addresses": join_addresses(actual.addresses, desired.addresses),
            "bgp": join_bgp(actual.bgp, desired.bgp),
            "splits": overlay_splits(actual.splits, desired.splits),
            "ib": ib_target_of_apply(actual.ib, desired.ib),
            "ports": {
                name: _apply_port(actual.ports.get(name, PortState()), port)
                for name, port in desired.ports.items()
            },
        }
    )


def _apply_port(actual: PortState, desired: PortState) -> PortState:
    changes: dict[str, object] = {}
    if desired.trunk_vlans is not None and actual.mode == desired.mode:
        held = actual.trunk_vlans or ()
        changes["trunk_vlans"] = (
            "all" if held == "all" else _union(held, list_vlans(desired.trunk_vlans))
        )
    if desired.strict_classes is not None:
        held = _union(actual.strict_classes or (), desired.strict_classes)
        shared = {*desired.class_shares} - {*desired.strict_classes}
        changes["strict_classes"] = tuple(tc for tc in held if tc not in shared)
    return desired.model_copy(update=changes)


def target_of_restore(
    actual: SwitchState,
    owned: SwitchState,
    baseline: SwitchState,
    vlan_holders: Mapping[int, Iterable[str]],
) -> SwitchState:
    """What the switch shall have after an undo.

    Args:
        actual: What it has now.
        owned: What was applied: its keys are ours, nothing else moves.
        baseline: What was recorded before the first apply.
        vlan_holders: VLAN to ports that are not ours and use it; such a VLAN stays.
    """
    owned = _with_taken(owned, actual, baseline)
    addresses = restore_addresses(actual.addresses, owned.addresses, baseline.addresses)
    going = {name for name, left in (addresses or {}).items() if not left}
    held = {
        vlan
        for vlan, names in vlan_holders.items()
        if _is_new(vlan, [name for name in names if name not in going], baseline)
    }
    ours = {*owned.vlans} - {*baseline.vlans} - held
    return SwitchState(
        vlans=tuple(vlan for vlan in actual.vlans if vlan not in ours),
        pfc_priorities=None if owned.pfc_priorities is None else baseline.pfc_priorities,
        pfc_enabled=None if owned.pfc_enabled is None else baseline.pfc_enabled,
        dscp_classes=None if owned.dscp_classes is None else _restore_map(owned, baseline),
        # A baseline without it was taken before the file first asked for the one-shot.
        roce=None if owned.roce is None else baseline.roce or "none",
        roce_cable_m=None if owned.roce_cable_m is None else baseline.roce_cable_m or 0,
        addresses=addresses,
        bgp=restore_bgp(actual.bgp, owned.bgp, baseline.bgp),
        bonds=restore_bonds(owned.bonds, baseline.bonds),
        mlag=None if owned.mlag is None else baseline.mlag or MlagState(),
        splits=restore_splits(actual, owned, baseline),
        adaptive_routing=None
        if owned.adaptive_routing is None
        else baseline.adaptive_routing or False,
        ib=ib_target_of_restore(actual.ib, owned.ib, baseline.ib),
        native=baseline.native,
        ports=_restore_ports(actual, owned, baseline),
    )


def target_of_put_back(after: Reading, before: SwitchState, wanted: SwitchState) -> SwitchState:
    """What a run that failed goes back to: the values of before, and nothing of ours beside them.

    Args:
        after: What it has left.
        before: What it found.
        wanted: Names what it may have set.
    """
    return overlay(target_of_restore(after.state, wanted, before, after.vlan_holders), before)


def moves_one_shot(before: Reading, wanted: SwitchState, target: SwitchState) -> bool:
    """Whether a run sends the one-shot, or may end one that did: then it is about every port."""
    return target.roce is not None and {wanted.roce, before.state.roce} != {target.roce}


def with_all_ports(wanted: SwitchState, names: Iterable[str], keys: PortState) -> SwitchState:
    """A wish for some keys of some ports too, and for PFC of the switch as a whole."""
    more = SwitchState(pfc_priorities=(), pfc_enabled=False, ports=dict.fromkeys(names, keys))
    return wanted.model_copy(update=_added(more, wanted))


def _added(more: SwitchState, owned: SwitchState) -> dict[str, object]:
    """What one-shots reach, where a state says nothing of it."""
    both = overlay(more, owned)
    return {key: getattr(both, key) for key in ("pfc_priorities", "pfc_enabled", "ports")}


def _with_taken(owned: SwitchState, actual: SwitchState, baseline: SwitchState) -> SwitchState:
    """What goes back: where the one-shot of all ports does, all that it took along, and PFC.

    A port without weights was not read, or is of a system whose one-shot is not of that kind.
    """
    if owned.roce in {None, baseline.roce or "none"}:
        return owned
    taken = {
        name: PortState(
            trust=was.trust,
            ecn=dict.fromkeys([*port.ecn, *was.ecn]),
            strict_classes=(),
            class_shares=dict.fromkeys(was.wrr_weights, 0) if port.class_shares else {},
        )
        for name, port in actual.ports.items()
        if port.wrr_weights and (was := baseline.ports.get(name, PortState())).wrr_weights
    }
    if not taken:
        return owned
    pfc = actual.model_copy(update={"ports": taken})
    return owned.model_copy(update=_added(pfc, owned))


def _restore_ports(
    actual: SwitchState, owned: SwitchState, baseline: SwitchState
) -> dict[str, PortState]:
    return {
        name: _restore_port(
            actual.ports.get(name, PortState()), port, baseline.ports[name], owned.roce
        )
        for name, port in owned.ports.items()
        if name in baseline.ports
    }


def _restore_map(owned: SwitchState, baseline: SwitchState) -> dict[int, int]:
    """The recorded class of each DSCP that is ours."""
    ours, before = owned.dscp_classes or {}, baseline.dscp_classes or {}
    return {dscp: before[dscp] for dscp in ours if dscp in before}


def _is_new(vlan: int, names: Iterable[str], baseline: SwitchState) -> bool:
    """Whether a port names a VLAN that it did not name before the first apply.

    On Cumulus a port may name a VLAN that the bridge has not, which is then no reason to keep it.
    """
    routed = baseline.addresses or {}
    before = (baseline.ports.get(name, PortState()) for name in names if name not in routed)
    return any(
        vlan != port.access_vlan
        and (port.trunk_vlans in {None, "all"} or vlan not in list_vlans(port.trunk_vlans or ()))
        for port in before
    )


def _restore_port(
    actual: PortState, owned: PortState, baseline: PortState, one_shot: str | None
) -> PortState:
    simple = (
        *("admin_up", "mtu_bytes", "mode", "trust"),
        *("pfc", "pfc_watchdog", "pfc_watchdog_ms", "pfc_priorities", "cable_m"),
        *("rewrite_dscp", "speed", "fec", "autoneg"),
    )
    changes: dict[str, object] = {
        key: getattr(baseline, key) for key in simple if getattr(owned, key) is not None
    }
    if owned.mode is not None or owned.access_vlan is not None:
        changes["access_vlan"] = baseline.access_vlan
    if owned.native_vlan is not None:
        # A baseline without it was taken before a file could ask for it.
        changes["native_vlan"] = first(baseline.native_vlan, FACTORY_VLAN)
    if owned.mode is not None and actual.mode != baseline.mode:
        changes["trunk_vlans"] = baseline.trunk_vlans
    elif owned.trunk_vlans is not None:
        changes["trunk_vlans"] = _without(actual, owned, baseline)
    ecn: dict[int, EcnState | None] = {tc: baseline.ecn.get(tc) for tc in owned.ecn}
    changes["ecn"] = ecn
    if owned.strict_classes is not None:
        ours = {*owned.strict_classes} - {*(baseline.strict_classes or ())}
        kept = (tc for tc in actual.strict_classes or () if tc not in ours)
        # A one-shot of the whole switch sets every class, and takes its own along when it goes.
        strict = {*(baseline.strict_classes or ())}
        wiped = one_shot is not None and baseline.wrr_weights
        back = strict if wiped else strict & {*owned.class_shares}
        changes["strict_classes"] = _union(tuple(kept), tuple(back))
        changes["wrr_weights"] = baseline.wrr_weights
    shares = baseline.class_shares
    changes["class_shares"] = {tc: shares.get(tc, 0) for tc in owned.class_shares}
    if owned.adaptive_routing is not None:
        changes["adaptive_routing"] = baseline.adaptive_routing or False
    ours = {*_named_settings(owned)}
    changes["native"] = {key: text for key, text in baseline.native.items() if key in ours}
    return PortState().model_copy(update=changes)


def _named_settings(port: PortState) -> Iterator[str]:
    """The settings of a port that it names, as `PortState.native` calls them."""
    maps = bool(port.dscp_priorities or port.priority_classes)
    named = {
        "admin_up": port.admin_up is not None,
        "mtu_bytes": port.mtu_bytes is not None,
        "mode": port.mode is not None,
        "trust": port.trust is not None or maps,
        "pfc": port.pfc_priorities is not None,
        "buffers": port.lossless_buffers is not None,
        "pfc_watchdog": port.pfc_watchdog is not None,
        "adaptive_routing": port.adaptive_routing is not None,
        "cable": port.cable_m is not None,
    }
    yield from (setting for setting, is_named in named.items() if is_named)
    yield from (f"ecn_{tc}" for tc in port.ecn)
    yield from (f"schedule_{tc}" for tc in {*(port.strict_classes or ()), *port.class_shares})


def _without(actual: PortState, owned: PortState, baseline: PortState) -> str | Vlans:
    """The allowed VLANs without those that only we brought; those of others stay."""
    before = baseline.trunk_vlans or ()
    if before == "all":
        return "all"
    ours = {*list_vlans(owned.trunk_vlans or ())} - {*before}
    return tuple(vlan for vlan in list_vlans(actual.trunk_vlans or ()) if vlan not in ours)


def target_of_update(
    actual: SwitchState,
    desired: SwitchState,
    undone: SwitchState,
) -> SwitchState:
    """What the switch shall have after an edit.

    Args:
        actual: What it has now.
        desired: What is wanted now.
        undone: The target of the undo of what was wanted before and is no longer.
    """
    return overlay(undone, target_of_apply(overlay(actual, undone), desired))


def dropped(previous: SwitchState, desired: SwitchState) -> SwitchState:
    """What was ours and is no longer wanted: an edit gives it back."""
    ports = {
        name: _dropped_port(port, desired.ports.get(name)) for name, port in previous.ports.items()
    }
    return SwitchState(
        vlans=tuple(vlan for vlan in previous.vlans if vlan not in desired.vlans),
        pfc_priorities=previous.pfc_priorities if desired.pfc_priorities is None else None,
        pfc_enabled=previous.pfc_enabled if desired.pfc_enabled is None else None,
        dscp_classes={
            dscp: tc
            for dscp, tc in (previous.dscp_classes or {}).items()
            if dscp not in (desired.dscp_classes or {})
        }
        or None,
        roce=previous.roce if desired.roce is None else None,
        roce_cable_m=previous.roce_cable_m if desired.roce_cable_m is None else None,
        addresses=drop_addresses(previous.addresses or {}, desired.addresses or {}),
        bgp=drop_bgp(previous.bgp, desired.bgp),
        bonds=drop_bonds(previous.bonds, desired.bonds),
        mlag=previous.mlag if desired.mlag is None else None,
        splits=drop_splits(previous.splits, desired.splits),
        adaptive_routing=previous.adaptive_routing if desired.adaptive_routing is None else None,
        ib=ib_dropped(previous.ib, desired.ib),
        ports={name: port for name, port in ports.items() if port != PortState()},
    )


def _dropped_port(previous: PortState, desired: PortState | None) -> PortState:
    if desired is None:
        return previous
    simple = (
        *("admin_up", "mtu_bytes", "mode", "access_vlan", "native_vlan", "trust"),
        *("pfc", "pfc_watchdog", "pfc_watchdog_ms", "pfc_priorities", "lossless_buffers"),
        *("cable_m", "rewrite_dscp", "adaptive_routing", "speed", "fec", "autoneg"),
    )
    changes: dict[str, object] = {
        key: getattr(previous, key) for key in simple if getattr(desired, key) is None
    }
    if desired.mode in {None, previous.mode}:
        gone = {*list_vlans(previous.trunk_vlans or ())} - {*list_vlans(desired.trunk_vlans or ())}
        changes["trunk_vlans"] = tuple(sorted(gone)) or None
    changes["ecn"] = {tc: ecn for tc, ecn in previous.ecn.items() if tc not in desired.ecn}
    gone = {*(previous.strict_classes or ())} - {*(desired.strict_classes or ())}
    changes["strict_classes"] = tuple(sorted(gone)) or None
    shares = {tc: n for tc, n in previous.class_shares.items() if tc not in desired.class_shares}
    changes["class_shares"] = shares
    if shares and changes["strict_classes"] is None:
        changes["strict_classes"] = ()
    return PortState().model_copy(update=changes)


def overlay(base: SwitchState, top: SwitchState) -> SwitchState:
    """One state over another: what `top` says wins, per key; its VLANs are all there are."""
    ports = dict(base.ports)
    for name, port in top.ports.items():
        ports[name] = _overlay_port(ports[name], port) if name in ports else port
    return SwitchState(
        vlans=top.vlans,
        pfc_priorities=first(top.pfc_priorities, base.pfc_priorities),
        pfc_enabled=first(top.pfc_enabled, base.pfc_enabled),
        dscp_classes={**(base.dscp_classes or {}), **(top.dscp_classes or {})} or None,
        roce=first(top.roce, base.roce),
        roce_cable_m=first(top.roce_cable_m, base.roce_cable_m),
        addresses=overlay_addresses(base.addresses, top.addresses),
        bgp=overlay_bgp(base.bgp, top.bgp),
        bonds=overlay_bonds(base.bonds, top.bonds),
        mlag=first(top.mlag, base.mlag),
        splits=overlay_splits(base.splits, top.splits),
        adaptive_routing=first(top.adaptive_routing, base.adaptive_routing),
        ib=ib_overlay(base.ib, top.ib),
        native={**base.native, **top.native},
        ports=ports,
    )


def _overlay_port(base: PortState, top: PortState) -> PortState:
    said = {key: getattr(top, key) for key in top.model_fields_set if getattr(top, key) is not None}
    said["ecn"] = {**base.ecn, **top.ecn}
    said["wrr_weights"] = {**base.wrr_weights, **top.wrr_weights}
    said["class_shares"] = {**base.class_shares, **top.class_shares}
    said["native"] = {**base.native, **top.native}
    return base.model_copy(update=said)


def _union(one: Vlans, other: Vlans) -> Vlans:
    return tuple(sorted({*one, *other}))
