"""The QoS of one SONiC port: which cells change on the way from what it has to its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.sonic import cable
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.facts import DYNAMIC_PROFILE, LOSSLESS_PROFILE
from components.fabric.systems.sonic.rows import (
    Cell,
    Cells,
    fields_of,
    group_row,
    named_rows,
    numbers_of,
    qos_row,
    read_rows,
    read_settings,
    settings_of,
    span_of,
    spread,
    strict_of,
    wanted_cells,
    whole_words,
)
from components.fabric.systems.sonic.watchdog import (
    LIST_FIELD,
    UNPOLLED,
    lists_all,
    poll_ms,
    wanted_watchdog,
    watchdog_cells,
    watchdog_row,
)


@dataclass(slots=True)
class PortPlan:
    """What changes on one port."""

    name: str
    now: Cells
    """Every cell of the port's settings that is there."""
    sets: Cells = field(default_factory=dict[Cell, str])
    deletes: list[Cell] = field(default_factory=list[Cell])
    gone_groups: list[str] = field(default_factory=list[str])
    """Priority groups that were made for our PFC."""
    renewed_groups: list[str] = field(default_factory=list[str])
    """Rows that share a group with one of those: they must be sent to the switch again."""
    needed: set[str] = field(default_factory=set[str])
    """Rows of ours that a wanted setting names."""
    recorded: set[Cell] = field(default_factory=set[Cell])
    """Cells that are put back: what they name was there before, or is no matter of ours."""
    lengths: Cells = field(default_factory=dict[Cell, str])
    """Lengths of the cable: they go before everything else of any port."""
    touched: bool = False
    """The switch must look at the length again."""
    touches: Cells = field(default_factory=dict[Cell, str])
    """What makes the switch look at the length again: it goes after everything else."""
    renews_pfc: bool = False
    """Nothing of the port is there to be touched, so PFC goes and comes back."""
    ends_watchdog: bool = False
    starts_watchdog: Cells = field(default_factory=dict[Cell, str])
    """The row of the watchdog: it goes after the list of what is watched."""

    @property
    def named(self) -> set[str]:
        """Rows that the port names afterwards, beside what is put back."""
        gone = {*self.deletes, *self.recorded}
        cells = {**self.now, **self.sets}
        left = {cell: value for cell, value in cells.items() if cell not in gone}
        return {*named_rows(left.items())}

    @property
    def pause_list(self) -> str:
        """`pfc_enable` afterwards, which the switch makes groups and their profile for."""
        pause = (qos_row(self.name), "pfc_enable")
        return "" if pause in self.deletes else self.sets.get(pause, self.now.get(pause, ""))

    @property
    def length(self) -> str | None:
        """What is said of the cable afterwards."""
        cells = {**self.now, **self.lengths}
        said = [cells[cell] for cell in cable.cable_cells(self.name, cells) if cell in cells]
        return said[-1] if said else None

    @property
    def is_looked_at(self) -> bool:
        """Whether the switch makes groups of these lines; else those that are there are all."""
        pause = (qos_row(self.name), "pfc_enable")
        return bool(self.pause_list) and (self.touched or pause in self.sets)

    @property
    def profiles(self) -> set[str]:
        """Profiles of the port's groups, as far as lines of ours decide."""
        cells = {**self.now, **self.sets}
        groups = {cell: value for cell, value in cells.items() if cell[0].startswith("BUFFER_PG|")}
        return {value for (row, _), value in groups.items() if row not in self.gone_groups}

    def changes(self) -> Iterator[Change]:
        """First what takes PFC and its buffers away, then what is set, then what goes."""
        pause = (qos_row(self.name), "pfc_enable")
        lines = [say.delete_row(watchdog_row(self.name))] if self.ends_watchdog else []
        renews = self.renews_pfc or self.gone_groups or pause in self.deletes
        if self.now.get(pause) and renews:
            # buffermgrd remembers a list that just vanishes, and would make the groups again.
            lines += say.write_cells([(pause, "")])
            if pause not in {*self.sets, *self.deletes}:
                self.sets[pause] = self.now[pause]
        lines += [say.delete_row(row) for row in (*self.gone_groups, *self.renewed_groups)]
        lines += say.write_cells(sorted(self.sets.items()))
        lines += [say.delete_field(*cell) for cell in self.deletes]
        if lines:
            yield Change(tuple(lines))


