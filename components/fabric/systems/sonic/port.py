"""The QoS of one SONiC port: which cells change on the way from what it has to its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.sonic import buffers
from components.fabric.systems.sonic.rows import (
    DYNAMIC_PROFILE,
    LIST_FIELD,
    LOSSLESS_PROFILE,
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
    watchdog_row,
    whole_words,
)

_APART: Final = ("cable", "pfc_watchdog")
"""Settings whose cells depend on what is there; the others have theirs by their names."""


@dataclass(slots=True)
class PortPlan:
    """What changes on one port."""

    name: str
    now: Cells
    """Every cell of the port's settings that is there."""
    first: Cells = field(default_factory=dict[Cell, str])
    """Cells that go before PFC: what the switch makes buffers by, and VLANs."""
    sets: Cells = field(default_factory=dict[Cell, str])
    last: Cells = field(default_factory=dict[Cell, str])
    """Cells that go after everything else: MTU and state of the port, and its watchdog."""
    gone_rows: list[str] = field(default_factory=list[str])
    """Rows that go before anything comes: memberships, and a watchdog that starts again."""
    deletes: list[Cell] = field(default_factory=list[Cell])
    """Fields that go in the end."""
    gone_groups: list[str] = field(default_factory=list[str])
    """Priority groups that were made for our PFC."""
    renewed_groups: list[str] = field(default_factory=list[str])
    """Rows that share a group with one of those: they must be sent to the switch again."""
    needed: set[str] = field(default_factory=set[str])
    """Rows of ours that a wanted setting names."""
    recorded: set[Cell] = field(default_factory=set[Cell])
    """Cells that are put back: what they name was there before, or is no matter of ours."""
    length_moves: bool = False
    touches: Cells = field(default_factory=dict[Cell, str])
    """What makes the switch look at the length again: it goes with the last."""
    touched: bool = False
    """The switch must look at the length again."""
    renews_pfc: bool = False
    """Nothing of the port is there to be touched, so PFC goes and comes back."""

    @property
    def pause(self) -> Cell:
        """The list of priorities with PFC."""
        return qos_row(self.name), "pfc_enable"

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
        held = self.sets.get(self.pause, self.now.get(self.pause, ""))
        return "" if self.pause in self.deletes else held

    @property
    def length(self) -> str | None:
        """What is said of the cable afterwards."""
        cells = {**self.now, **self.first}
        said = [cells[cell] for cell in buffers.cable_cells(self.name, cells) if cell in cells]
        return said[-1] if said else None

    @property
    def is_looked_at(self) -> bool:
        """Whether the switch makes groups of these lines; else those that are there are all."""
        return bool(self.pause_list) and (self.touched or self.pause in self.sets)

    @property
    def profiles(self) -> set[str]:
        """Profiles of the port's groups, as far as lines of ours decide."""
        cells = {**self.now, **self.sets}
        groups = {cell: value for cell, value in cells.items() if cell[0].startswith("BUFFER_PG|")}
        return {value for (row, _), value in groups.items() if row not in self.gone_groups}

    def forgets(self) -> Cells:
        """PFC off, for a moment or for good, before its groups go.

        buffermgrd remembers a list that just vanishes, and would make the groups again.
        """
        renews = self.renews_pfc or self.gone_groups or self.pause in self.deletes
        if not (self.now.get(self.pause) and renews):
            return {}
        if self.pause not in {*self.sets, *self.deletes}:
            self.sets[self.pause] = self.now[self.pause]
        return {self.pause: ""}

    def put(self, cell: Cell, value: str | None) -> None:
        """Change a cell if it is not so already; None: it goes."""
        now = self.now.get(cell)
        if value is None and now is not None:
            self.deletes.append(cell)
        elif value is not None and value != now:
            self.sets[cell] = value


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
        if setting not in _APART:
            _plan_recorded(plan, setting, cells)
    if "pfc_watchdog" in recorded:
        _set_watchdog(plan, recorded["pfc_watchdog"])
    elif port.pfc_watchdog is not None:
        _want_watchdog(plan, was, port, switch)
    return plan


