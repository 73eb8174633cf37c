"""The PFC watchdog of a SONiC port: one row, and the list of priorities that it watches: pure.

`PFC_WD|Ethernet0` starts it; `pfcwd_sw_enable` of `PORT_QOS_MAP|Ethernet0` says which queues. A
row that changes under a watchdog that runs is half taken (sonic-swss, pfcwdorch.cpp), so it is
ended first, as `pfcwd start` does. `PFC_WD|GLOBAL` belongs to every port and is only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from components.fabric.systems.base import PauseCounters, PortCounters, SoftReader, Unreadable
from components.fabric.systems.sonic.rows import Cell, Cells, Fields, numbers_of, qos_row

LIST_FIELD: Final = "pfcwd_sw_enable"
ACTION: Final = "drop"
"""What `pfc_watchdog` promises; also the default of the switch."""
TIME_MS: Final = 200
"""Until it drops, and until it forwards again: the defaults of `pfcwd start_default`."""
POLL_MS: Final = 100
"""How often it looks where nothing is set (sonic-swss, orchdaemon.cpp: PFC_WD_POLL_MSECS)."""
_RANGES_MS: Final = {"detection_time": range(100, 5001), "restoration_time": range(100, 60_001)}
"""sonic-pfcwd.yang. Without the second one a queue is never restored."""
UNPOLLED: Final = "watchdog not polled"
"""Of a switch, in `whole_words`: no watchdog of it sees anything."""
_POLLED: Final = re.compile(r"watchdog polled each (\d+) ms")


def watchdog_row(port: str) -> str:
    """The row whose presence starts the watchdog."""
    return f"PFC_WD|{port}"


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


PAUSES: Final = "show pfc counters"
STORMS: Final = "show pfcwd stats"
_PRIORITIES: Final = range(8)
_PAUSE_HEAD: Final = re.compile(r"^ *Port (Rx|Tx)((?: +PFC\d)+) *$", re.MULTILINE)
_STORM_HEAD: Final = "STORM DETECTED/RESTORED"


def with_pauses(port: str, counted: PortCounters, pauses: str, storms: str) -> PortCounters:
    """The counters of a port with what two more answers say of it, as far as they can be read.

    Args:
        port: For example `Ethernet0`.
        counted: What the others said.
        pauses: The answer to `PAUSES`.
        storms: The answer to `STORMS`.
    """
    soft = SoftReader([*counted.unread])
    return replace(
        counted,
        pauses=soft.read("pauses", lambda: parse_pauses(pauses, port)) or {},
        storms=soft.read("storms", lambda: parse_storms(storms, port)) or {},
        unread=soft.found,
    )


def parse_pauses(text: str, port: str) -> dict[int, PauseCounters]:
    """Two tables, received and sent; a priority with `N/A`, before the first poll, is left out.

    Raises:
        Unreadable: The port is not in both tables.
    """
    ways: dict[str, dict[int, int]] = {}
    for head in _PAUSE_HEAD.finditer(text):
        rows = text[head.end() :].partition("\n\n")[0]
        row = re.search(rf"^ *{port} +(\S.*)$", rows, re.MULTILINE)
        names = [int(name.removeprefix("PFC")) for name in head[2].split()]
        cells = row[1].replace(",", "").split() if row else []
        if len(cells) == len(names):
            columns = zip(names, cells, strict=True)
            ways[head[1]] = {name: int(cell) for name, cell in columns if cell.isdigit()}
    if ways.keys() != {"Rx", "Tx"}:
        raise Unreadable(PAUSES, text, f"there is no row of {port} in both tables")
    received, sent = ways["Rx"], ways["Tx"]
    return {
        number: PauseCounters(received[number], sent[number])
        for number in received
        if number in sent
    }


def parse_storms(text: str, port: str) -> dict[int, int]:
    """How often each queue was found stuck; one that never was has no row.

    Raises:
        Unreadable: It is no such table.
    """
    if _STORM_HEAD not in text:
        raise Unreadable(STORMS, text, "it is no table of the watchdog")
    rows = re.findall(rf"^ *{port}:(\d+) +\S+ +([\d,]+)/[\d,]+ ", text, re.MULTILINE)
    found = {int(queue): int(count.replace(",", "")) for queue, count in rows}
    return {number: found.get(number, 0) for number in _PRIORITIES}
