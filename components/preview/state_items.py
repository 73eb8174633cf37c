"""The items of a recorded state: `pulumi stack export` without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

from components.fabric.state import SwitchState
from components.preview.items import (
    Item,
    Kind,
    object_subject,
    release_fields,
    settings_of_fields,
    settings_of_text,
    without_secrets,
)
from components.remote.lines import flatten, parse_lines

_RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_SWITCH_STEP: Final = "-apply"
_ENSURE: Final = "cloud ensure"
_WORKS: Final = ("-member-removal", "-cluster-access", "-cluster-ca")
"""Ends of step names with a hyphen of their own."""
Inputs = Mapping[str, object]


def recorded_inputs(text: str) -> dict[str, Inputs]:
    """Resource name to its recorded inputs, each secret replaced by a word."""
    document = cast("Mapping[str, Mapping[str, object]]", json.loads(text))
    resources = cast("list[Inputs]", document.get("deployment", {}).get("resources") or [])
    return {
        str(each["urn"]): cast("Inputs", without_secrets(each.get("inputs") or {}))
        for each in resources
        if each.get("custom")
    }


def items_of_state(inputs: Mapping[str, Inputs]) -> dict[str, Item]:
    """Resource name to item."""
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
            yield from _step(parent, name, text)


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
    """Whether it is `key=value` lines: no request, no secret, no digest."""
    first = stdin.partition("\n")[0]
    return "=" in first and " = " not in first
