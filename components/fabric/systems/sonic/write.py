"""From one state of a SONiC switch to another: an ordered list of changes.

What goes, goes first; then come three documents of rows, since the daemons look at some rows only
when others come after them; fields and rows that nothing names any more go last. A port is asked
for settings by name (apply), or for the cells that were recorded (undo); WHY.md says what each
part is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from components.fabric.parts import is_default
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.membership import fill_membership
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.port import PortPlan, plan_qos
from components.fabric.systems.sonic.routing import held_interfaces, plan_routing
from components.fabric.systems.sonic.rows import Cell, Cells, Fields, Rows


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
    spans = db.SPANNING in db.whole_words(actual)
    parts, vlans, joins = _typed_members(leaves, first) if spans else ((), (), ())
    return tuple(
        Change((line,))
        for lines in (
            parts,
            *map(db.delete_rows, (leaves, *routed.goes)),
            db.delete_fields(routed.strips),
            db.document(forgets),
            db.delete_rows(groups),
            vlans,
            db.document(first),
            joins,
            db.document({**_cells(plan.sets for plan in plans), **middle}),
            db.document({**_cells(last), **after}),
            db.delete_fields((*(cell for plan in plans for cell in plan.deletes), *stripped)),
            db.delete_rows(gone),
            (f"sudo config vlan del {vlan}" for vlan in _only(actual, target)),
        )
        for line in lines
    )


def _typed_members(leaves: list[str], first: Rows) -> tuple[Iterable[str], ...]:
    """Members that leave, VLANs and members that come, taken out of what is deleted and written.

    With spanning tree on, the commands also write its rows, STP_VLAN and STP_PORT, from 202411 on
    (sonic-utilities, config/vlan.py): without those a VLAN has no spanning tree.
    """
    gone = [row for row in leaves if row.startswith("VLAN_MEMBER|")]
    new = {row: first.pop(row) for row in [*first] if row.startswith(("VLAN|", "VLAN_MEMBER|"))}
    leaves[:] = [row for row in leaves if row not in gone]
    words = {row: row.replace("|Vlan", "|").split("|")[1:] for row in (*gone, *new)}
    flags = {row: "-u " * (each.get("tagging_mode") == "untagged") for row, each in new.items()}
    joins = [row for row in new if row.startswith("VLAN_MEMBER|")]
    return (
        [f"sudo config vlan member del {' '.join(words[row])}" for row in gone],
        [f"sudo config vlan add {words[row][0]}" for row in new if row not in joins],
        [f"sudo config vlan member add {flags[row]}{' '.join(words[row])}" for row in joins],
    )


def _cells(parts: Iterable[Cells]) -> Rows:
    return db.by_row((cell, value) for cells in parts for cell, value in cells.items())


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
    plan = PortPlan(name, actual.ports.get(name, PortState()), target.ports.get(name, PortState()))
    plan_qos(plan, actual)
    _plan_members(plan)
    _plan_link(plan, actual)
    # MTU and state. If they were not written before us, their default goes before they do.
    for key, field, value in (
        ("mtu_bytes", "mtu", str(plan.port.mtu_bytes)),
        ("admin_up", "admin_status", "up" if plan.port.admin_up else "down"),
    ):
        if getattr(plan.port, key) is None:
            continue
        moves = getattr(plan.port, key) != getattr(plan.was, key)
        if moves:
            plan.last[db.PORT.format(name), field] = value
        if is_default(plan.port.native, key) and (moves or not is_default(plan.was.native, key)):
            plan.deletes.append((db.PORT.format(name), field))
    return plan


_MADE: Final = f"BUFFER_PROFILE|{db.LOSSLESS_PROFILE}"
"""What the switch makes for PFC, and would miss while a port still has any."""


def _own_rows(
    actual: SwitchState, target: SwitchState, plans: Sequence[PortPlan]
) -> tuple[Rows, list[Cell], list[str]]:
    """Which rows of our name are written, lose fields and go, buffer profiles made for us too."""
    held, before = db.read_rows(actual) or {}, db.read_rows(target)
    wanted: Rows = {}
    for plan in plans:
        content = db.our_rows(plan.port)
        wanted |= {row: content[row] for row in plan.needed if row in content}
    aim = {**(before or {}), **wanted}
    written = {r: f for r, f in sorted(aim.items()) if not f.items() <= held.get(r, {}).items()}
    if before is None:
        return written, [], []
    kept = {row for plan in plans for row in plan.named} | {*db.read_held(actual), *wanted, *before}
    kept |= {
        row
        for row in held
        if row.startswith(_MADE) and any(plan.uses(row.partition("|")[2]) for plan in plans)
    }
    stripped = [
        (row, key)
        for row, fields in sorted(held.items())
        if row in before and row not in wanted
        for key in sorted({*fields} - {*before[row]})
    ]
    return written, stripped, sorted({*held} - kept)


def vlan_members(port: PortState) -> dict[int, str]:
    """VLAN to its `tagging_mode`."""
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    tagged = [vlan for vlan in trunk or () if isinstance(vlan, int)]
    members = dict.fromkeys(tagged if port.mode in {"trunk", "hybrid"} else (), "tagged")
    if port.mode in {"access", "hybrid"} and port.access_vlan is not None:
        members[port.access_vlan] = "untagged"
    return members


def _plan_members(plan: PortPlan) -> None:
    """A port has one untagged VLAN, so what goes, goes first."""
    was, port = plan.was, plan.port
    if port.mode is None and port.trunk_vlans is None:
        return
    before, after = vlan_members(was), vlan_members(fill_membership(was, port))
    for vlan, tagging in sorted(after.items()):
        if before.get(vlan) != tagging:
            plan.first[f"VLAN_MEMBER|Vlan{vlan}|{plan.name}", "tagging_mode"] = tagging
    gone = sorted(vlan for vlan, tagging in before.items() if after.get(vlan) != tagging)
    plan.gone_rows += [f"VLAN_MEMBER|Vlan{vlan}|{plan.name}" for vlan in gone]
    _plan_mode(plan, {*after.values()})


def _plan_mode(plan: PortPlan, tagging: set[str]) -> None:
    """Releases from 202405 on may have recorded a mode, which limits what a port may join."""
    cell, port = (db.PORT.format(plan.name), "mode"), plan.port
    now, wanted = (db.read_settings(each).get("mode", {}).get(cell) for each in (plan.was, port))
    if wanted is None:
        wanted = "trunk" if "tagged" in tagging else port.mode if port.mode == "routed" else now
        wanted = "access" if tagging == {"untagged"} and now == "routed" else wanted
    if now is not None and port.mode is not None and wanted not in {None, now}:
        plan.first[cell] = wanted or ""


OFFERS: Final = "offers"
"""Key of a switch's `native`: port to the speeds and the FEC that it has, of STATE_DB."""
_OFFER: Final = {"adv_speeds": "", "adv_speeds@": "@"}
"""What is offered: the command line writes a text, a loaded file has a list. The mark of each."""
_NOTHING: Final = "-"


