"""Tables of things that a device has only in some states: one table for each kind of device.

A table is a YAML file beside its test. Each row says what a real device lacks in one state and has
in another, and names the document that says so; the test tries both states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every row has."""

    thing: str
    only_with: str
    source: str


State = dict[str, Any]
Outcome = tuple[bool, str]
"""Whether the thing is there, and what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played(Row):
    """A row whose two states are given to a function by its name."""

    play: str
    lacks: State
    has: State
    says: str = ""


RowT = TypeVar("RowT", bound=Row)


def rows_of(table: Path, kind: type[RowT]) -> tuple[RowT, ...]:
    """Read a table."""
    found = cast("list[object]", yaml.safe_load(table.read_text()))
    return tuple(TypeAdapter(kind).validate_python(row) for row in found)


def hold(row: Played, attempt: Callable[[State, Path], Outcome], folder: Path) -> None:
    """Play both states of a row, each in a folder of its own."""
    there, words = attempt(row.lacks, _made(folder / "lacks"))
    assert not there, "kinder than a real one"
    assert row.says in words
    there, words = attempt(row.has, _made(folder / "has"))
    assert there, words


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
