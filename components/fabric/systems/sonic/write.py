"""From one state of a SONiC switch to another: an ordered list of changes.

Rows of maps and profiles come before the ports that name them, and go after them. A port is asked
for settings by name (apply), or for the cells that were recorded (undo); WHY.md says
what each line is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.fabric.native import is_default
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.membership import fill_membership
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.cable import link_lines
from components.fabric.systems.sonic.facts import LOSSLESS_PROFILE
from components.fabric.systems.sonic.port import PortPlan, plan_port
from components.fabric.systems.sonic.routing import coming_changes, leaving_changes
from components.fabric.systems.sonic.rows import (
    Rows,
    mode_cell,
    our_rows,
    port_row,
    read_held,
    read_rows,
    read_settings,
)

PortLines = Callable[[str, PortState, PortState], Iterable[str]]


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    Raises:
        Unsettable: No line of ours leads there.
    """
    _require_pool(actual, target)
    ports = {**dict.fromkeys(actual.ports, PortState()), **target.ports}
    plans = {
        name: plan_port(name, actual.ports.get(name, PortState()), port, actual)
        for name, port in ports.items()
    }
    rows = _Rows.of(actual, target, plans)
    return (
        *(Change((f"sudo config vlan add {vlan}",)) for vlan in _only(target.vlans, actual.vlans)),
        *leaving_changes(actual, target),
        *_by_port(actual, target, _member_lines),
        *coming_changes(actual, target),
        *(Change((line,)) for line in say.write_rows(rows.written)),
        # The switch makes buffers for the speed that a port has then.
        *_by_port(actual, target, link_lines),
        *_length_changes(plans),
        *(change for plan in plans.values() for change in plan.changes()),
        *_touch_changes(plans),
        *_watchdog_changes(plans),
        *_by_port(actual, target, _mtu_lines, _admin_lines),
        *(Change((say.delete_field(*cell),)) for cell in rows.stripped),
        *(Change((say.delete_row(row),)) for row in rows.deleted),
        *(Change((f"sudo config vlan del {vlan}",)) for vlan in _only(actual.vlans, target.vlans)),
    )


def _by_port(actual: SwitchState, target: SwitchState, *kinds: PortLines) -> Iterator[Change]:
    """The lines of each port, those of one kind together."""
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        yield from (Change(lines) for kind in kinds if (lines := (*kind(name, was, port),)))


def _length_changes(plans: Mapping[str, PortPlan]) -> Iterator[Change]:
    """Before PFC, by which the switch looks at the length; older images look then only."""
    cells = {cell: value for plan in plans.values() for cell, value in plan.lengths.items()}
    yield from (Change((line,)) for line in say.write_cells(cells.items()))


def _touch_changes(plans: Mapping[str, PortPlan]) -> Iterator[Change]:
    """A line of its own: what comes together with the length may be looked at before it."""
    touched = [plan for plan in plans.values() if plan.touches and plan.pause_list]
    cells = {cell: value for plan in touched for cell, value in plan.touches.items()}
    lines = tuple(say.write_cells(cells.items()))
    if lines:
        yield Change(lines)


def _watchdog_changes(plans: Mapping[str, PortPlan]) -> Iterator[Change]:
    """After the lists of all ports: a watchdog takes the list that is there when it starts."""
    cells = {cell: value for plan in plans.values() for cell, value in plan.starts_watchdog.items()}
    yield from (Change((line,)) for line in say.write_cells(cells.items()))


def _only(these: tuple[int, ...], those: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(vlan for vlan in these if vlan not in those)


def _require_pool(actual: SwitchState, target: SwitchState) -> None:
    wanted = any(port.lossless_buffers for port in target.ports.values())
    if target.roce == "lossless" and actual.roce == "none" and wanted:
        raise Unsettable(
            "lossless needs the buffer pool ingress_lossless_pool, which the switch has not. "
            "`sudo config qos reload` makes it from the platform's template, and sets the QoS of "
            "every port, so we do not run it: do so once, save, and run this again"
        )


_MADE: Final = f"BUFFER_PROFILE|{LOSSLESS_PROFILE}"
"""What the switch makes for PFC, and would miss while a port still has any."""


@dataclass(slots=True)
class _Rows:
    """What happens to the rows that bear our name, and to buffer profiles made for us."""

    written: Rows = field(default_factory=dict[str, dict[str, str]])
    stripped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    deleted: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, actual: SwitchState, target: SwitchState, plans: Mapping[str, PortPlan]) -> _Rows:
        found, held, before = cls(), read_rows(actual) or {}, read_rows(target)
        wanted: Rows = {}
        for name, plan in plans.items():
            content = our_rows(target.ports.get(name, PortState()))
            wanted |= {row: content[row] for row in plan.needed if row in content}
        found._write(held, wanted)
        if before is not None:
            kept = {row for plan in plans.values() for row in plan.named}
            kept |= {*read_held(actual), *wanted}
            kept |= {row for row in held if row.startswith(_MADE) and _is_used(row, plans)}
            found._restore(held, {r: f for r, f in before.items() if r not in wanted}, kept)
        return found

    def _write(self, held: Rows, wanted: Rows) -> None:
        for row, fields in sorted(wanted.items()):
            now = held.get(row, {})
            if any(now.get(key) != value for key, value in fields.items()):
                self.written[row] = fields

    def _restore(self, held: Rows, before: Rows, kept: set[str]) -> None:
        self._write(held, before)
        for row, fields in sorted(held.items()):
            if row in before:
                extra = sorted({*fields} - {*before[row]})
                self.stripped += [(row, key) for key in extra]
            elif row not in kept:
                self.deleted.append(row)


