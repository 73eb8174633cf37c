"""PFC frames and the storms that a SONiC port's watchdog found, read into plain values."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from components.fabric.systems.base import PauseCounters, PortCounters, SoftReader, Unreadable

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
