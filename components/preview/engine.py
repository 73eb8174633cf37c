"""What `pulumi preview --json` adds: what was seen on devices and in the cluster.

What the file changes is not read from it, but from the plan: the engine shows texts, the plan says
what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, cast

from components.fabric.edit import MARKS
from components.preview.items import compare_items, without_secrets
from components.preview.state_items import items_of_state

_MARKS: Final = re.compile(r"<\{%[^%]*%\}>")
"""The engine's colours in a message."""
_DRIFT: Final = re.compile(r"(\S+): drift: (.*)")
_OF_CLUSTER: Final = re.compile(r"cluster: drift: ")
_LOST: Final = "cluster: lost: "
"""Before what is said of servers and balancers that are lost."""
_SETTING: Final = re.compile(r"(\S+) of (.*) is (.*), want (.*)")
_ALARMS: Final = ("WILL ", "MAY ", "disruption: ", "unreachable: ", "host key: ", _LOST)
_REPLACES: Final = frozenset({"replace", "create-replacement", "delete-replaced"})
_QUIET: Final = frozenset({"same", "refresh", "read"})
_Step = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class News:
    """What the engine's preview says beyond the file."""

    alarms: tuple[str, ...]
    repairs: tuple[str, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    """Why it refused; empty where it went through."""


def read_engine(text: str, edited: AbstractSet[str]) -> News:
    """Read the engine's answer.

    Args:
        text: What `pulumi preview --json` printed.
        edited: Resource names that the file changes: their difference is no drift.

    Raises:
        ValueError: It is no JSON: the engine did not come so far.
    """
    document = cast("Mapping[str, list[_Step]]", json.loads(text))
    steps = document.get("steps") or []
    said = [
        (_MARKS.sub("", str(each.get("message", ""))).strip(), str(each.get("severity")))
        for each in document.get("diagnostics") or []
    ]
    messages = [message for message, severity in said if severity != "error"]
    # Where the program looked at the cluster, it names the objects and more.
    objects = () if any(map(_OF_CLUSTER.match, messages)) else _objects(steps, edited)
    return News(
        alarms=(*_replaced(steps), *_alarms(messages)),
        repairs=(*_drifts(messages), *objects),
        notes=tuple(
            each
            for each in messages
            if each.startswith(("not observed", "wave ")) or _is_note(each)
        ),
        errors=tuple(message for message, severity in said if severity == "error"),
    )


def _alarms(messages: list[str]) -> Iterator[str]:
    for message in messages:
        if message.startswith(_ALARMS):
            yield message
        device = message.partition(":")[0]
        for line in map(str.strip, message.splitlines()[1:]):
            if line.startswith(MARKS):
                yield f"{device}: {line}"


def _drifts(messages: list[str]) -> Iterator[str]:
    for message in messages:
        found = _DRIFT.fullmatch(message)
        if found:
            setting = _SETTING.fullmatch(found[2])
            words = "{1} {0}: {2} -> {3}".format(*setting.groups()) if setting else found[2]
            yield f"{found[1]}: {words}"


def _is_note(message: str) -> bool:
    kinds = (
        ": not observed: ",
        ": not touched and not looked at: ",
        ": not repaired: ",
        ": cabling: ",
        ": placement: ",
        ": upgrade: ",
        ": firmware of its cards",
    )
    return any(kind in message for kind in kinds)


def _replaced(steps: list[_Step]) -> Iterator[str]:
    names = dict.fromkeys(_name(step) for step in steps if step.get("op") in _REPLACES)
    yield from (f"REPLACES {name}: it is removed and made again" for name in names)


def _objects(steps: list[_Step], edited: AbstractSet[str]) -> Iterator[str]:
    """Objects of the cluster that drifted or are gone: the file says nothing new of them.

    A refresh puts what it read into the old state, so that old and new are what is there and what
    is wanted.
    """
    for step in steps:
        urn, name = str(step["urn"]), _name(step)
        if step.get("op") in _QUIET or "$kubernetes:" not in urn or name in edited:
            continue
        states = [cast("_Step", step.get(key) or {}) for key in ("oldState", "newState")]
        before, after = (
            items_of_state({urn: cast("_Step", without_secrets(state.get("inputs") or {}))})
            if state
            else {}
            for state in states
        )
        for change in compare_items(before, after):
            if change.verb == "add":
                yield f"{change.subject}: it is gone, and made again"
                continue
            yield from (
                f"{change.subject}: {each.setting}: {each.old} -> {each.new}"
                for each in change.settings
            )


def _name(step: _Step) -> str:
    return str(step["urn"]).rsplit("::", 1)[-1]
