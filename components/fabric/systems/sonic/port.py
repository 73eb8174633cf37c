"""The QoS of one SONiC port: which cells change on the way from what it has to its target.

`CABLE_LENGTH|AZURE` has a field for each port. Unless the switch computes buffers, buffermgrd looks
length and speed up in the platform's `pg_profile_lookup.ini`, makes a profile that has both in its
name, and gives it to the port's groups. A length without a line leaves everything as it was, so
what counts here is what the groups have.

`PFC_WD|Ethernet0` starts a watchdog; `pfcwd_sw_enable` of `PORT_QOS_MAP|Ethernet0` says which
queues it watches. `PFC_WD|GLOBAL` belongs to every port and is only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from components.fabric.parts import is_default
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.read import (
    ACTION,
    RANGES_MS,
    UNPOLLED,
    is_time,
    made_groups,
    poll_ms,
)
from components.fabric.systems.sonic.rows import Cell, Cells, Setting

TEMPLATE_ROW: Final = "CABLE_LENGTH|AZURE"
"""The row that the platform's template writes (buffers_config.j2)."""
FORGOTTEN: Final = "0m"
"""A length of which buffermgrd makes nothing; it remembers one whose field just vanishes."""
TIME_MS: Final = 200
"""Until a watchdog drops, and until it forwards again: the defaults of `pfcwd start_default`."""


