"""The part of Go's templates that `docker … --format` is used with: paths, json, index, range."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Final

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
_PARTS: Final = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")


class TemplateError(Exception):
    """The template asks for what there is not, or in a way that is not played."""


def render(template: str, value: Json) -> str:
    """Fill a template.

    Raises:
        TemplateError: A key is missing, or a function is unknown.
    """
    pieces = _PARTS.split(template)
    text, end = _render(pieces, 0, value)
    if end != len(pieces):
        raise TemplateError("unexpected {{end}}")
    return text


def _render(pieces: Sequence[str], start: int, value: Json) -> tuple[str, int]:
    """Literal texts stand at even places, expressions at odd ones."""
    text = ""
    place = start
    while place < len(pieces):
        piece = pieces[place]
        if place % 2 == 0:
            text += piece.replace("\\n", "\n").replace("\\t", "\t")
            place += 1
        elif piece == "end":
            return text, place
        elif piece.startswith("range "):
            inner = ""
            end = place + 1
            for item in _items(evaluate(piece.removeprefix("range "), value)) or [None]:
                body, end = _render(pieces, place + 1, item)
                inner += body
            text += inner if _items(evaluate(piece.removeprefix("range "), value)) else ""
            place = end + 1
        elif piece.startswith("if "):
            body, end = _render(pieces, place + 1, value)
            text += body if evaluate(piece.removeprefix("if "), value) else ""
            place = end + 1
        else:
            text += _shown(evaluate(piece, value))
            place += 1
    return text, place


def _items(value: Json) -> list[Json]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return list(value)
        case None:
            return []
        case _:
            raise TemplateError(f"range can't iterate over {value}")


def _shown(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "<no value>"
        case list():
            return "[" + " ".join(_shown(item) for item in value) + "]"
        case dict():
            return "map[" + " ".join(f"{k}:{_shown(v)}" for k, v in sorted(value.items())) + "]"
        case _:
            return str(value)


def evaluate(expression: str, value: Json) -> Json:
    """The value of one expression: `.A.B`, `json .A`, `index .A "key"`, `len .A`.

    Raises:
        TemplateError: A key is missing, or the function is unknown.
    """
    words = shlex.split(expression)
    match words:
        case [path] if path.startswith("."):
            return _path(path, value)
        case ["json", path]:
            return json.dumps(_path(path, value), separators=(",", ":"))
        case ["len", path]:
            return len(_items(_path(path, value)))
        case ["index", path, *keys]:
            found = _path(path, value)
            for key in keys:
                found = _index(found, key)
            return found
        case _:
            raise TemplateError(f'function "{words[0] if words else ""}" not defined')


def _path(path: str, value: Json) -> Json:
    for name in path.strip(".").split(".") if path != "." else []:
        if not isinstance(value, dict) or name not in value:
            raise TemplateError(f'map has no entry for key "{name}"')
        value = value[name]
    return value


def _index(value: Json, key: str) -> Json:
    match value:
        case dict():
            return value.get(key, "")
        case list() if key.isdigit() and int(key) < len(value):
            return value[int(key)]
        case _:
            raise TemplateError(f"error calling index: index out of range: {key}")
