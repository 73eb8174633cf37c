"""Plans as JSON, in one stable form for digests and goldens, and as lines `key.path=value`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import Any, Final, cast

from pydantic import BaseModel

from components.core.plain_text import indented

OMIT_EMPTY: Final = {"omit_empty": True}
"""Metadata of a later field: if it is empty, plans and their digests stay
unchanged, so acceptance does not run again because of it."""
HIDDEN: Final = {"hidden": True}
"""Metadata of a field that another field identifies by digest: a long text, which plans omit."""
_DEEP: Final = 3
"""Levels that are written piece by piece: the plan, its list of hosts, and each host."""


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """The shown names of a dataclass, and whether each is left out while it is empty."""
    shown = (each for each in fields(kind) if not each.metadata.get("hidden"))
    return tuple((each.name, bool(each.metadata.get("omit_empty"))) for each in shown)


def _items(value: object) -> Iterator[tuple[str, object]]:
    for name, omit_empty in _fields_of(type(value)):
        item = getattr(value, name)
        if item or not omit_empty:
            yield name, item


def to_json(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Turn a plan value into plain JSON data, keys as in the types; TypeError for another one."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        return {str(key): to_json(item) for key, item in items.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in cast("Sequence[object]", value)]
    opened = _opened(value)
    return opened if isinstance(value, BaseModel) else to_json(opened)


def _opened(value: object) -> object:
    """Convert one level of a value that JSON does not support into one that it does."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return dict(_items(value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {**cast("Mapping[str, object]", value)}
    if isinstance(value, Sequence):
        return [*cast("Sequence[object]", value)]
    if isinstance(value, set | frozenset):
        # The order of a set differs in each process.
        return sorted((to_json(item) for item in cast("frozenset[object]", value)), key=json.dumps)
    raise TypeError(f"a plan must not hold a {type(value).__name__}")


def json_pieces(value: object, deep: int = _DEEP) -> Iterator[str]:
    """The text of `json.dumps(to_json(value), sort_keys=True)`, piece by piece.

    As a whole, the text of a large site takes a gigabyte.
    """
    if deep and is_dataclass(value) and not isinstance(value, type):
        yield "{"
        for number, (name, item) in enumerate(sorted(_items(value), key=itemgetter(0))):
            yield f'{", " if number else ""}"{name}": '
            yield from json_pieces(item, deep - 1)
        yield "}"
    elif deep and isinstance(value, tuple | list):
        yield "["
        for number, item in enumerate(cast("Sequence[object]", value)):
            if number:
                yield ", "
            yield from json_pieces(item, deep - 1)
        yield "]"
    else:
        yield json.dumps(value, default=_opened, sort_keys=True)


def flatten(value: object, path: str = "") -> dict[str, str]:
    """Map key paths to values, in the order of the value. Empty and null values are left out."""
    return dict(_pairs(value, path))


def _pairs(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _pairs(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = cast("Sequence[object]", value)
        if all(isinstance(item, str | int | float) for item in items):
            if items:
                yield path, ", ".join(map(_word, items))
            return
        for number, item in enumerate(items):
            yield from _pairs(item, f"{path}.{number}")
    elif value is not None and value != "":
        yield path, _word(value)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_lines(values: Mapping[str, str]) -> tuple[str, ...]:
    """One `key=value` line each."""
    return tuple(indented(f"{key}={value}") for key, value in values.items())


def beyond(lines: Sequence[str], reference: Sequence[str]) -> tuple[str, ...]:
    """The lines that the reference lacks, and the keys that only the reference has."""
    known, own = set(reference), {_key(line) for line in lines}
    gone = [key for key in map(_key, reference) if key not in own]
    new = tuple(line for line in lines if line not in known)
    return (*new, f"# not set here: {', '.join(gone)}") if gone else new


def _key(line: str) -> str:
    return line.partition("=")[0]
