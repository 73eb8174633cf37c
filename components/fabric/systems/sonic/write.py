"""From one state of a SONiC switch to another: an ordered list of changes.

What goes, goes first; then come three documents of rows, since the daemons look at some rows only
when others come after them; fields and rows that nothing names any more go last. A port is asked
for settings by name (apply), or for the cells that were recorded (undo); WHY.md says what each
part is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.fabric.parts import is_default
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.membership import fill_membership
from components.fabric.systems.sonic.port import PortPlan, plan_port
from components.fabric.systems.sonic.routing import held_interfaces, plan_routing
from components.fabric.systems.sonic.rows import (
    LOSSLESS_PROFILE,
    SPANNING,
    Cell,
    Cells,
    Rows,
    by_row,
    delete_fields,
    delete_rows,
    document,
    mode_cell,
    our_rows,
    port_row,
    read_held,
    read_rows,
    read_settings,
    whole_words,
)


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    Raises:
        Unsettable: No line of ours leads there.
    """
    _require_pool(actual, target)
    _require_free(actual, target)
    plans = [_plan(name, actual, target) for name in {**actual.ports, **target.ports}]
    routed = plan_routing(actual, target)
    written, stripped, gone = _own_rows(actual, target, plans)
    forgets = _cells(plan.forgets() for plan in plans)
    before, middle, after = routed.comes
    first = {f"VLAN|Vlan{vlan}": {"vlanid": str(vlan)} for vlan in _only(target, actual)}
    first |= {**written, **before, **_cells(plan.first for plan in plans)}
    last = (plan.last | (plan.touches if plan.pause_list else {}) for plan in plans)
    groups = [row for plan in plans for row in (*plan.gone_groups, *plan.renewed_groups)]
    leaves = [row for plan in plans for row in plan.gone_rows]
    typed = _typed_members(leaves, first) if SPANNING in whole_words(actual) else _Typed()
    return tuple(
        Change((line,))
        for lines in (
            typed.leaves,
            *map(delete_rows, (leaves, *routed.goes)),
            delete_fields(routed.strips),
            document(forgets),
            delete_rows(groups),
            typed.vlans,
            document(first),
            typed.joins,
            document({**_cells(plan.sets for plan in plans), **middle}),
            document({**_cells(last), **after}),
            delete_fields((*(cell for plan in plans for cell in plan.deletes), *stripped)),
            delete_rows(gone),
            (f"sudo config vlan del {vlan}" for vlan in _only(actual, target)),
        )
        for line in lines
    )


@dataclass(frozen=True, slots=True)
class _Typed:
    """VLANs and members by commands of click."""

    leaves: tuple[str, ...] = ()
    vlans: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()


def _typed_members(leaves: list[str], first: Rows) -> _Typed:
    """Take VLANs and members out of what is deleted and written, since commands do that.

    With spanning tree on they also write its rows, STP_VLAN and STP_PORT, from 202411 on
    (sonic-utilities, config/vlan.py): without those a VLAN has no spanning tree.
    """
    gone = [row for row in leaves if row.startswith("VLAN_MEMBER|")]
    new = {row: first.pop(row) for row in [*first] if row.startswith(("VLAN|", "VLAN_MEMBER|"))}
    leaves[:] = [row for row in leaves if row not in gone]
    parts = {row: row.replace("|Vlan", "|").split("|")[1:] for row in (*gone, *new)}
    flags = {row: "-u " * (each.get("tagging_mode") == "untagged") for row, each in new.items()}
    return _Typed(
        tuple(f"sudo config vlan member del {' '.join(parts[row])}" for row in gone),
        tuple(f"sudo config vlan add {parts[row][0]}" for row in new if len(parts[row]) == 1),
        tuple(
            f"sudo config vlan member add {flags[row]}{' '.join(parts[row])}"
            for row in new
            if len(parts[row]) > 1
        ),
    )


def _cells(parts: Iterable[Cells]) -> Rows:
    return by_row((cell, value) for cells in parts for cell, value in cells.items())


def _only(these: SwitchState, those: SwitchState) -> tuple[int, ...]:
    return tuple(vlan for vlan in these.vlans if vlan not in those.vlans)


def _require_pool(actual: SwitchState, target: SwitchState) -> None:
    wanted = any(port.lossless_buffers for port in target.ports.values())
    if target.roce == "lossless" and actual.roce == "none" and wanted:
        raise Unsettable(
            "lossless needs the buffer pool ingress_lossless_pool, which the switch has not. "
            "`sudo config qos reload` makes it from the platform's template, and sets the QoS of "
            "every port, so we do not run it: do so once, save, and run this again"
        )


