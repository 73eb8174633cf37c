"""The PFC watchdog: what orchagent makes of the rows of PFC_WD.

Modelled on sonic-swss 202405 (orchagent/pfcwdorch.cpp, qosorch.cpp). A row with a field or a value
that orchagent does not know is dropped without a word. A watchdog takes the list that is there when
it starts, and a queue keeps its action until the watchdog ends. Storms are not played.
"""

from __future__ import annotations

from typing import Final

from lab.switches.sonic.config import Fields, Stored, row

TABLE: Final = "PFC_WD"
_ACTIONS: Final = ("drop", "forward", "alert")
_TIMES: Final = {"detection_time": range(100, 5001), "restoration_time": range(100, 60_001)}


def is_valid(fields: Fields) -> bool:
    """Whether orchagent takes a row."""
    known = {"action", "pfc_stat_history", *_TIMES}
    times = all(
        fields[name].isdigit() and int(fields[name]) in span
        for name, span in _TIMES.items()
        if name in fields
    )
    return (
        {*fields} <= known
        and times
        and "detection_time" in fields
        and fields.get("action", "drop") in _ACTIONS
    )


def follow(stored: Stored, port: str) -> None:
    """Start the watchdog of a port, if its row and its list are there by now."""
    db = stored.running
    fields = row(db, TABLE, port)
    if not fields or port not in db["PORT"] or not is_valid(fields):
        return
    listed = row(db, "PORT_QOS_MAP", port).get("pfcwd_sw_enable", "")
    held = stored.watchdogs.setdefault(port, {})
    for queue in (int(part) for part in listed.split(",") if part):
        held.setdefault(queue, fields.get("action", "drop"))
    if not held:
        del stored.watchdogs[port]


def is_waiting(stored: Stored, port: str) -> bool:
    """A row that came before its list is tried again."""
    return port not in stored.watchdogs and bool(row(stored.running, TABLE, port))


def end(stored: Stored, port: str) -> None:
    """The row is gone."""
    stored.watchdogs.pop(port, None)