def plan_port(name: str, was: PortState, port: PortState, switch: SwitchState) -> PortPlan:
    """What changes on the QoS of one port.

    Raises:
        Unsettable: No line of ours leads there.
    """
    now: Cells = {}
    for cells in read_settings(was).values():
        now |= cells
    plan = PortPlan(name, now)
    recorded = read_settings(port)
    _plan_length(plan, was, port, switch, recorded.get("cable"))
    for setting in settings_of(port):
        if setting not in {*_APART, *recorded}:
            _plan_wanted(plan, was, port, setting, switch)
    for setting, cells in recorded.items():
        if setting not in {"mode", *_APART}:
            _plan_recorded(plan, setting, cells)
    if "pfc_watchdog" in recorded:
        _set_watchdog(plan, recorded["pfc_watchdog"])
    elif port.pfc_watchdog is not None:
        _want_watchdog(plan, was, port, switch)
    return plan


_APART: Final = ("cable", "pfc_watchdog")
"""Settings whose cells depend on what is there; the others have theirs by their names."""


def _plan_length(
    plan: PortPlan, was: PortState, port: PortState, switch: SwitchState, recorded: Cells | None
) -> None:
    if recorded is not None:
        held = [cell for cell in cable.cable_cells(plan.name, plan.now) if cell in plan.now]
        gone = [cell for cell in held if cell not in recorded]
        plan.deletes += gone
        plan.lengths |= {cell: v for cell, v in recorded.items() if plan.now.get(cell) != v}
        if not recorded:
            plan.lengths |= dict.fromkeys(gone, cable.FORGOTTEN)
        plan.touched = bool(plan.lengths)
    elif port.cable_m is not None and was.cable_m != port.cable_m:
        _want_length(plan, port.cable_m, port.pfc_priorities or (), switch)
    if plan.touched:
        found = cable.touch_cells(plan.name, was, port)
        plan.renews_pfc = found is None
        plan.touches |= found or {}


def _want_length(
    plan: PortPlan, length_m: int, paused: tuple[int, ...], switch: SwitchState
) -> None:
    value = cable.write_length(length_m)
    cells = cable.cable_cells(plan.name, plan.now)
    plan.lengths |= {cell: value for cell in cells if plan.now.get(cell) != value}
    plan.sets |= cable.left_behind(plan.now, paused, length_m, read_rows(switch) or ())
    plan.touched = bool(plan.lengths) or cable.needs_touch(plan.now, paused, length_m)


def _want_watchdog(plan: PortPlan, was: PortState, port: PortState, switch: SwitchState) -> None:
    if not port.pfc_watchdog:
        _set_watchdog(plan, {})
        return
    paused, implied = port.pfc_priorities or (), whole_words(switch)
    times = port.pfc_watchdog_ms
    timed = times in {None, was.pfc_watchdog_ms}
    if was.pfc_watchdog and timed and lists_all(plan.name, plan.now, paused):
        return
    if UNPOLLED in implied:
        raise Unsettable(
            "its PFC watchdogs see nothing, since the polling of their counters is off. It is one "
            "setting for all ports, so we do not change it: run `sudo pfcwd counter_poll enable`, "
            "save, and run this again"
        )
    polled = poll_ms(implied)
    if times is not None and min(times) < polled:
        raise Unsettable(
            f"its PFC watchdogs look each {polled} ms, and pfc_watchdog_ms has {min(times)}. How "
            "often they look is one setting for all ports, so we do not change it: run `sudo pfcwd "
            f"interval {min(times)}`, save, and run this again"
        )
    _set_watchdog(plan, wanted_watchdog(plan.name, plan.now, paused, implied, times))


def _set_watchdog(plan: PortPlan, target: Cells) -> None:
    """A running watchdog takes neither another row nor another list: it ends, and starts again."""
    listed = (qos_row(plan.name), LIST_FIELD)
    held, wanted = watchdog_cells(plan.name, plan.now), watchdog_cells(plan.name, target)
    _set(plan, listed, target.get(listed))
    if held == wanted and plan.now.get(listed) == target.get(listed):
        return
    plan.ends_watchdog = bool(held)
    plan.starts_watchdog = wanted