def _is_used(row: str, plans: Mapping[str, PortPlan]) -> bool:
    """Whether a group names a profile that the switch made, or will after these lines."""
    profile = row.partition("|")[2]
    return any(
        profile in plan.profiles
        or (plan.is_looked_at and plan.length and f"_{plan.length}_" in profile)
        for plan in plans.values()
    )


def _member_lines(name: str, was: PortState, port: PortState) -> Iterator[str]:
    before = _members(was)
    after = (
        before
        if port.mode is None and port.trunk_vlans is None
        else _members(fill_membership(was, port))
    )
    for vlan, untagged in sorted(before.items()):
        if after.get(vlan) != untagged:
            yield f"sudo config vlan member del {vlan} {name}"
    mode = _switchport(name, was, port, after)
    if mode is not None:
        yield f"sudo config switchport mode {mode} {name}"
    word = mode or _recorded_mode(name, was)
    for vlan, untagged in sorted(after.items()):
        if before.get(vlan) == untagged:
            continue
        if word == "routed" or (word == "access" and not untagged):
            # It was so before us, though the command line forbids it.
            yield say.write_member(vlan, name, untagged=untagged)
        else:
            yield f"sudo config vlan member add {'-u ' if untagged else ''}{vlan} {name}"


def _members(port: PortState) -> dict[int, bool]:
    """VLAN to whether it is untagged."""
    trunk = () if port.trunk_vlans in {None, "all"} else port.trunk_vlans
    tagged = [vlan for vlan in trunk or () if isinstance(vlan, int)]
    if port.mode in {None, "routed"}:
        return {}
    members = dict.fromkeys(tagged if port.mode in {"trunk", "hybrid"} else (), False)
    if port.mode in {"access", "hybrid"} and port.access_vlan is not None:
        members[port.access_vlan] = True
    return members


def _switchport(
    name: str, was: PortState, port: PortState, after: Mapping[int, bool]
) -> str | None:
    """The mode that releases from 202405 on may have recorded: it limits what a port may join."""
    now, recorded = _recorded_mode(name, was), _recorded_mode(name, port)
    if now is None or port.mode is None:
        return None
    wanted = recorded or now
    if recorded is None and False in after.values() and now != "trunk":
        wanted = "trunk"
    elif recorded is None and after and now == "routed":
        wanted = "access"
    elif recorded is None and port.mode == "routed":
        wanted = "routed"
    return None if wanted == now else wanted


def _recorded_mode(name: str, port: PortState) -> str | None:
    return read_settings(port).get("mode", {}).get(mode_cell(name))


def _mtu_lines(name: str, was: PortState, port: PortState) -> Iterator[str]:
    if port.mtu_bytes is None:
        return
    if port.mtu_bytes != was.mtu_bytes:
        yield f"sudo config interface mtu {name} {port.mtu_bytes}"
    unwritten, written = _unwritten("mtu_bytes", was, port)
    if unwritten and (written or port.mtu_bytes != was.mtu_bytes):
        # After the default is set: a field that vanishes changes nothing until the next boot.
        yield say.delete_field(port_row(name), "mtu")


def _admin_lines(name: str, was: PortState, port: PortState) -> Iterator[str]:
    if port.admin_up is None:
        return
    if port.admin_up != was.admin_up:
        yield f"sudo config interface {'startup' if port.admin_up else 'shutdown'} {name}"
    unwritten, written = _unwritten("admin_up", was, port)
    if unwritten and (written or port.admin_up != was.admin_up):
        yield say.delete_field(port_row(name), "admin_status")


def _unwritten(key: str, was: PortState, port: PortState) -> tuple[bool, bool]:
    """Whether the target has a setting by default only, and whether it is written now."""
    return is_default(port.native, key), not is_default(was.native, key)