def _plan_length(
    plan: PortPlan, was: PortState, port: PortState, switch: SwitchState, recorded: Cells | None
) -> None:
    """Before PFC, by which the switch looks at the length; older images look then only."""
    held = buffers.cable_cells(plan.name, plan.now)
    aim: Cells = {}
    if recorded is not None:
        gone = [cell for cell in held if cell in plan.now and cell not in recorded]
        plan.deletes += gone
        aim = dict(recorded) or dict.fromkeys(gone, buffers.FORGOTTEN)
    elif port.cable_m is not None and was.cable_m != port.cable_m:
        paused = port.pfc_priorities or ()
        aim = dict.fromkeys(held, f"{port.cable_m}m")
        profiles = read_rows(switch) or ()
        plan.sets |= buffers.left_behind(plan.now, paused, port.cable_m, profiles)
        plan.touched = buffers.needs_touch(plan.now, paused, port.cable_m)
    lengths = {cell: value for cell, value in aim.items() if plan.now.get(cell) != value}
    plan.first |= lengths
    plan.length_moves = bool(lengths)
    plan.touched = plan.touched or plan.length_moves
    if plan.touched:
        found = buffers.touch_cells(plan.name, was, port)
        plan.renews_pfc = found is None
        plan.touches |= found or {}


def _want_watchdog(plan: PortPlan, was: PortState, port: PortState, switch: SwitchState) -> None:
    if not port.pfc_watchdog:
        _set_watchdog(plan, {})
        return
    paused, implied = port.pfc_priorities or (), whole_words(switch)
    times = port.pfc_watchdog_ms
    timed = times in {None, was.pfc_watchdog_ms}
    if was.pfc_watchdog and timed and buffers.lists_all(plan.name, plan.now, paused):
        return
    if buffers.UNPOLLED in implied:
        raise Unsettable(
            "its PFC watchdogs see nothing, since the polling of their counters is off. It is one "
            "setting for all ports, so we do not change it: run `sudo pfcwd counter_poll enable`, "
            "save, and run this again"
        )
    polled = buffers.poll_ms(implied)
    if times is not None and min(times) < polled:
        raise Unsettable(
            f"its PFC watchdogs look each {polled} ms, and pfc_watchdog_ms has {min(times)}. How "
            "often they look is one setting for all ports, so we do not change it: run `sudo pfcwd "
            f"interval {min(times)}`, save, and run this again"
        )
    _set_watchdog(plan, buffers.wanted_watchdog(plan.name, plan.now, paused, implied, times))


def _set_watchdog(plan: PortPlan, target: Cells) -> None:
    """A running watchdog takes neither another row nor another list: it ends, and starts again."""
    listed = (qos_row(plan.name), LIST_FIELD)
    held = buffers.watchdog_cells(plan.name, plan.now)
    wanted = buffers.watchdog_cells(plan.name, target)
    plan.put(listed, target.get(listed))
    if held == wanted and plan.now.get(listed) == target.get(listed):
        return
    plan.gone_rows += [watchdog_row(plan.name)] if held else []
    plan.last |= wanted


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
            plan.put(cell, wanted.get(cell))
    elif not as_wanted:
        return
    plan.needed |= {*named_rows(wanted.items())}


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
            plan.put((group_row(plan.name, priority), "profile"), DYNAMIC_PROFILE)
    elif as_wanted and was.pfc_priorities == port.pfc_priorities and not plan.length_moves:
        raise Unsettable(
            f"PFC of {plan.name} is on, and the switch made no lossless buffer for priority "
            f"{lacking[0]}. Look at CABLE_LENGTH and the speed of the port: the platform's "
            "pg_profile_lookup.ini must have a line for both"
        )


def _plan_recorded(plan: PortPlan, setting: str, recorded: Cells) -> None:
    plan.recorded |= {*fields_of(plan.name, setting)}
    for cell in fields_of(plan.name, setting):
        plan.put(cell, recorded.get(cell))
    if setting != "buffers":
        return
    before = {cell for cell in recorded if cell[0].startswith("BUFFER_PG|")}
    plan.gone_groups += [row for row in _made_groups(plan) if (row, "profile") not in before]
    for cell in sorted(before):
        if any(_overlap(cell[0], row) for row in plan.gone_groups) and cell in plan.now:
            plan.renewed_groups.append(cell[0])
            plan.sets[cell] = recorded[cell]
        else:
            plan.put(cell, recorded[cell])


def _made_groups(plan: PortPlan) -> Iterator[str]:
    """Groups that were made for PFC of ours; the switch makes those of the list that stays again.

    It makes one row for neighbours: `3-4` for the list `3,4`.
    """
    paused = numbers_of(plan.pause_list)
    for (row, _), profile in sorted(plan.now.items()):
        if not row.startswith("BUFFER_PG|"):
            continue
        # With another length the switch may have made none of a list that stays.
        stays = buffers.is_run(span_of(row), paused) and not plan.length_moves
        if profile == DYNAMIC_PROFILE or (profile.startswith(LOSSLESS_PROFILE) and not stays):
            yield row


def _overlap(one: str, other: str) -> bool:
    first, second = ({*spread(span_of(row))} for row in (one, other))
    return bool(first & second)
