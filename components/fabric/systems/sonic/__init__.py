"""SONiC's state besides its configuration: neighbours, links, counters (sources: WHY.md).

A change can do without it; acceptance and drift use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel, JsonValue, TypeAdapter

from components.catalogue.switches.switch_model import UNRELEASED
from components.fabric.state import Neighbour
from components.fabric.systems import base, linux
from components.fabric.systems.sonic.rows import PRIORITIES, Fields, Rows

POLL: Final = "sleep 11"
"""Queues and groups are polled every 10 s (sonic-utilities, counterpoll/main.py): until then a
reading misses the packets that a probe has just sent."""
QUEUES: Final = "show queue counters --json"
DROPS: Final = "show priority-group drop counters"
PAUSES: Final = "show pfc counters"
STORMS: Final = "show pfcwd stats"
MARKS: Final = "show queue wredcounters --json"  # from 202505 on (sonic-utilities 2807)
NEIGHBOURS: Final = "show lldp table"
STATUS: Final = "show interfaces status"
COMMANDS: Final = (POLL, QUEUES, DROPS, PAUSES, STORMS, MARKS)
SUMMARY: Final = 'sudo vtysh -c "show bgp ipv4 unicast summary json"'
WITH_BFD: Final = f'{SUMMARY} -c "{linux.BFD}"; true'  # without bfdd, vtysh says so and fails
NEXT_HOPS: Final = f'sudo vtysh -c "{linux.ROUTES}"'

_UNKNOWN: Final = 'No such command "wredcounters"'  # how an older release refuses it (click)
_PORT: Final = re.compile(r"Ethernet\d+")
_RULE: Final = re.compile(r"^-+(?: +-+)+ *$", re.MULTILINE)
"""The line below the head of a table, which shows the columns: cells may contain blanks."""
Row = dict[str, str]
"""Column to cell."""


def _tables(text: str) -> Iterator[list[Row]]:
    """The rows of each table of an answer, cut at its columns, with its head as the first."""
    for rule in _RULE.finditer(text):
        starts = [found.start() for found in re.finditer(r"-+", rule[0])]
        spans = [slice(*span) for span in zip(starts, (*starts[1:], None), strict=True)]
        head = text[: rule.start()].rstrip("\n").rpartition("\n")[2]
        body = text[rule.end() :].partition("\n\n")[0].splitlines()
        yield [{head[at].strip(): line[at].strip() for at in spans} for line in (head, *body)]


def _rows(answer: base.Answer, what: str, *columns: str) -> list[Row]:
    """The rows of the table with these columns."""
    for head, *rows in _tables(answer.text):
        if {*columns} <= {*head}:
            return rows
    raise answer.unreadable(f"it is not a table of {what}")


def _row(command: str, text: str, column: str, port: str) -> dict[int, int]:
    """The numbers of a port's row, by the number in the name of their column; `N/A` is left out."""
    for row in (row for rows in _tables(text) for row in rows if row.get(column) == port):
        cells = ((re.sub(r"\D", "", name), cell.replace(",", "")) for name, cell in row.items())
        return {int(name): int(cell) for name, cell in cells if name and cell.isdigit()}
    raise base.Unreadable(command, text, f"it lacks the row of {port}")


_QUEUES: Final = TypeAdapter(dict[str, dict[str, JsonValue]])


def _queues(command: str, text: str, port: str, field: str) -> dict[int, str]:
    """A field of each unicast queue of a port, `UC3` and the like, without commas."""
    with base.Answer(command, text).reading("it is not a table of queues"):
        rows = _QUEUES.validate_json(text[text.find("{") :].strip()).get(port, {})
    queues = ((n, rows.get(f"UC{n}")) for n in PRIORITIES)
    found = {
        n: str(fields.get(field, "")).replace(",", "")
        for n, fields in queues
        if isinstance(fields, dict)
    }
    if not found:
        raise base.Unreadable(command, text, f"there is no unicast queue of {port} in it")
    return found


