"""What SONiC tells beside its configuration: neighbours, links, counters (sources: WHY.md).

All of it is optional for a change; acceptance and drift use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from components.fabric.parts import Sessions
from components.fabric.state import Neighbour
from components.fabric.systems.base import (
    PauseCounters,
    PortCounters,
    PriorityCounters,
    SoftReader,
    Unreadable,
)
from components.fabric.systems.frr import (
    BFD,
    ROUTES,
    first_document,
    parse_summary,
    with_bfd,
    with_routes,
)
from components.fabric.systems.sonic.rows import Fields, Rows, parse_branch

POLL: Final = "sleep 11"
"""Queues and groups are polled every 10 s (sonic-utilities, counterpoll/main.py): until then a
reading does not hold what a probe has just sent."""
QUEUES: Final = "show queue counters --json"
DROPS: Final = "show priority-group drop counters"
PAUSES: Final = "show pfc counters"
STORMS: Final = "show pfcwd stats"
MARKS: Final = "show queue wredcounters --json"
"""From 202505 on (sonic-utilities 2807)."""
NEIGHBOURS: Final = "show lldp table"
STATUS: Final = "show interfaces status"
COMMANDS: Final = (POLL, QUEUES, DROPS, PAUSES, STORMS, MARKS)
SUMMARY: Final = 'sudo vtysh -c "show bgp ipv4 unicast summary json"'
WITH_BFD: Final = f'{SUMMARY} -c "{BFD}"; true'
"""If bfdd does not run, vtysh says so and fails."""
NEXT_HOPS: Final = f'sudo vtysh -c "{ROUTES}"'

_UNKNOWN: Final = 'No such command "wredcounters"'
"""How an older release refuses it (click)."""
_PRIORITIES: Final = range(8)
_QUEUES: Final = tuple(f"UC{number}" for number in _PRIORITIES)
_TABLE: Final[TypeAdapter[dict[str, dict[str, JsonValue]]]] = TypeAdapter(
    dict[str, dict[str, JsonValue]]
)
_PORT: Final = re.compile(r"Ethernet\d+")


def parse_counters(answers: Mapping[str, str], ports: Sequence[str]) -> dict[str, PortCounters]:
    """The counters of some ports; pauses, storms and marks as far as they can be read.

    SONiC counts no received bytes per priority: they are None.

    Raises:
        Unreadable: The queues or the drops have another form.
    """
    return {port: _with_others(port, _sent(answers, port), answers) for port in ports}


def _with_others(port: str, counted: PortCounters, answers: Mapping[str, str]) -> PortCounters:
    counted = with_pauses(port, counted, answers[PAUSES], answers[STORMS])
    return with_marks(port, counted, answers[MARKS])


def _json_table(command: str, text: str) -> dict[str, dict[str, JsonValue]]:
    try:
        return _TABLE.validate_json(text[text.find("{") :].strip())
    except ValidationError as error:
        raise Unreadable(command, text, "it is no table of queues") from error


def _sent(answers: Mapping[str, str], port: str) -> PortCounters:
    rows = _json_table(QUEUES, answers[QUEUES]).get(port, {})
    sent = {
        int(name[2:]): PriorityCounters(
            None, _count(fields, "totalbytes"), _count(fields, "droppacket")
        )
        for name, fields in sorted(rows.items())
        if name in _QUEUES
    }
    if not sent:
        raise Unreadable(QUEUES, answers[QUEUES], f"there is no unicast queue of {port} in it")
    return PortCounters(sent, None, _drops(answers[DROPS], port))


def _drops(text: str, port: str) -> int:
    found = re.search(rf"^ *{port} +(\S.*)$", text, re.MULTILINE)
    if found is None:
        raise Unreadable(DROPS, text, f"there is no row of {port} in it")
    lost = [part.replace(",", "") for part in found[1].split()]
    return sum(int(part) for part in lost if part.isdigit())


def _count(fields: JsonValue, name: str) -> int:
    """A number in text with commas, or `N/A` before the first poll."""
    text = str(fields.get(name, "")) if isinstance(fields, dict) else ""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else 0


def with_marks(port: str, counted: PortCounters, text: str) -> PortCounters:
    """The counters of a port with the answer to `MARKS`, as far as it can be read."""
    soft = SoftReader([*counted.unread])
    marked = soft.read("marked", lambda: parse_marks(text, port))
    return replace(counted, ecn_marked=marked, unread=soft.found)


def parse_marks(text: str, port: str) -> int | None:
    """Packets marked in all unicast queues of a port; None: nothing counts them.

    A queue has `N/A` if its chip counts none, and while polling is off, as it is at first.

    Raises:
        Unreadable: It is no such table, or the port is not in it.
    """
    if _UNKNOWN in text:
        return None
    table = _json_table(MARKS, text)
    queues = [table.get(port, {}).get(name) for name in _QUEUES]
    cells = [each.get("ecnmarkedpacket") for each in queues if isinstance(each, dict)]
    texts = [str(cell).replace(",", "") for cell in cells]
    if not texts or not all(each.isdigit() or each == "N/A" for each in texts):
        raise Unreadable(MARKS, text, f"there is no unicast queue of {port} in it")
    counts = [int(each) for each in texts if each.isdigit()]
    return sum(counts) if counts else None


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


_RULE: Final = re.compile(r"^-+(?: +-+)+ *$", re.MULTILINE)
"""The line below the head of a table, which tells where its columns are: cells hold blanks."""


def _cells(
    command: str, text: str, what: str, is_head: Callable[[list[str]], bool]
) -> list[list[str]]:
    """The head of a table and its rows, cut at its columns.

    Raises:
        Unreadable: There is no such head above a rule: it is no table of what it should be.
    """
    rule = _RULE.search(text)
    spans = [found.span() for found in re.finditer(r"-+", rule[0])] if rule else []
    ends = [*((start, end) for start, end in spans[:-1]), (spans[-1][0], None)] if spans else []
    head = text[: rule.start()].rstrip("\n").rpartition("\n")[2] if rule else ""
    lines = [head, *text[rule.end() :].splitlines()] if rule else []
    rows = [[line[start:end].strip() for start, end in ends] for line in lines]
    if not rows or not is_head(rows[0]):
        raise Unreadable(command, text, f"it is no table of {what}")
    return rows


def parse_neighbours(command: str, text: str) -> dict[str, Neighbour]:
    """`show lldp table`: port, system, and the port's identifier and description.

    A SONiC switch tells its alias as the identifier, and its name as the description.

    Raises:
        Unreadable: It is no table of five columns.
    """
    columns = len(("port", "system", "identifier", "capability", "description"))
    rows = _cells(command, text, "neighbours", lambda head: len(head) == columns)
    return {
        row[0]: Neighbour(system=row[1], port=row[2], description=row[4])
        for row in rows
        if _PORT.fullmatch(row[0])
    }


def parse_links(command: str, text: str) -> dict[str, bool]:
    """`show interfaces status`: port to whether it has a link (sonic-utilities, `intfutil`).

    Raises:
        Unreadable: It is no table of ports with a column Oper.
    """
    what = "ports with a column Oper"
    head, *rows = _cells(command, text, what, lambda head: {"Interface", "Oper"} <= {*head})
    name, oper = head.index("Interface"), head.index("Oper")
    return {row[name]: row[oper] == "up" for row in rows if _PORT.fullmatch(row[name])}


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """FRR's summary, what BFD says behind it if it was asked, and the routes.

    Raises:
        Unreadable: It is no summary of FRR's.
    """
    (command, text), (_, routes) = answers.items()
    document, rest = first_document(command, text)
    sessions = parse_summary(command, text, document)
    found = with_bfd(sessions, rest) if command == WITH_BFD else Sessions(neighbors=sessions)
    return with_routes(found, routes)


def parse_offers(command: str, text: str) -> Rows:
    """The speeds and the FEC that each port has: STATE_DB, as `sonic-db-dump` prints it.

    Raises:
        Unreadable: It is no such dump.
    """
    try:
        found = _DUMP.validate_json(text[text.find("{") :])
    except ValidationError as error:
        raise Unreadable(command, text, "it is no dump of PORT_TABLE") from error
    return {
        key.partition("|")[2]: {n: v for n, v in each.value.items() if n in _OFFERED}
        for key, each in found.items()
    }


class _Dumped(BaseModel):
    value: Fields = {}


_DUMP: Final = TypeAdapter(dict[str, _Dumped])
_OFFERED: Final = ("supported_speeds", "supported_fecs")


def parse_release(text: str) -> int:
    """The branch that `sonic_version.yml` says; 0: none."""
    found = re.search(r"^build_version: *'?([^'\s]+)", text, re.MULTILINE)
    return parse_branch(found[1]) if found else 0