def _require_free(actual: SwitchState, target: SwitchState) -> None:
    """A port cannot be in a VLAN while it is routed or in a bundle; the daemons do not refuse it.

    Raises:
        Unsettable: Such ports shall be in a VLAN; it names all of them, and what frees them.
    """
    joins = {
        name
        for name, port in target.ports.items()
        if vlan_members(port).items() - vlan_members(actual.ports.get(name, PortState())).items()
    }
    freed = {name for name, left in (target.addresses or {}).items() if not left}
    lines = [line for name, line in held_interfaces(actual) if name in joins - freed]
    if lines:
        raise Unsettable(
            "ports that shall be in a VLAN are routed or in a bundle, as the factory's preset t1 "
            "leaves them. They may carry sessions of others, so we do not change that: run these "
            "lines, save, and run this again:\n    " + "\n    ".join(lines)
        )


def _plan(name: str, actual: SwitchState, target: SwitchState) -> PortPlan:
    was, port = actual.ports.get(name, PortState()), target.ports.get(name, PortState())
    plan = plan_port(name, was, port, actual)
    _plan_members(plan, was, port)
    _plan_link(plan, was, port, actual)
    _plan_row(plan, was, port)
    return plan


_MADE: Final = f"BUFFER_PROFILE|{LOSSLESS_PROFILE}"
"""What the switch makes for PFC, and would miss while a port still has any."""


def _own_rows(
    actual: SwitchState, target: SwitchState, plans: Sequence[PortPlan]
) -> tuple[Rows, list[Cell], list[str]]:
    """Which rows of our name are written, lose fields and go, buffer profiles made for us too."""
    held, before = read_rows(actual) or {}, read_rows(target)
    wanted: Rows = {}
    for plan in plans:
        content = our_rows(target.ports.get(plan.name, PortState()))
        wanted |= {row: content[row] for row in plan.needed if row in content}
    aim = {**(before or {}), **wanted}
    written = {r: f for r, f in sorted(aim.items()) if not f.items() <= held.get(r, {}).items()}
    if before is None:
        return written, [], []
    kept = {row for plan in plans for row in plan.named} | {*read_held(actual), *wanted, *before}
    kept |= {row for row in held if row.startswith(_MADE) and _is_used(row, plans)}
    stripped = [
        (row, key)
        for row, fields in sorted(held.items())
        if row in before and row not in wanted
        for key in sorted({*fields} - {*before[row]})
    ]
    return written, stripped, sorted({*held} - kept)


def _is_used(row: str, plans: Iterable[PortPlan]) -> bool:
    """Whether a group names a profile that the switch made, or will after these lines."""
    profile = row.partition("|")[2]
    return any(
        profile in plan.profiles
        or (plan.is_looked_at and plan.length and f"_{plan.length}_" in profile)
        for plan in plans
    )


def _plan_members(plan: PortPlan, was: PortState, port: PortState) -> None:
    """A port has one untagged VLAN, so what goes, goes first."""
    if port.mode is None and port.trunk_vlans is None:
        return
    before, after = vlan_members(was), vlan_members(fill_membership(was, port))
    for vlan, tagging in sorted(after.items()):
        if before.get(vlan) != tagging:
            plan.first[f"VLAN_MEMBER|Vlan{vlan}|{plan.name}", "tagging_mode"] = tagging
    gone = sorted(vlan for vlan, tagging in before.items() if after.get(vlan) != tagging)
    plan.gone_rows += [f"VLAN_MEMBER|Vlan{vlan}|{plan.name}" for vlan in gone]
    mode = _switchport(plan.name, was, port, after)
    if mode is not None:
        plan.first[mode_cell(plan.name)] = mode


def vlan_members(port: PortState) -> dict[int, str]:
    """VLAN to its `tagging_mode`."""
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    tagged = [vlan for vlan in trunk or () if isinstance(vlan, int)]
    members = dict.fromkeys(tagged if port.mode in {"trunk", "hybrid"} else (), "tagged")
    if port.mode in {"access", "hybrid"} and port.access_vlan is not None:
        members[port.access_vlan] = "untagged"
    return members


