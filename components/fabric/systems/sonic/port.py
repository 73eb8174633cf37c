"""The QoS of one SONiC port: which cells change on the way from what it has to its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.sonic import buffers
from components.fabric.systems.sonic.rows import (
    DYNAMIC_PROFILE,
    GROUP,
    LIST_FIELD,
    LOSSLESS_PROFILE,
    QOS,
    WATCHDOG,
    Cell,
    Cells,
    Setting,
    cells_of,
    every_setting,
    named_rows,
    numbers_of,
    read_rows,
    read_settings,
    settings_of,
    span_of,
    spread,
    wanted_cells,
    whole_words,
)


@dataclass(slots=True)
class PortPlan:
    """What changes on one port."""

    name: str
    was: PortState
    port: PortState
    now: Cells = field(init=False)
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

    def __post_init__(self) -> None:
        """Take the cells of all settings together."""
        settings = read_settings(self.was).values()
        self.now = {cell: value for cells in settings for cell, value in cells.items()}

    @property
    def pause(self) -> Cell:
        """The list of priorities with PFC."""
        return QOS.format(self.name), "pfc_enable"

    @property
    def named(self) -> set[str]:
        """Rows that the port names afterwards, beside what is put back."""
        gone = {*self.deletes, *self.recorded}
        cells = {**self.now, **self.sets}
        return {*named_rows((cell, value) for cell, value in cells.items() if cell not in gone)}

    @property
    def pause_list(self) -> str:
        """`pfc_enable` afterwards, which the switch makes groups and their profile for."""
        held = self.sets.get(self.pause, self.now.get(self.pause, ""))
        return "" if self.pause in self.deletes else held

    def uses(self, profile: str) -> bool:
        """Whether a group names a profile that the switch made, or will after these lines."""
        for (row, _), value in {**self.now, **self.sets}.items():
            if row.startswith("BUFFER_PG|") and value == profile and row not in self.gone_groups:
                return True
        # The switch makes groups of these lines; else those that are there are all.
        looks = bool(self.pause_list) and (self.touched or self.pause in self.sets)
        cells = {**self.now, **self.first}
        said = [cells[cell] for cell in buffers.cable_cells(self.name, cells) if cell in cells]
        return looks and bool(said) and bool(said[-1]) and f"_{said[-1]}_" in profile

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


def plan_qos(plan: PortPlan, switch: SwitchState) -> None:
    """What changes on the QoS of one port.

    Raises:
        Unsettable: No line of ours leads there.
    """
    recorded = read_settings(plan.port)
    _plan_length(plan, switch, recorded.get("cable"))
    for setting in settings_of(plan.port):
        if setting[0] not in recorded:
            _plan_wanted(plan, switch, setting)
    rows = {name: (row, tc) for name, row, tc in every_setting()}
    for name, cells in recorded.items():
        if name in rows:
            _put_back(plan, cells_of(plan.name, *rows[name]), cells)
        if name == "buffers":
            _put_back_groups(plan, cells)
    if "pfc_watchdog" in recorded:
        _set_watchdog(plan, recorded["pfc_watchdog"])
    elif plan.port.pfc_watchdog is not None:
        _want_watchdog(plan, switch)


def _plan_wanted(plan: PortPlan, switch: SwitchState, setting: Setting) -> None:
    name, row, tc = setting
    wanted, cells = wanted_cells(plan.name, plan.port, row, tc), cells_of(plan.name, row, tc)
    as_wanted = all(plan.now.get(cell) == wanted.get(cell) for cell in cells)
    if not row.agrees(plan.was, plan.port, tc):
        _require_own_row(plan, name, tc)
        if name == "buffers":
            _want_groups(plan, switch, as_wanted=as_wanted)
        for cell in cells:
            plan.put(cell, wanted.get(cell))
    elif not as_wanted:
        return
    plan.needed |= {*named_rows(wanted.items())}


def _plan_length(plan: PortPlan, switch: SwitchState, recorded: Cells | None) -> None:
    """Before PFC, by which the switch looks at the length; older images look then only."""
    was, port, aim = plan.was, plan.port, Cells()
    held = buffers.cable_cells(plan.name, plan.now)
    if recorded is not None:
        gone = [cell for cell in held if cell in plan.now and cell not in recorded]
        plan.deletes += gone
        aim = dict(recorded) or dict.fromkeys(gone, buffers.FORGOTTEN)
    elif port.cable_m is not None and was.cable_m != port.cable_m:
        aim = dict.fromkeys(held, f"{port.cable_m}m")
        paused, rows = port.pfc_priorities or (), read_rows(switch) or ()
        for cell, speed, length in buffers.made_groups(plan.now, paused):
            profile = f"{LOSSLESS_PROFILE}{speed}_{port.cable_m}m_profile"
            if length == port.cable_m:
                continue
            # buffermgrd does not touch a row of an earlier list, `3-4` beside `3`, which would
            # bring its headroom back at the next boot. Its new profile must be there already.
            if buffers.is_run(span_of(cell[0]), paused):
                plan.touched = True
            elif f"BUFFER_PROFILE|{profile}" in rows:
                plan.sets[cell] = profile
    lengths = {cell: value for cell, value in aim.items() if plan.now.get(cell) != value}
    plan.first |= lengths
    plan.length_moves = bool(lengths)
    plan.touched = plan.touched or plan.length_moves
    if plan.touched:
        found = buffers.touch_cells(plan.name, was, port)
        plan.renews_pfc = found is None
        plan.touches |= found or {}


def _want_watchdog(plan: PortPlan, switch: SwitchState) -> None:
    was, port, implied = plan.was, plan.port, whole_words(switch)
    if not port.pfc_watchdog:
        _set_watchdog(plan, {})
        return
    paused, times = port.pfc_priorities or (), port.pfc_watchdog_ms
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
    listed = (QOS.format(plan.name), LIST_FIELD)
    held = buffers.watchdog_cells(plan.name, plan.now)
    wanted = buffers.watchdog_cells(plan.name, target)
    plan.put(listed, target.get(listed))
    if held != wanted or plan.now.get(listed) != target.get(listed):
        plan.gone_rows += [WATCHDOG.format(plan.name)] if held else []
        plan.last |= wanted


def _require_own_row(plan: PortPlan, setting: str, tc: int) -> None:
    """A queue that shares its row with others cannot be set alone: which row wins is not said."""
    for row, _ in read_settings(plan.was).get(setting, {}):
        if row.startswith("QUEUE|") and "-" in span_of(row):
            raise Unsettable(
                f"{row} is one row for several queues of {plan.name}, and queue {tc} needs one of "
                "its own: write one row a queue, and run this again"
            )


def _want_groups(plan: PortPlan, switch: SwitchState, *, as_wanted: bool) -> None:
    """In the dynamic model a lossless buffer is asked for; in the other it follows from PFC."""
    was, port = plan.was, plan.port
    lacking = [n for n in port.lossless_buffers or () if n not in (was.lossless_buffers or ())]
    if "dynamic" in whole_words(switch):
        for priority in lacking:
            plan.put((GROUP.format(plan.name, priority), "profile"), DYNAMIC_PROFILE)
    elif as_wanted and was.pfc_priorities == port.pfc_priorities and not plan.length_moves:
        raise Unsettable(
            f"PFC of {plan.name} is on, and the switch made no lossless buffer for priority "
            f"{lacking[0]}. Look at CABLE_LENGTH and the speed of the port: the platform's "
            "pg_profile_lookup.ini must have a line for both"
        )


def _put_back(plan: PortPlan, cells: tuple[Cell, ...], recorded: Cells) -> None:
    plan.recorded |= {*cells}
    for cell in cells:
        plan.put(cell, recorded.get(cell))


def _put_back_groups(plan: PortPlan, recorded: Cells) -> None:
    before = {cell for cell in recorded if cell[0].startswith("BUFFER_PG|")}
    plan.gone_groups += [row for row in _made_groups(plan) if (row, "profile") not in before]
    for cell in sorted(before):
        shared = {n for row in plan.gone_groups for n in spread(span_of(row))}
        if shared & {*spread(span_of(cell[0]))} and cell in plan.now:
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
        # With another length the switch may have made none of a list that stays.
        stays = buffers.is_run(span_of(row), paused) and not plan.length_moves
        made = profile.startswith(LOSSLESS_PROFILE) and not stays
        if row.startswith("BUFFER_PG|") and (profile == DYNAMIC_PROFILE or made):
            yield row
