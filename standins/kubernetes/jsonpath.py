"""The part of JSONPath (RFC 9535) that `pulumi.com/waitFor` annotations use.

Names, indexes, wildcards and equality filters: `{.status.conditions[?(@.type=="Ready")].status}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from standins.kubernetes.values import Json


class JsonPathError(ValueError):
    """A path that cannot be parsed."""


@dataclass(frozen=True, slots=True)
class _Name:
    key: str


@dataclass(frozen=True, slots=True)
class _Index:
    at: int


@dataclass(frozen=True, slots=True)
class _Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class _Filter:
    path: tuple[_Step, ...]
    equals: str


_Step = _Name | _Index | _Wildcard | _Filter

_TOKEN = re.compile(
    r"""
      \.(?P<name>[\w-]+)
    | (?P<any>\.\*|\[\*\])
    | \[(?P<index>-?\d+)\]
    | \[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]
    | \[\?\s*\(?\s*@(?P<inner>[^=\s]+)\s*==\s*["'](?P<value>[^"']*)["']\s*\)?\s*\]
    """,
    re.VERBOSE,
)


def parse_path(text: str) -> tuple[_Step, ...]:
    """Parses a path that starts at the object: `$.status.phase` or `.status.phase`.

    Raises:
        JsonPathError: The text holds something else than the supported steps.
    """
    rest = text.removeprefix("$")
    steps: list[_Step] = []
    position = 0
    while position < len(rest):
        match = _TOKEN.match(rest, position)
        if match is None:
            raise JsonPathError(f"cannot parse {rest[position:]!r} in the JSONPath {text!r}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> _Step:
    if match["name"] is not None or match["key"] is not None:
        return _Name(match["name"] or match["key"])
    if match["index"] is not None:
        return _Index(int(match["index"]))
    if match["inner"] is not None:
        return _Filter(parse_path(match["inner"]), match["value"])
    return _Wildcard()


def select(steps: tuple[_Step, ...], value: Json) -> Iterator[Json]:
    """Yields every value that the path selects."""
    if not steps:
        yield value
        return
    for child in _children(steps[0], value):
        yield from select(steps[1:], child)


def _children(step: _Step, value: Json) -> Iterator[Json]:
    match step:
        case _Name(key):
            if isinstance(value, dict) and key in value:
                yield value[key]
        case _Index(at):
            if isinstance(value, list) and -len(value) <= at < len(value):
                yield value[at]
        case _Wildcard():
            yield from _items(value)
        case _Filter(path, equals):
            yield from (
                item
                for item in _items(value)
                if any(to_text(found) == equals for found in select(path, item))
            )


def _items(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def to_text(value: Json) -> str:
    """Returns a found value as the text that an expected value is compared with."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