def _switchport(name: str, was: PortState, port: PortState, after: Mapping[int, str]) -> str | None:
    """The mode that releases from 202405 on may have recorded: it limits what a port may join."""
    now, recorded = (
        read_settings(each).get("mode", {}).get(mode_cell(name)) for each in (was, port)
    )
    if now is None or port.mode is None:
        return None
    wanted = recorded or now
    if recorded is None and "tagged" in after.values() and now != "trunk":
        wanted = "trunk"
    elif recorded is None and after and now == "routed":
        wanted = "access"
    elif recorded is None and port.mode == "routed":
        wanted = "routed"
    return None if wanted == now else wanted


OFFERS: Final = "offers"
"""Key of a switch's `native`: port to the speeds and the FEC that it has, of STATE_DB."""
_TEXT_OFFER: Final = "adv_speeds"
_LIST_OFFER: Final = "adv_speeds@"
"""The same as a list, which a loaded file has; the command line writes a text."""
_NOTHING: Final = "-"


def link_state(row: Mapping[str, str]) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`; blank if there is no field."""
    offered = [row[_TEXT_OFFER]] if _TEXT_OFFER in row else []
    offered += [f"@{row[_LIST_OFFER]}"] if _LIST_OFFER in row else []
    mode = row.get("autoneg", _NOTHING if offered else "")
    return {
        "speed": row.get("speed", ""),
        "fec": row.get("fec", ""),
        "autoneg": " ".join([mode, *offered]).strip(),
    }


def _autoneg_fields(text: str) -> dict[str, str]:
    mode, *offers = text.split() or [_NOTHING]
    fields = {} if mode == _NOTHING else {"autoneg": mode}
    return fields | {
        _LIST_OFFER if offer.startswith("@") else _TEXT_OFFER: offer.removeprefix("@")
        for offer in offers
    }


def _plan_link(plan: PortPlan, was: PortState, port: PortState, switch: SwitchState) -> None:
    """Speed, FEC and auto-negotiation.

    A field that vanishes changes nothing until the next boot, so its default goes before it; of
    FEC there is none, and the chip keeps the last one.
    """
    row, moved = port_row(plan.name), dict[str, str]()
    if port.speed and port.speed != was.speed:
        moved["speed"] = port.speed
    if port.fec and port.fec != was.fec:
        moved["fec"] = port.fec
    if port.fec == "" != (was.fec or ""):
        plan.deletes.append((row, "fec"))
    if port.autoneg is not None:
        held, wanted = _autoneg_fields(was.autoneg or ""), _autoneg_fields(port.autoneg)
        moved |= {name: text for name, text in wanted.items() if held.get(name) != text}
        gone = {*held} - {*wanted}
        if "autoneg" in gone and held["autoneg"] != "off":
            moved["autoneg"] = "off"
        if {_TEXT_OFFER, _LIST_OFFER} & gone and not {_TEXT_OFFER, _LIST_OFFER} & {*wanted}:
            moved[_TEXT_OFFER] = "all"
            gone.add(_TEXT_OFFER)
        plan.deletes += [(row, name) for name in sorted(gone)]
    _refuse_unknown(plan.name, moved, switch)
    plan.first |= {(row, name): text for name, text in moved.items()}


def _refuse_unknown(name: str, moved: Mapping[str, str], switch: SwitchState) -> None:
    """As `config interface speed` and `fec` do (sonic-utilities, scripts/portconfig).

    What the chip has for FEC may follow the speed, so with another speed it is not known before.
    """
    offers = (read_rows(switch, OFFERS) or {}).get(name, {})
    for kind, key in (("speed", "supported_speeds"), ("fec", "supported_fecs")):
        known = [each for each in offers.get(key, "").split(",") if each]
        if kind == "fec" and "speed" in moved:
            continue
        if kind in moved and known and moved[kind] not in known:
            raise Unsettable(
                f"{kind} {moved[kind]} of {name} is none that the port has: {', '.join(known)} "
                f"({key} of STATE_DB)"
            )


def _plan_row(plan: PortPlan, was: PortState, port: PortState) -> None:
    """MTU and state. If they were not written before us, their default goes before they do."""
    texts = {"mtu_bytes": str(port.mtu_bytes), "admin_up": "up" if port.admin_up else "down"}
    for key, name in (("mtu_bytes", "mtu"), ("admin_up", "admin_status")):
        value, cell = getattr(port, key), (port_row(plan.name), name)
        if value is None:
            continue
        moves = value != getattr(was, key)
        if moves:
            plan.last[cell] = texts[key]
        if is_default(port.native, key) and (moves or not is_default(was.native, key)):
            plan.deletes.append(cell)
