"""From one state of a SONiC switch to another: an ordered list of changes.

What goes, goes first; then come three documents of rows, since the daemons look at some rows only
when others come after them; fields and rows that nothing names any more go last. A port is asked
for settings by name (apply), or for the cells that were recorded (undo); WHY.md says what each
part is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.port import PortPlan, vlan_members
from components.fabric.systems.sonic.routing import held_interfaces, plan_routing
from components.fabric.systems.sonic.rows import Cell, Rows


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    Raises:
        Unsettable: No line of ours leads there.
    """
    _require_pool(actual, target)
    _require_free(actual, target)
    plans = [PortPlan(name, actual, target) for name in {**actual.ports, **target.ports}]
    goes, strips, (before, middle, after) = plan_routing(actual, target)
    written, stripped, gone = _own_rows(actual, target, plans)
    forgets = db.by_row(plan.forgets() for plan in plans)
    first = {f"VLAN|Vlan{vlan}": {"vlanid": str(vlan)} for vlan in _only(target, actual)}
    first |= {**written, **before, **db.by_row(plan.first for plan in plans)}
    last = (plan.last | plan.touches for plan in plans)
    groups = [row for plan in plans for row in plan.groups]
    leaves = [row for plan in plans for row in plan.gone_rows]
    spans = db.SPANNING in db.whole_words(actual)
    parts, vlans, joins = _typed_members(leaves, first) if spans else ((), (), ())
    return tuple(
        Change((line,))
        for lines in (
            parts,
            *map(db.delete_rows, (leaves, *goes)),
            db.delete_fields(strips),
            db.document(forgets),
            db.delete_rows(groups),
            vlans,
            db.document(first),
            joins,
            db.document({**db.by_row(plan.sets for plan in plans), **middle}),
            db.document({**db.by_row(last), **after}),
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
