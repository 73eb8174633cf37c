"""The QoS of one SONiC port: which cells change on the way from what it has to its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from components.fabric.drivers import sonic_lines as say
from components.fabric.drivers.base import Change, Unsettable
from components.fabric.drivers.sonic_facts import DYNAMIC_PROFILE, LOSSLESS_PROFILE
from components.fabric.drivers.sonic_rows import (
    Cell,
    Cells,
    fields_of,
    group_row,
    named_rows,
    qos_row,
    read_words,
    settings_of,
    wanted_cells,
)
from components.fabric.state import PortState, SwitchState


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
    """Rows that share a group with one of those: the switch must be told of them again."""
    needed: set[str] = field(default_factory=set[str])
    """Rows of ours that a wanted setting names."""
    recorded: set[Cell] = field(default_factory=set[Cell])
    """Cells that are put back: what they name was there before, or is no matter of ours."""

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

    def changes(self) -> Iterator[Change]:
        """First what takes PFC and its buffers away, then what is set, then what goes."""
        pause = (qos_row(self.name), "pfc_enable")
        interrupts = f"PFC of {self.name} changes" if pause in {*self.sets, *self.deletes} else None
        lines: list[str] = []
        if self.now.get(pause) and (self.gone_groups or pause in self.deletes):
            # buffermgrd remembers a list that just vanishes, and would make the groups again.
            lines += say.write_cells([(pause, "")])
            if pause not in {*self.sets, *self.deletes}:
                self.sets[pause] = self.now[pause]
        lines += [say.delete_row(row) for row in (*self.gone_groups, *self.renewed_groups)]
        lines += say.write_cells(sorted(self.sets.items()))
        lines += [say.delete_field(*cell) for cell in self.deletes]
        if lines:
            yield Change(tuple(lines), interrupts=interrupts)


def plan_port(name: str, was: PortState, port: PortState, switch: SwitchState) -> PortPlan:
    """What changes on the QoS of one port.

    Raises:
        Unsettable: No line of ours leads there.
    """
    now: Cells = {}
    for words in was.bindings.values():
        now |= read_words(words)
    plan = PortPlan(name, now)
    for setting in settings_of(port):
        if setting not in port.bindings:
            _plan_wanted(plan, was, port, setting, switch)
    for setting, words in port.bindings.items():
        if setting != "mode":
            _plan_recorded(plan, setting, read_words(words))
    return plan


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
            return int(number) in (was.strict_classes or ())


def _require_own_row(name: str, was: PortState, setting: str) -> None:
    """A queue that shares its row with others cannot be set alone: which row wins is not said."""
    for row, _ in read_words(was.bindings.get(setting, {})):
        if row.startswith("QUEUE|") and "-" in row.rpartition("|")[2]:
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
    if "dynamic" in (switch.implied or ()):
        for priority in lacking:
            _set(plan, (group_row(plan.name, priority), "profile"), DYNAMIC_PROFILE)
    elif as_wanted and was.pfc_priorities == port.pfc_priorities:
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
    listed = {int(part) for part in plan.pause_list.split(",") if part.isdigit()}
    for (row, _), profile in sorted(plan.now.items()):
        if not row.startswith("BUFFER_PG|"):
            continue
        low, high = _span(row)
        is_run = {*range(low - 1, high + 2)} & listed == {*range(low, high + 1)}
        if profile == DYNAMIC_PROFILE or (profile.startswith(LOSSLESS_PROFILE) and not is_run):
            yield row


def _overlap(one: str, other: str) -> bool:
    first, second = (_span(row) for row in (one, other))
    return first[0] <= second[1] and second[0] <= first[1]


def _span(row: str) -> tuple[int, int]:
    low, _, high = row.rpartition("|")[2].partition("-")
    return int(low), int(high or low)
