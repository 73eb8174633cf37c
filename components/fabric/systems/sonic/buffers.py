"""Headroom by the length of a cable, and the PFC watchdog, in the tables of SONiC: pure.

`CABLE_LENGTH|AZURE` has a field for each port. Unless the switch computes buffers, buffermgrd looks
length and speed up in the platform's `pg_profile_lookup.ini`, makes a profile that has both in its
name, and gives it to the port's groups. A length without a line leaves everything as it was, so
what counts here is what the groups have.

`PFC_WD|Ethernet0` starts a watchdog; `pfcwd_sw_enable` of `PORT_QOS_MAP|Ethernet0` says which
queues it watches. A row that changes under a watchdog that runs is half taken (sonic-swss,
pfcwdorch.cpp), so it is ended first, as `pfcwd start` does. `PFC_WD|GLOBAL` belongs to every port
and is only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.fabric.parts import is_default
from components.fabric.state import PortState
from components.fabric.systems.sonic.rows import (
    LIST_FIELD,
    Cell,
    Cells,
    Fields,
    numbers_of,
    port_row,
    qos_row,
    span_of,
    spread,
    watchdog_row,
)

TEMPLATE_ROW: Final = "CABLE_LENGTH|AZURE"
"""The row that the platform's template writes (buffers_config.j2)."""
FORGOTTEN: Final = "0m"
"""A length of which buffermgrd makes nothing; it remembers one whose field just vanishes."""
_LENGTH: Final = re.compile(r"(\d+)m")
"""sonic-cable-length.yang."""
_MADE: Final = re.compile(r"pg_lossless_(?P<speed>\d+)_(?P<length>\d+)m_profile")
_GROUPS: Final = "BUFFER_PG|"


