"""Ports that are alike, written once: what most ports of a switch have is under the name `all`.

For what a state keeps and no preview compares line by line: the request of a baseline, which is
made once, and the evidence of an apply. The request of an apply has each port by itself, so that a
preview shows the old value of a setting beside the new one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

ALL: Final = "all"
"""No port of any system is called so: each has a digit in its name."""
_Port = Mapping[str, JsonValue]


def fold_ports(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON form of a switch with the most common value of each key of its ports once."""
    ports = cast("Mapping[str, _Port]", state.get("ports", {}))
    if len(ports) <= 1:
        return dict(state)
    common = _common([*ports.values()])
    own: dict[str, JsonValue] = {
        name: {key: value for key, value in port.items() if common.get(key, _OTHER) != value}
        for name, port in ports.items()
    }
    return {**state, "ports": {ALL: common, **own}}


_OTHER: Final = ("no value of JSON",)


def _common(ports: list[_Port]) -> dict[str, JsonValue]:
    """Of each key that every port has: one without it would get a value that it does not have."""
    keys = [key for key in ports[0] if all(key in port for port in ports)]
    return {key: _most([port[key] for port in ports]) for key in keys}


def _most(values: list[JsonValue]) -> JsonValue:
    texts = Counter(json.dumps(value, sort_keys=True) for value in values)
    return cast("JsonValue", json.loads(texts.most_common(1)[0][0]))


def spread_ports(state: object) -> object:
    """The same with each port by itself; what has no `all` is so already."""
    if not isinstance(state, Mapping):
        return state
    document = cast("Mapping[str, object]", state)
    ports = document.get("ports")
    if not isinstance(ports, Mapping) or ALL not in ports:
        return document
    named = dict(cast("Mapping[str, _Port]", ports))
    common = named.pop(ALL)
    return {**document, "ports": {name: {**common, **port} for name, port in named.items()}}
