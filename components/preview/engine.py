"""Read drift from `pulumi preview --json`, and the recorded settings from a state.

The edits come from the plan, since the engine shows texts without their meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, cast

from components.fabric.edit import MARKS
from components.fabric.state import SwitchState
from components.preview.items import (
    Item,
    Kind,
    compare_items,
    object_subject,
    release_fields,
    settings_of_fields,
    settings_of_text,
    without_secrets,
)
from components.remote.lines import flatten, parse_lines
from components.remote.sending import Part, split_parts

_RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_SWITCH_STEP: Final = "-apply"
_ENSURE: Final = "cloud ensure"
_WORKS: Final = ("-member-removal", "-cluster-access", "-cluster-ca")
"""Ends of step names that contain a hyphen themselves."""
Inputs = Mapping[str, object]


def recorded_inputs(text: str) -> dict[str, Inputs]:
    """Return each resource's recorded inputs by URN, with secrets replaced by a word."""
    document = cast("Mapping[str, Mapping[str, object]]", json.loads(text))
    resources = cast("list[Inputs]", document.get("deployment", {}).get("resources") or [])
    return {
        str(each["urn"]): cast("Inputs", without_secrets(each.get("inputs") or {}))
        for each in resources
        if each.get("custom")
    }


def items_of_state(inputs: Mapping[str, Inputs]) -> dict[str, Item]:
    """Return the items of a recorded state by resource name."""
    return {name: item for urn, each in inputs.items() for name, item in _items(urn, each)}


def _items(urn: str, inputs: Inputs) -> Iterator[tuple[str, Item]]:
    _, _, kinds, name = urn.split("::", 3)
    parent, _, own = kinds.rpartition("$")
    if own == _RELEASE:
        yield name, Item("release", name, settings_of_fields(flatten(release_fields(inputs))))
    elif own.startswith("kubernetes:"):
        kind = own.rsplit(":", 1)[-1]
        subject = object_subject(inputs, kind)
        yield name, Item("object", subject, settings_of_fields(flatten(inputs)))
    elif own.startswith("command:"):
        stdin = inputs.get("stdin")
        text = stdin if isinstance(stdin, str) else ""
        if parent.startswith("railyard:cloud:"):
            if _ENSURE in str(inputs.get("create")):
                yield name, Item("cloud", name, settings_of_fields(flatten(parse_lines(text))))
        else:
            for part in split_parts(text) or (Part(name, stdin=text),):
                yield from _step(parent, part.step, part.stdin)


def _step(parent: str, name: str, stdin: str) -> Iterator[tuple[str, Item]]:
    if parent.startswith("railyard:fabric:"):
        if name.endswith(_SWITCH_STEP):
            desired = SwitchState.model_validate(parse_lines(stdin)["desired"])
            yield name, Item("switch", name.removesuffix(_SWITCH_STEP), desired.settings())
    elif _is_settings(stdin):
        kind: Kind = "hypervisor" if parent.startswith("railyard:hypervisor:") else "host"
        yield name, Item(kind, _device_of(name), settings_of_text(stdin))


def _device_of(step: str) -> str:
    """The device in the name of a step: `gpu01` of `gpu01-k3s`."""
    works = [work for work in _WORKS if step.endswith(work)]
    return step.removesuffix(works[0]) if works else step.rpartition("-")[0]


def _is_settings(stdin: str) -> bool:
    """Whether a text is `key=value` lines, and not a request, a secret or a digest."""
    first = stdin.partition("\n")[0]
    return "=" in first and " = " not in first


_MARKS: Final = re.compile(r"<\{%[^%]*%\}>")
"""The engine's colour marks in a message."""
_DRIFT: Final = re.compile(r"(\S+): drift: (.*)")
_OF_CLUSTER: Final = re.compile(r"cluster: drift: ")
_LOST: Final = "cluster: lost: "
"""Start of a message about lost servers and balancers."""
_SETTING: Final = re.compile(r"(\S+) of (.*) is (.*), want (.*)")
_ALARMS: Final = ("WILL ", "MAY ", "disruption: ", "unreachable: ", "host key: ", _LOST)
_REPLACES: Final = frozenset({"replace", "create-replacement", "delete-replaced"})
_QUIET: Final = frozenset({"same", "refresh", "read"})
_Step = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class News:
    """The engine's messages about devices and the cluster, without edits of the file."""

    alarms: tuple[str, ...]
    repairs: tuple[str, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    """Why the engine refused; empty if it succeeded."""


def read_engine(text: str, edited: AbstractSet[str]) -> News:
    """Read the engine's answer.

    `edited` are resources that the file changes; their differences are not drift.

    Raises:
        ValueError: The text is not JSON, because the engine failed earlier.
    """
    document = cast("Mapping[str, list[_Step]]", json.loads(text))
    steps = document.get("steps") or []
    said = [
        (_MARKS.sub("", str(each.get("message", ""))).strip(), str(each.get("severity")))
        for each in document.get("diagnostics") or []
    ]
    messages = [message for message, severity in said if severity != "error"]
    # If the program read the cluster, its messages already name the objects.
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
        ": not touched and not read: ",
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
    """Yield cluster objects that drifted or are gone, without those that the file edits.

    After a refresh, the old state is the live one and the new state the wanted one.
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