def cable_cells(name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells that say the length of a port; the template's if none does."""
    found = tuple(cell for cell in cells if cell[0].startswith("CABLE_LENGTH|"))
    return found or ((TEMPLATE_ROW, name),)


def length_in_force(cells: Mapping[Cell, str], paused: Iterable[int]) -> int:
    """Metres that the headroom of the paused groups is for; 0: nothing says, or two things do.

    A group has another length than the table if the platform has no headroom for that, and if the
    switch has not looked: then its next look changes it.
    """
    said = {value for cell, value in cells.items() if cell[0].startswith("CABLE_LENGTH|")}
    found = _LENGTH.fullmatch(said.pop()) if len(said) == 1 else None
    length = int(found[1]) if found else 0
    made = {int(found["length"]) for _, found in _made(cells, {*paused})}
    return length if made <= {length} else 0


def _made(cells: Mapping[Cell, str], paused: set[int]) -> Iterator[tuple[Cell, re.Match[str]]]:
    """The groups, of those that are paused, whose profile buffermgrd made."""
    for cell, value in sorted(cells.items()):
        made = _MADE.fullmatch(value)
        if cell[0].startswith(_GROUPS) and made and paused & {*spread(span_of(cell[0]))}:
            yield cell, made


def is_run(span: str, listed: Iterable[int]) -> bool:
    """Whether buffermgrd makes this very row of a list: it has one row for neighbours, `3-4`."""
    numbers = spread(span)
    around = range(numbers.start - 1, numbers.stop + 1)
    return bool(numbers) and {*around} & {*listed} == {*numbers}


def left_behind(
    cells: Mapping[Cell, str], paused: Iterable[int], length_m: int, profiles: Iterable[str]
) -> Cells:
    """Groups that buffermgrd does not touch and that cover a paused one, with their new profile.

    A row of an earlier list, `3-4` beside `3`, would bring its headroom back at the next boot.

    Args:
        cells: Every cell of the port.
        paused: Priorities that are, or shall be, paused.
        length_m: The wanted length.
        profiles: Rows of profiles that are there: another one cannot be named yet.
    """
    found: Cells = {}
    for cell, made in _made(cells, {*paused}):
        profile = f"pg_lossless_{made['speed']}_{length_m}m_profile"
        stays = is_run(span_of(cell[0]), paused) or int(made["length"]) == length_m
        if not stays and f"BUFFER_PROFILE|{profile}" in {*profiles}:
            found[cell] = profile
    return found


def needs_touch(cells: Mapping[Cell, str], paused: Iterable[int], length_m: int) -> bool:
    """Whether a group that buffermgrd looks after has another length than it shall have."""
    listed = {*paused}
    return any(
        int(made["length"]) != length_m and is_run(span_of(cell[0]), listed)
        for cell, made in _made(cells, listed)
    )


def touch_cells(name: str, was: PortState, port: PortState) -> Cells | None:
    """A field of a port, with the value that it has: by its event buffermgrd looks at the length.

    It does so by the length alone in images from March 2026 on only (sonic-swss 67198295).

    Returns:
        Nothing if the port's MTU or state is written anyway; None if no field is there.
    """
    if port.mtu_bytes not in {None, was.mtu_bytes} or port.admin_up not in {None, was.admin_up}:
        return {}
    if not is_default(was.native, "mtu_bytes") and was.mtu_bytes is not None:
        return {(port_row(name), "mtu"): str(was.mtu_bytes)}
    if not is_default(was.native, "admin_up") and was.admin_up is not None:
        return {(port_row(name), "admin_status"): "up" if was.admin_up else "down"}
    return None


ACTION: Final = "drop"
"""What `pfc_watchdog` promises; also the default of the switch."""
TIME_MS: Final = 200
"""Until it drops, and until it forwards again: the defaults of `pfcwd start_default`."""
POLL_MS: Final = 100
"""How often it looks by default (sonic-swss, orchdaemon.cpp: PFC_WD_POLL_MSECS)."""
_RANGES_MS: Final = {"detection_time": range(100, 5001), "restoration_time": range(100, 60_001)}
"""sonic-pfcwd.yang. Without the second one a queue is never restored."""
UNPOLLED: Final = "watchdog not polled"
"""Of a switch, in `whole_words`: no watchdog of it sees anything."""
_POLLED: Final = re.compile(r"watchdog polled each (\d+) ms")


def describe_polling(switch: Fields, counters: Fields) -> Iterator[str]:
    """What holds for all ports, as words of a whole switch.

    Args:
        switch: `PFC_WD|GLOBAL`.
        counters: `FLEX_COUNTER_TABLE|PFCWD`, which is there and enabled from the first boot on.
    """
    if counters.get("FLEX_COUNTER_STATUS") != "enable":
        yield UNPOLLED
    if switch.get("POLL_INTERVAL", "").isdigit():
        yield f"watchdog polled each {switch['POLL_INTERVAL']} ms"


def poll_ms(implied: Iterable[str]) -> int:
    """How often the watchdogs look."""
    found = (_POLLED.fullmatch(text) for text in implied)
    return next((int(match[1]) for match in found if match), POLL_MS)


def is_watching(row: Fields, qos: Fields, implied: Iterable[str]) -> bool:
    """Whether a port drops what a storm holds up on each of its paused priorities."""
    words = tuple(implied)
    return (
        UNPOLLED not in words
        and row.get("action", ACTION) == ACTION
        and all(_is_time(row.get(field, ""), field, words) for field in _RANGES_MS)
        and numbers_of(qos.get("pfc_enable", "")) <= numbers_of(qos.get(LIST_FIELD, ""))
    )


def watchdog_ms(row: Fields) -> tuple[int, int] | None:
    """The two times of a port's row; None: it does not say both."""
    detect, restore = (row.get(field, "") for field in _RANGES_MS)
    return (int(detect), int(restore)) if detect.isdigit() and restore.isdigit() else None


def _is_time(text: str, field: str, implied: Iterable[str]) -> bool:
    """In its range, and no shorter than the switch looks (sonic-pfcwd.yang)."""
    return text.isdigit() and int(text) in _RANGES_MS[field] and int(text) >= poll_ms(implied)


def lists_all(name: str, now: Mapping[Cell, str], paused: Iterable[int]) -> bool:
    """Whether the list of the watchdog has every priority that shall be paused."""
    return {*paused} <= numbers_of(now.get((qos_row(name), LIST_FIELD), ""))


def watchdog_cells(name: str, cells: Mapping[Cell, str]) -> Cells:
    """The cells of a port's row."""
    return {cell: value for cell, value in cells.items() if cell[0] == watchdog_row(name)}


def wanted_watchdog(
    name: str,
    now: Mapping[Cell, str],
    paused: Iterable[int],
    implied: Iterable[str] = (),
    times_ms: tuple[int, int] | None = None,
) -> Cells:
    """List and row of a port that shall be watched.

    Times that are already set are kept, unless the file says others.
    """
    words, row = tuple(implied), watchdog_row(name)
    listed = (qos_row(name), LIST_FIELD)
    cells: Cells = dict(watchdog_cells(name, now))
    cells[row, "action"] = ACTION
    said = dict(zip(_RANGES_MS, times_ms or (), strict=False))
    for field in _RANGES_MS:
        if field in said:
            cells[row, field] = str(said[field])
        elif not _is_time(cells.get((row, field), ""), field, words):
            cells[row, field] = str(max(TIME_MS, poll_ms(words)))
    ours = ",".join(str(priority) for priority in sorted(paused))
    return {**cells, listed: now[listed] if lists_all(name, now, paused) else ours}