def port_counters(port: str, answers: Mapping[str, str]) -> base.PortCounters:
    """The counters of one port; pauses, storms and marks as far as they can be read.

    SONiC counts no received bytes per priority: they are None. Before the first poll a counter is
    `N/A`, which is read as 0.
    """
    sent, lost = (_queues(QUEUES, answers[QUEUES], port, f) for f in ("totalbytes", "droppacket"))
    drops, soft = _row(DROPS, answers[DROPS], "Port", port), base.SoftReader()
    pauses = soft.read("pauses", lambda: parse_pauses(answers[PAUSES], port))
    storms = soft.read("storms", lambda: parse_storms(answers[STORMS], port))
    marked = soft.read("marked", lambda: parse_marks(answers[MARKS], port))
    return base.PortCounters(
        {n: base.PriorityCounters(None, _count(sent[n]), _count(lost[n])) for n in sent},
        marked,
        sum(drops.values()),
        pauses=pauses or {},
        storms=storms or {},
        unread=soft.found,
    )


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def parse_marks(text: str, port: str) -> int | None:
    """Packets marked in all unicast queues of a port; None: `N/A`, so nothing counts them."""
    if _UNKNOWN in text:
        return None
    cells = _queues(MARKS, text, port, "ecnmarkedpacket").values()
    if not all(each.isdigit() or each == "N/A" for each in cells):
        raise base.Unreadable(MARKS, text, f"there is no unicast queue of {port} in it")
    counts = [int(each) for each in cells if each.isdigit()]
    return sum(counts) if counts else None


def parse_pauses(text: str, port: str) -> dict[int, base.PauseCounters]:
    """Two tables, received and sent; a priority with `N/A`, before the first poll, is left out."""
    received, sent = (_row(PAUSES, text, f"Port {way}", port) for way in ("Rx", "Tx"))
    return {n: base.PauseCounters(received[n], sent[n]) for n in received if n in sent}


def parse_storms(text: str, port: str) -> dict[int, int]:
    """How often each queue was found stuck; one that never was is not in the table."""
    column = "STORM DETECTED/RESTORED"
    rows = _rows(base.Answer(STORMS, text), "the watchdog", "QUEUE", column)
    found = {row["QUEUE"]: row[column].partition("/")[0].replace(",", "") for row in rows}
    return {n: _count(found.get(f"{port}:{n}", "")) for n in PRIORITIES}


def parse_neighbours(answer: base.Answer) -> dict[str, Neighbour]:
    """`show lldp table`: a SONiC switch tells its alias as identifier, its name as description."""
    columns = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    return {
        row["LocalPort"]: Neighbour(
            system=row["RemoteDevice"], port=row["RemotePortID"], description=row["RemotePortDescr"]
        )
        for row in _rows(answer, "neighbours", *columns)
        if _PORT.fullmatch(row["LocalPort"])
    }


def parse_links(answer: base.Answer) -> dict[str, bool]:
    """`show interfaces status`: port to whether it has a link (sonic-utilities, `intfutil`)."""
    rows = _rows(answer, "ports with a column Oper", "Interface", "Oper")
    up = {row["Interface"]: row["Oper"] == "up" for row in rows}
    return {port: is_up for port, is_up in up.items() if _PORT.fullmatch(port)}


class _Dumped(BaseModel):
    value: Fields = {}


_DUMP: Final = TypeAdapter(dict[str, _Dumped])


def parse_offers(command: str, text: str) -> Rows:
    """The speeds and the FEC that each port has: STATE_DB, as `sonic-db-dump` prints it."""
    with base.Answer(command, text).reading("it is not a dump of PORT_TABLE"):
        found = _DUMP.validate_json(text[text.find("{") :])
    offered = ("supported_speeds", "supported_fecs")
    return {
        key.partition("|")[2]: {n: each.value[n] for n in offered if n in each.value}
        for key, each in found.items()
    }


def parse_release(text: str) -> int:
    """The branch that `sonic_version.yml` says; 0: none."""
    found = re.search(r"^build_version: *'?([^'\s]+)", text, re.MULTILINE)
    return parse_branch(found[1]) if found else 0


def parse_branch(text: str) -> int:
    """Read `202405`, `202311.1`, `SONiC.202305.3-abc`; `master` is newer than all (a guess)."""
    for part in re.split(r"[-_.]", text):
        if re.fullmatch(r"20\d{4}(\d\d)?", part):
            return int(part[:6])
    return UNRELEASED if text.lower().startswith(("master", "sonic.master")) else 0