def _plan_wanted(
    plan: PortPlan, was: PortState, port: PortState, setting: str, switch: SwitchState
) -> None:
    wanted = wanted_cells(plan.name, port, setting)
    cells = fields_of(plan.name, setting)
    as_wanted = all(plan.now.get(cell) == wanted.get(cell) for cell in cells)
    if not _agrees(was, port, setting):
        _require_own_row(plan.name, was, setting)
        if setting == "buffers":
            _want_groups(plan, was, port, switch, as_wanted=as_wanted)
        for cell in cells:
            _set(plan, cell, wanted.get(cell))
    elif not as_wanted:
        return
    plan.needed |= {*named_rows(wanted.items())}


def _set(plan: PortPlan, cell: Cell, value: str | None) -> None:
    now = plan.now.get(cell)
    if value is None and now is not None:
        plan.deletes.append(cell)
    elif value is not None and value != now:
        plan.sets[cell] = value


def _agrees(was: PortState, port: PortState, setting: str) -> bool:
    """Whether a port has a setting already, by whichever names."""
    kind, _, number = setting.partition("_")
    match kind:
        case "trust":
            return (
                was.trust == port.trust
                and port.dscp_priorities.items() <= was.dscp_priorities.items()
                and port.priority_classes.items() <= was.priority_classes.items()
            )
        case "pfc":
            return was.pfc_priorities == port.pfc_priorities
        case "buffers":
            return {*(port.lossless_buffers or ())} <= {*(was.lossless_buffers or ())}
        case "ecn":
            return was.ecn.get(int(number)) == port.ecn[int(number)]
        case _:
            tc = int(number)
            if tc in strict_of(port):
                return tc in strict_of(was)
            return tc not in strict_of(was) and was.class_shares.get(tc) == port.class_shares[tc]


def _require_own_row(name: str, was: PortState, setting: str) -> None:
    """A queue that shares its row with others cannot be set alone: which row wins is not said."""
    for row, _ in read_settings(was).get(setting, {}):
        if row.startswith("QUEUE|") and "-" in span_of(row):
            queue = setting.partition("_")[2]
            raise Unsettable(
                f"{row} is one row for several queues of {name}, and queue {queue} needs one of "
                "its own: write one row a queue, and run this again"
            )


def _want_groups(
    plan: PortPlan, was: PortState, port: PortState, switch: SwitchState, *, as_wanted: bool
) -> None:
    """In the dynamic model a lossless buffer is asked for; in the other it follows from PFC."""
    lacking = [n for n in port.lossless_buffers or () if n not in (was.lossless_buffers or ())]
    if "dynamic" in whole_words(switch):
        for priority in lacking:
            _set(plan, (group_row(plan.name, priority), "profile"), DYNAMIC_PROFILE)
    elif as_wanted and was.pfc_priorities == port.pfc_priorities and not plan.lengths:
        raise Unsettable(
            f"PFC of {plan.name} is on, and the switch made no lossless buffer for priority "
            f"{lacking[0]}. Look at CABLE_LENGTH and the speed of the port: the platform's "
            "pg_profile_lookup.ini must have a line for both"
        )


def _plan_recorded(plan: PortPlan, setting: str, recorded: Cells) -> None:
    plan.recorded |= {*fields_of(plan.name, setting)}
    for cell in fields_of(plan.name, setting):
        _set(plan, cell, recorded.get(cell))
    if setting != "buffers":
        return
    before = {cell for cell in recorded if cell[0].startswith("BUFFER_PG|")}
    plan.gone_groups += [row for row in _made_groups(plan) if (row, "profile") not in before]
    for cell in sorted(before):
        if any(_overlap(cell[0], row) for row in plan.gone_groups) and cell in plan.now:
            plan.renewed_groups.append(cell[0])
            plan.sets[cell] = recorded[cell]
        else:
            _set(plan, cell, recorded[cell])


def _made_groups(plan: PortPlan) -> Iterator[str]:
    """Groups that were made for PFC of ours; the switch makes those of the list that stays again.

    It makes one row for neighbours: `3-4` for the list `3,4`.
    """
    paused = numbers_of(plan.pause_list)
    for (row, _), profile in sorted(plan.now.items()):
        if not row.startswith("BUFFER_PG|"):
            continue
        # With another length the switch may have made none of a list that stays.
        stays = cable.is_run(span_of(row), paused) and not plan.lengths
        if profile == DYNAMIC_PROFILE or (profile.startswith(LOSSLESS_PROFILE) and not stays):
            yield row


def _overlap(one: str, other: str) -> bool:
    first, second = ({*spread(span_of(row))} for row in (one, other))
    return bool(first & second)
