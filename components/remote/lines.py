"""Write and read a request as one line per value: `desired.ports.1/2.mtu_bytes = 9216`.

For a changed text, the engine shows the changed lines with two lines around each, but for JSON or
YAML the complete text. In this form each changed value is one line with its path. JSON can be read
as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, TypeVar, cast

from pydantic import JsonValue, ValidationError

from components.core.errors import UsageError
from components.core.templates import reader_of

_PLAIN: Final = re.compile(r"[A-Za-z0-9_/-]+")
"""A key without quotes."""
_STEP: Final = re.compile(
    r"""\.?(?: (?P<plain>[A-Za-z0-9_/-]+) | (?P<quoted>"(?:[^"\\]|\\.)*") | \[(?P<index>\d+)\] )""",
    re.VERBOSE,
)
_EQUALS: Final = " = "
_NOTE: Final = "repair"
"""Without a note the line is left out."""
_LAST: Final = ("settings", _NOTE)
"""Keys that change with every edit or repair: last, so no unchanged lines follow in a diff."""
_MOST: Final = 16_000_000
"""Most characters of one request: acceptance of 1,000 hosts has about 3,000,000."""
Path = tuple[str | int, ...]
_Request = TypeVar("_Request")


def render_lines(document: Mapping[str, object]) -> str:
    """Render one line per value, by key, with `_LAST` at the end; a plain list is one value."""
    return "".join(f"{path}{_EQUALS}{value}\n" for path, value in flatten(document).items())


def flatten(document: Mapping[str, object]) -> dict[str, str]:
    """Return each value of a document by its path, as JSON."""
    values = cast("JsonValue", json.loads(json.dumps(document)))
    return {_spell(path): json.dumps(value) for path, value in _leaves(values, ())}


def parse_lines(text: str) -> dict[str, JsonValue]:
    """Parse `render_lines` or a JSON object; ValueError for others, over 16 MB or a value twice."""
    if len(text) > _MOST:
        raise ValueError(f"{len(text):,} characters; at most {_MOST:,} are read")
    if text.lstrip().startswith("{"):
        return cast("dict[str, JsonValue]", json.loads(text))
    document: dict[str, JsonValue] = {}
    seen: set[Path] = set()
    for line in text.splitlines():
        path, value = _read(line)
        if path in seen:
            raise ValueError(f"{_spell(path)[:80]} is there twice")
        seen.add(path)
        place: JsonValue = document
        for step, following in pairwise(path):
            place = _enter(place, step, [] if isinstance(following, int) else {})
        _enter(place, path[-1], value)
    return document


def _leaves(value: JsonValue, path: Path) -> Iterator[tuple[Path, JsonValue]]:
    if isinstance(value, dict) and (value or not path):
        last = () if path else tuple(key for key in _LAST if key in value)
        for key in (*sorted(value.keys() - {*last}), *last):
            if not path and key == _NOTE and value[key] == "":
                continue
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
    else:
        yield path, value


def _spell(path: Path) -> str:
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            dot = "." if parts else ""
            parts.append(dot + (step if _PLAIN.fullmatch(step) else json.dumps(step)))
    return "".join(parts)


def _read(line: str) -> tuple[Path, JsonValue]:
    path: list[str | int] = []
    end = 0
    while found := _STEP.match(line, end):
        plain, quoted, index = found.group("plain", "quoted", "index")
        path.append(int(index) if index else plain or cast("str", json.loads(quoted)))
        end = found.end()
    if not path or not line.startswith(_EQUALS, end):
        raise ValueError(f"no `path = value`: {line[:80]!r}")
    return tuple(path), cast("JsonValue", json.loads(line[end + len(_EQUALS) :]))


def _enter(place: JsonValue, step: str | int, new: JsonValue) -> JsonValue:
    if isinstance(place, dict) and isinstance(step, str):
        return place.setdefault(step, new)
    if isinstance(place, list) and isinstance(step, int):
        if step == len(place):
            place.append(new)
        if step == len(place) - 1:
            return place[step]
    raise ValueError(f"{step!r} does not follow the lines before it")


def as_json(text: str) -> str:
    """Return the document as JSON, for a reader that checks types; other texts stay unchanged."""
    try:
        return json.dumps(parse_lines(text))
    except ValueError:
        return text


def read_request(kind: type[_Request], text: str, what: str) -> _Request:
    """Parse and validate a request; UsageError names its first fault."""
    try:
        return reader_of(kind).validate_json(as_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise UsageError(f"cannot read the {what} on stdin: {where}: {first['msg']}") from None
