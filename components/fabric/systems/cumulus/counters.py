"""The counters of a Cumulus port, read into plain values; docs/explanation/sources.md#cumulus."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from components.fabric.systems.base import (
    PauseCounters,
    PortCounters,
    PriorityCounters,
    SoftReader,
    Unreadable,
)
from components.fabric.systems.cumulus.read import FACTORS, SIZE, load
from components.fabric.systems.cumulus.roce import ROCE_PRIORITY
from components.fabric.systems.cumulus.tree import Tree, child

_STORM_HEAD: Final = re.compile(r"^ *traffic-class +status +deadlock-count *$", re.MULTILINE)
_STORM_ROW: Final = re.compile(r"^ *([0-7]) +(?:OK|DEADLOCK) +(\d+) *$", re.MULTILINE)
_STATE_ROW: Final = re.compile(r"^state +\S", re.MULTILINE)


def parse_counters(roce_command: str, roce: str, queue_command: str, queues: str) -> PortCounters:
    """`… qos roce counters -o json` and `… counters qos -o json`, as far as they can be read.

    Received bytes are counted as RoCE or not, so the first are those of the RoCE priority and the
    others are under 0; sent bytes are counted per class.
    """
    soft = SoftReader()

    def count(*path: str) -> int:
        tree = _tree(roce_command, roce)
        return _count(roce_command, roce, child(tree, *path[:-1]).get(path[-1]), path[-1])

    received = soft.read(
        "rx",
        lambda: {
            ROCE_PRIORITY: count("rx-stats", "rx-roce-stats", "roce-bytes"),
            0: count("rx-stats", "rx-non-roce-stats", "non-roce-bytes"),
        },
    )
    sent: dict[int, int] = soft.read("tx", lambda: _sent(queue_command, queues)) or {}
    arrived: dict[int, int] = received or {}
    lost = ("rx-roce-stats", "rx-non-roce-stats")
    rest = None if received is None else 0
    return PortCounters(
        {
            tc: PriorityCounters(arrived.get(tc, rest), sent.get(tc))
            for tc in sorted({*sent, *arrived})
        },
        soft.read("marked", lambda: count("tx-stats", "tx-ecn-stats", "ecn-marked-packets")),
        soft.read(
            "discards",
            lambda: sum(count("rx-stats", part, "no-buffer-discard") for part in lost),
        ),
        pauses=soft.read("pauses", lambda: _pauses(queue_command, queues)) or {},
        unread=soft.found,
    )


def _tree(command: str, text: str) -> Tree:
    value = load(command, text)
    return value if isinstance(value, dict) else {}


def _sent(command: str, text: str) -> dict[int, int]:
    rows = child(_tree(command, text), "egress-queue-stats")
    if not rows:
        raise Unreadable(command, text, "no egress queue in the answer")
    return {
        int(tc): _count(command, text, child(rows, tc).get("tx-bytes"), "tx-bytes")
        for tc in rows
        if tc.isdecimal()
    }


def _pauses(command: str, text: str) -> dict[int, PauseCounters]:
    rows = child(_tree(command, text), "pfc-stats")

    def count(row: str, name: str) -> int:
        return _count(command, text, child(rows, row).get(name), name)

    return {
        int(row): PauseCounters(count(row, "rx-pause-frames"), count(row, "tx-pause-frames"))
        for row in rows
        if row.isdecimal()
    }


def _count(command: str, text: str, value: JsonValue, name: str) -> int:
    """A number, or the size that the text form prints in its place."""
    size = SIZE.fullmatch(str(value))
    if size is not None:
        return int(float(size[1]) * FACTORS[size[2]])
    if not str(value).isdigit():
        raise Unreadable(command, text, f"no {name} in the answer")
    return int(str(value))


def with_storms(
    counted: PortCounters, command: str, text: str, refusal: str | None
) -> PortCounters:
    """The counters of a port with what its watchdog found, as far as it can be read.

    Args:
        counted: What the other answers said.
        command: `nv show interface … qos pfc-watchdog`, from 5.6 on.
        text: Its answer.
        refusal: Why it was refused, as by an older release, where nothing counts; None: it was not.
    """
    if refusal is not None:
        return counted
    soft = SoftReader([*counted.unread])
    storms = soft.read("storms", lambda: parse_storms(command, text)) or {}
    return replace(counted, storms=storms, unread=soft.found)


def parse_storms(command: str, text: str) -> dict[int, int]:
    """How often each class was found in a deadlock; nothing where the port has no table of them.

    The table of the vendor's page is below the state; whether it is there while the watchdog is off
    is not published, so both count as read.

    Raises:
        Unreadable: It is no such answer.
    """
    head = _STORM_HEAD.search(text)
    if head is None and _STATE_ROW.search(text):
        return {}
    rows = _STORM_ROW.findall(text[head.end() :]) if head else []
    if not rows:
        raise Unreadable(command, text, "it is no table of the watchdog")
    return {int(tc): int(count) for tc, count in rows}
