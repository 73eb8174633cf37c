"""`pfcwd …`: the commands by which people start and stop the PFC watchdog.

Texts: sonic-utilities, branch 202405, pfcwd/main.py. Its counters (`show stats`) are not there, nor
are its ranges: a time out of its range is dropped by the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lab.switches.sonic.config import Db, row
from lab.switches.sonic.tools import CommandError
from lab.switches.sonic.watchdog import TABLE

if TYPE_CHECKING:
    from lab.switches.sonic.cli import Session
    from lab.switches.sonic.database import Database

_NO_HISTORY: Final = "disable"
_OPTIONS: Final = ("-a", "--action", "--restoration-time")


def run_pfcwd(session: Session, words: list[str], *, root: bool) -> str:
    """Run one `pfcwd` command.

    Raises:
        CommandError: It is refused, or unknown.
    """
    text = " ".join(_options_first(words))
    for pattern, handler in _COMMANDS:
        found = re.fullmatch(pattern, text)
        if found is None:
            continue
        if not root and "show" not in words:
            raise CommandError("Root privileges are required for this operation", 1)
        return handler(session.switch.database, *(group or "" for group in found.groups()))
    session.note(text)
    usage = 'Usage: pfcwd [OPTIONS] COMMAND [ARGS]...\nTry "pfcwd -h" for help.'
    raise CommandError(f'{usage}\n\nError: No such command "{" ".join(words[1:])}".', 2)


def _options_first(words: list[str]) -> list[str]:
    """Click takes options anywhere."""
    found = {word: words[n + 1 : n + 2] for n, word in enumerate(words) if word in _OPTIONS}
    options = [part for name in _OPTIONS if name in found for part in (name, *found[name])]
    rest = [word for n, word in enumerate(words) if not {word, *words[n - 1 : n]} & {*_OPTIONS}]
    return [*rest[:2], *options, *rest[2:]]


def _ports(db: Db, names: str) -> Sequence[str]:
    return [*db["PORT"]] if names.split() in (["all"], []) else names.split()


def _start(database: Database, action: str, back: str, names: str, time: str) -> str:
    db, said = database.db, ""
    wrong = [name for name in _ports(db, names) if name not in db["PORT"]]
    if wrong:
        text = "\n".join(("Failed to run command, invalid options:", *wrong))
        raise CommandError(text, 1)
    fields = {"detection_time": time, "restoration_time": back or str(2 * int(time))}
    if not back:
        said = "restoration time not defined; default to 2 times detection time: "
        said += f"{fields['restoration_time']} ms\n"
    fields |= {"action": action} if action else {}
    for name in _ports(db, names):
        if "pfc_enable" not in row(db, "PORT_QOS_MAP", name):
            said += f"SKIPPED: PFC is not enabled on port: {name}\n"
            continue
        kept = row(db, TABLE, name).get("pfc_stat_history", _NO_HISTORY)
        database.delete(TABLE, name)
        database.put(TABLE, name, fields | {"pfc_stat_history": kept})
    return said


def _stop(database: Database, names: str) -> str:
    for name in _ports(database.db, names):
        database.delete(TABLE, name)
    return ""


def _interval(database: Database, time: str) -> str:
    times = [
        int(fields[name])
        for port, fields in database.db.get(TABLE, {}).items()
        for name in ("restoration_time", "detection_time")
        if "Ethernet" in port and fields.get(name, "").isdigit()
    ]
    if times and min(times) < int(time):
        raise CommandError(
            f"unable to use polling interval = {time}ms, value is bigger than one of the "
            "configured detection time values, please choose a smaller polling_interval",
            1,
        )
    database.merge(TABLE, "GLOBAL", {"POLL_INTERVAL": time})
    return ""


def _poll(database: Database, status: str) -> str:
    database.merge("FLEX_COUNTER_TABLE", "PFCWD", {"FLEX_COUNTER_STATUS": status})
    return ""


def _show(database: Database) -> str:
    columns = {
        "action": "drop",
        "detection_time": "N/A",
        "restoration_time": "infinite",
        "pfc_stat_history": _NO_HISTORY,
    }
    head = ("PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME", "HISTORY")
    lines = [
        (port, *(fields.get(name, default) for name, default in columns.items()))
        for port, fields in database.db.get(TABLE, {}).items()
        if port != "GLOBAL"
    ]
    poll = row(database.db, TABLE, "GLOBAL").get("POLL_INTERVAL")
    said = f"Changed polling interval to {poll}ms\n" if poll and lines else ""
    widths = [max(len(line[n]) for line in (head, *lines)) for n in range(len(head))]
    rule = ["-" * width for width in widths]
    rows = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in (head, rule, *lines)
    ]
    return said + "\n".join(rows) + "\n"


_ACTION: Final = r"(?: (?:-a|--action) (drop|forward|alert))?"
_COMMANDS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (
        rf"pfcwd start{_ACTION}(?: --restoration-time (\d+))?((?: (?:all|Ethernet\d+))*) (\d+)",
        _start,
    ),
    (r"pfcwd stop((?: Ethernet\d+)*)", _stop),
    (r"pfcwd interval (\d+)", _interval),
    (r"pfcwd counter_poll (enable|disable)", _poll),
    (r"pfcwd show config", _show),
)