def link_state(row: Fields) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`; blank if there is no field."""
    offered = [f"{mark}{row[name]}" for name, mark in _OFFER.items() if name in row]
    mode = row.get("autoneg", _NOTHING if offered else "")
    return {
        "speed": row.get("speed", ""),
        "fec": row.get("fec", ""),
        "autoneg": " ".join([mode, *offered]).strip(),
    }


def _link_fields(port: PortState) -> Fields:
    """The other way."""
    mode, *offers = (port.autoneg or _NOTHING).split()
    fields = {
        "speed": port.speed or "",
        "fec": port.fec or "",
        "autoneg": mode.removeprefix(_NOTHING),
    }
    fields |= {f"adv_speeds{'@' * each.startswith('@')}": each.removeprefix("@") for each in offers}
    return {name: text for name, text in fields.items() if text}


def _plan_link(plan: PortPlan, switch: SwitchState) -> None:
    """Speed, FEC and auto-negotiation.

    A field that vanishes changes nothing until the next boot, so its default goes before it; of
    FEC there is none, and the chip keeps the last one.
    """
    row, held, wanted = db.PORT.format(plan.name), _link_fields(plan.was), _link_fields(plan.port)
    moved = {name: text for name, text in wanted.items() if held.get(name) != text}
    ours = ["fec"] if plan.port.fec is not None else []
    ours += ["adv_speeds", "adv_speeds@", "autoneg"] if plan.port.autoneg is not None else []
    gone = {name for name in ours if name in held and name not in wanted}
    if "autoneg" in gone and held["autoneg"] != "off":
        moved["autoneg"] = "off"
    if gone & {*_OFFER} and not wanted.keys() & {*_OFFER}:
        moved["adv_speeds"] = "all"
        gone.add("adv_speeds")
    plan.deletes += [(row, name) for name in ours if name in gone]
    offers = (db.read_rows(switch, OFFERS) or {}).get(plan.name, {})
    # As `config interface speed` and `fec` do (sonic-utilities, scripts/portconfig). What the chip
    # has for FEC may follow the speed, so with another speed it is not known before.
    for kind, key in (("speed", "supported_speeds"), ("fec", "supported_fecs")):
        known = [each for each in offers.get(key, "").split(",") if each]
        follows = kind == "fec" and "speed" in moved
        if kind in moved and known and moved[kind] not in known and not follows:
            raise Unsettable(
                f"{kind} {moved[kind]} of {plan.name} is none that the port has: "
                f"{', '.join(known)} ({key} of STATE_DB)"
            )
    plan.first |= {(row, name): text for name, text in moved.items()}
