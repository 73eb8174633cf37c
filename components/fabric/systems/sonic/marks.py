"""Packets that a SONiC port marked (ECN), where its release and its chip count them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.systems.base import PortCounters, SoftReader, Unreadable

MARKS: Final = "show queue wredcounters --json"
"""From 202505 on (sonic-utilities 2807)."""
_UNKNOWN: Final = 'No such command "wredcounters"'
"""How an older release refuses it (click)."""
_QUEUES: Final = tuple(f"UC{number}" for number in range(8))
_TABLE: Final[TypeAdapter[dict[str, dict[str, JsonValue]]]] = TypeAdapter(
    dict[str, dict[str, JsonValue]]
)


def with_marks(port: str, counted: PortCounters, text: str) -> PortCounters:
    """The counters of a port with the answer to `MARKS`, as far as it can be read."""
    soft = SoftReader([*counted.unread])
    marked = soft.read("marked", lambda: parse_marks(text, port))
    return replace(counted, ecn_marked=marked, unread=soft.found)


def parse_marks(text: str, port: str) -> int | None:
    """Packets marked in all unicast queues of a port; None: nothing counts them.

    A queue has `N/A` where its chip counts none, or while polling is off, as it is at first.

    Raises:
        Unreadable: It is no such table, or the port is not in it.
    """
    if _UNKNOWN in text:
        return None
    try:
        table = _TABLE.validate_json(text[text.find("{") :].strip())
    except ValidationError as error:
        raise Unreadable(MARKS, text, "it is no table of queues") from error
    queues = [table.get(port, {}).get(name) for name in _QUEUES]
    cells = [each.get("ecnmarkedpacket") for each in queues if isinstance(each, dict)]
    texts = [str(cell).replace(",", "") for cell in cells]
    if not texts or not all(each.isdigit() or each == "N/A" for each in texts):
        raise Unreadable(MARKS, text, f"there is no unicast queue of {port} in it")
    counts = [int(each) for each in texts if each.isdigit()]
    return sum(counts) if counts else None
