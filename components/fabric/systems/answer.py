"""One answer of a switch, read as JSON or by pattern; any other form raises `Unreadable`."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.systems.base import Unreadable

ValueT = TypeVar("ValueT")
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue)
_TEXT: Final = TypeAdapter(str)


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command, and the port that it covers; empty: every port."""

    command: str
    text: str
    port: str = ""

    def unreadable(self, why: str) -> Unreadable:
        """The finding that this answer has another form."""
        return Unreadable(self.command, self.text, why)

    @contextmanager
    def reading(self) -> Generator[None]:
        """A `ValueError` raised in this block says why the answer cannot be read."""
        try:
            yield
        except ValueError as error:
            words = re.sub(r"^invalid literal for int\(\) .*: ", "no number, but ", str(error))
            raise self.unreadable(words) from error

    def match(self, pattern: str) -> str:
        """The first group of the first match."""
        found = re.search(pattern, self.text, re.MULTILINE)
        if found is None:
            raise self.unreadable(f"no line of the answer has the form {pattern}")
        return found[1]

    def find(self, adapter: TypeAdapter[ValueT], *keys: str) -> ValueT:
        """The value under these keys, each one at any depth below the one before it."""
        start = re.search(r"^[\[{]", self.text, re.MULTILINE)  # after a banner, as Ansible does
        if start is None:
            raise self.unreadable("the answer contains no JSON")
        value = self.typed(_JSON, self.text[start.start() :], is_text=True)
        for key in keys:
            value = _below(value, key)
            if value is None:
                raise self.unreadable(f"no `{key}` in the answer")
        return self.typed(adapter, value)

    def each(
        self, adapter: TypeAdapter[ValueT], first: str, *keys: str
    ) -> list[tuple[str, ValueT]]:
        """The values under these keys, each with the name that the first `*` among them is.

        The first key is at any depth, and must be there; the others may be missing.
        """
        found: list[tuple[str, JsonValue]] = [("", self.find(_JSON, first))]
        for key in keys:
            found = [
                (name or (inner if key == "*" else ""), value)
                for name, outer in found
                for inner, value in self._inside(outer)
                if key in {"*", inner}
            ]
        return [(name, self.typed(adapter, value)) for name, value in found]

    def _inside(self, value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
        if isinstance(value, list):
            return [("", each) for each in value]
        if not isinstance(value, dict):
            raise self.unreadable(f"{value!r} is in place of a table")
        return value.items()

    def typed(self, adapter: TypeAdapter[ValueT], value: Any, *, is_text: bool = False) -> ValueT:  # noqa: ANN401 - of any form
        """A part of the answer, or JSON text, as a type."""
        try:
            return adapter.validate_json(value) if is_text else adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = "the JSON is broken" if is_text else ".".join(map(str, first["loc"]))
            raise self.unreadable(f"{where}: {first['msg']}") from error

    def cell(self, row: Mapping[str, str], key: str, *known: str) -> str:
        """A value of a row; it must be in `known`, if that is given."""
        if key not in row or (known and row[key] not in known):
            raise self.unreadable(f"`{key}` is {row.get(key)!r}, which is not known here")
        return row[key]

    def word(self, keys: tuple[str, ...], *known: str) -> str:
        """The text under these keys."""
        return self.cell({keys[-1]: self.find(_TEXT, *keys)}, keys[-1], *known)


def _below(value: JsonValue, key: str) -> JsonValue:
    """The first value of that key at any depth, or None."""
    if isinstance(value, dict) and key in value:
        return value[key]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = (_below(part, key) for part in parts)
    return next((item for item in found if item is not None), None)