def cable_cells(name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells that say the length of a port; the template's if none does."""
    found = tuple(cell for cell in cells if cell[0].startswith("CABLE_LENGTH|"))
    return found or ((TEMPLATE_ROW, name),)


def is_run(span: str, listed: Iterable[int]) -> bool:
    """Whether buffermgrd makes this very row of a list: it has one row for neighbours, `3-4`."""
    numbers = db.spread(span)
    around = range(numbers.start - 1, numbers.stop + 1)
    return bool(numbers) and {*around} & {*listed} == {*numbers}


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
    """Cells that are put back to what was recorded."""
    length_moves: bool = False
    touches: Cells = field(default_factory=dict[Cell, str])
    """What makes the switch look at the length again: it goes with the last."""
    touched: bool = False
    """The switch must look at the length again."""
    renews_pfc: bool = False
    """Nothing of the port is there to be touched, so PFC goes and comes back."""

    def __post_init__(self) -> None:
        """Take the cells of all settings together."""
        settings = db.read_settings(self.was).values()
        self.now = {cell: value for cells in settings for cell, value in cells.items()}

    @property
    def pause(self) -> Cell:
        """The list of priorities with PFC."""
        return db.QOS.format(self.name), "pfc_enable"

    @property
    def named(self) -> set[str]:
        """Rows that the port names afterwards, except by cells that are put back."""
        gone = {*self.deletes, *self.recorded}
        cells = {**self.now, **self.sets}
        return {*db.named_rows((cell, value) for cell, value in cells.items() if cell not in gone)}

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
        said = [cells[cell] for cell in cable_cells(self.name, cells) if cell in cells]
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
    recorded = db.read_settings(plan.port)
    _plan_length(plan, switch, recorded.get("cable"))
    for setting in db.settings_of(plan.port):
        if setting[0] not in recorded:
            _plan_wanted(plan, switch, setting)
    rows = {name: (row, tc) for name, row, tc in db.every_setting()}
    for name, cells in recorded.items():
        if name in rows:
            _put_back(plan, db.cells_of(plan.name, *rows[name]), cells)
        if name == "buffers":
            _put_back_groups(plan, cells)
    if "pfc_watchdog" in recorded:
        _set_watchdog(plan, recorded["pfc_watchdog"])
    elif plan.port.pfc_watchdog is not None:
        _want_watchdog(plan, switch)


def _plan_wanted(plan: PortPlan, switch: SwitchState, setting: Setting) -> None:
    name, row, tc = setting
    wanted, cells = db.wanted_cells(plan.name, plan.port, row, tc), db.cells_of(plan.name, row, tc)
    as_wanted = all(plan.now.get(cell) == wanted.get(cell) for cell in cells)
    if not row.agrees(plan.was, plan.port, tc):
        _require_own_row(plan, name, tc)
        if name == "buffers":
            _want_groups(plan, switch, as_wanted=as_wanted)
        for cell in cells:
            plan.put(cell, wanted.get(cell))
    elif not as_wanted:
        return
    plan.needed |= {*db.named_rows(wanted.items())}


def _plan_length(plan: PortPlan, switch: SwitchState, recorded: Cells | None) -> None:
    """Before PFC, by which the switch looks at the length; older images look then only."""
    was, port, aim = plan.was, plan.port, Cells()
    held = cable_cells(plan.name, plan.now)
    if recorded is not None:
        gone = [cell for cell in held if cell in plan.now and cell not in recorded]
        plan.deletes += gone
        aim = dict(recorded) or dict.fromkeys(gone, FORGOTTEN)
    elif port.cable_m is not None and was.cable_m != port.cable_m:
        aim = dict.fromkeys(held, f"{port.cable_m}m")
        paused, rows = port.pfc_priorities or (), db.read_rows(switch) or ()
        for cell, speed, length in made_groups(plan.now, paused):
            profile = f"{db.LOSSLESS_PROFILE}{speed}_{port.cable_m}m_profile"
            if length == port.cable_m:
                continue
            # buffermgrd does not touch a row of an earlier list, `3-4` beside `3`, which would
            # bring its headroom back at the next boot. Its new profile must be there already.
            if is_run(db.span_of(cell[0]), paused):
                plan.touched = True
            elif f"BUFFER_PROFILE|{profile}" in rows:
                plan.sets[cell] = profile
    lengths = {cell: value for cell, value in aim.items() if plan.now.get(cell) != value}
    plan.first |= lengths
    plan.length_moves = bool(lengths)
    plan.touched = plan.touched or plan.length_moves
    if plan.touched:
        found = _touch_cells(plan)
        plan.renews_pfc = found is None
        plan.touches |= found or {}


def _touch_cells(plan: PortPlan) -> Cells | None:
    """A field of a port, with the value that it has: by its event buffermgrd looks at the length.

    It does so by the length alone in images from March 2026 on only (sonic-swss 67198295).

    Returns:
        Nothing if the port's MTU or state is written anyway; None if no field is there.
    """
    was, port, row = plan.was, plan.port, db.PORT.format(plan.name)
    if port.mtu_bytes not in {None, was.mtu_bytes} or port.admin_up not in {None, was.admin_up}:
        return {}
    if not is_default(was.native, "mtu_bytes") and was.mtu_bytes is not None:
        return {(row, "mtu"): str(was.mtu_bytes)}
    if not is_default(was.native, "admin_up") and was.admin_up is not None:
        return {(row, "admin_status"): "up" if was.admin_up else "down"}
    return None


def _want_watchdog(plan: PortPlan, switch: SwitchState) -> None:
    """Times that are already set are kept, unless the file says others."""
    was, port, implied = plan.was, plan.port, db.whole_words(switch)
    if not port.pfc_watchdog:
        _set_watchdog(plan, {})
        return
    paused, times = {*(port.pfc_priorities or ())}, port.pfc_watchdog_ms
    listed, row = (db.QOS.format(plan.name), db.LIST_FIELD), db.WATCHDOG.format(plan.name)
    lists_all = paused <= db.numbers_of(plan.now.get(listed, ""))
    if was.pfc_watchdog and times in {None, was.pfc_watchdog_ms} and lists_all:
        return
    polled = poll_ms(implied)
    if UNPOLLED in implied:
        raise Unsettable(
            "its PFC watchdogs see nothing, since the polling of their counters is off. It is one "
            "setting for all ports, so we do not change it: run `sudo pfcwd counter_poll enable`, "
            "save, and run this again"
        )
    if times is not None and min(times) < polled:
        raise Unsettable(
            f"its PFC watchdogs look each {polled} ms, and pfc_watchdog_ms has {min(times)}. How "
            "often they look is one setting for all ports, so we do not change it: run `sudo pfcwd "
            f"interval {min(times)}`, save, and run this again"
        )
    wanted = _rows_in(plan.now, row) | {(row, "action"): ACTION}
    for number, time in enumerate(RANGES_MS):
        if times is not None:
            wanted[row, time] = str(times[number])
        elif not is_time(wanted.get((row, time), ""), time, implied):
            wanted[row, time] = str(max(TIME_MS, polled))
    wanted[listed] = plan.now[listed] if lists_all else ",".join(map(str, sorted(paused)))
    _set_watchdog(plan, wanted)


def _rows_in(cells: Cells, row: str) -> Cells:
    return {cell: value for cell, value in cells.items() if cell[0] == row}


def _set_watchdog(plan: PortPlan, target: Cells) -> None:
    """A running watchdog takes neither another row nor another list: it ends, and starts again.

    A row that changes under it is half taken (sonic-swss, pfcwdorch.cpp).
    """
    listed, row = (db.QOS.format(plan.name), db.LIST_FIELD), db.WATCHDOG.format(plan.name)
    held, wanted = _rows_in(plan.now, row), _rows_in(target, row)
    plan.put(listed, target.get(listed))
    if held != wanted or plan.now.get(listed) != target.get(listed):
        plan.gone_rows += [row] if held else []
        plan.last |= wanted


def _require_own_row(plan: PortPlan, setting: str, tc: int) -> None:
    """A queue that shares its row with others cannot be set alone: which row wins is not said."""
    for row, _ in db.read_settings(plan.was).get(setting, {}):
        if row.startswith("QUEUE|") and "-" in db.span_of(row):
            raise Unsettable(
                f"{row} is one row for several queues of {plan.name}, and queue {tc} needs one of "
                "its own: write one row a queue, and run this again"
            )


def _want_groups(plan: PortPlan, switch: SwitchState, *, as_wanted: bool) -> None:
    """In the dynamic model a lossless buffer is asked for; in the other it follows from PFC."""
    was, port = plan.was, plan.port
    lacking = [n for n in port.lossless_buffers or () if n not in (was.lossless_buffers or ())]
    if "dynamic" in db.whole_words(switch):
        for priority in lacking:
            plan.put((db.GROUP.format(plan.name, priority), "profile"), db.DYNAMIC_PROFILE)
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
        shared = {n for row in plan.gone_groups for n in db.spread(db.span_of(row))}
        if shared & {*db.spread(db.span_of(cell[0]))} and cell in plan.now:
            plan.renewed_groups.append(cell[0])
            plan.sets[cell] = recorded[cell]
        else:
            plan.put(cell, recorded[cell])


def _made_groups(plan: PortPlan) -> Iterator[str]:
    """Groups that were made for PFC of ours; the switch makes those of the list that stays again.

    It makes one row for neighbours: `3-4` for the list `3,4`.
    """
    paused = db.numbers_of(plan.pause_list)
    for (row, _), profile in sorted(plan.now.items()):
        # With another length the switch may have made none of a list that stays.
        stays = is_run(db.span_of(row), paused) and not plan.length_moves
        made = profile.startswith(db.LOSSLESS_PROFILE) and not stays
        if row.startswith("BUFFER_PG|") and (profile == db.DYNAMIC_PROFILE or made):
            yield row
