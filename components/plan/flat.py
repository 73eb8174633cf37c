"""Nested values as `key.path=value` lines, and what one such list has over another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from components.core.plain_text import indented


def flatten(value: object, path: str = "") -> dict[str, str]:
    """Key path to value, in the order of the value. What is empty or null decides nothing."""
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
