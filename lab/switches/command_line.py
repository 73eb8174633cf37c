"""Command lines of switches: abbreviated words, values in their places, rows of fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel

from components.core.record import record, replace

Handler = Callable[..., Any]
"""(context, *values of the places) to the output; None prints nothing."""


class CliError(Exception):
    """A refusal: the text that the switch prints, starting with `%`."""


class UnknownCommandError(CliError):
    """A line that the emulator does not know; it is recorded as unmodelled."""


@record
class Command:
    """One line of a mode: its words and places, and its handler."""

    pattern: tuple[str, ...]
    handler: Handler


def table(lines: Iterable[tuple[str, Handler]]) -> tuple[Command, ...]:
    """Make a command table; `a|b` in a word allows either, and the handler gets the choice."""
    return tuple(Command(tuple(words.split()), handler) for words, handler in lines)


_Live = list[tuple[Command, list[str]]]


@record
class Grammar:
    """The values that places of a system accept, and its refusals of a line."""

    places: Mapping[str, re.Pattern[str]]
    unknown: str
    """`{}` is the unknown word."""
    incomplete: str
    ambiguous: str
    """`{}` is the first word."""

    def find(self, commands: Iterable[Command], words: Sequence[str]) -> tuple[Handler, list[str]]:
        """The handler of the command that the words abbreviate, and the values of its places.

        Raises:
            CliError: The words are incomplete or ambiguous.
            UnknownCommandError: No command starts like this.
        """
        live: _Live = [(command, []) for command in commands]
        for index, word in enumerate(words):
            live = self._narrow(live, index, word)
            if not live:
                raise UnknownCommandError(self.unknown.format(word))
        count = len(words)
        whole = [
            (command, values)
            for command, values in live
            if len(command.pattern) == count
            or (command.pattern[-1] == "<text>" and count > len(command.pattern))
        ]
        if not whole:
            raise CliError(self.incomplete)
        if len(whole) > 1:
            raise CliError(self.ambiguous.format(words[0]))
        command, values = whole[0]
        return command.handler, values

    def _narrow(self, live: _Live, index: int, word: str) -> _Live:
        exact: _Live = []
        placed: _Live = []
        short: _Live = []
        for command, values in live:
            pattern = command.pattern
            if index >= len(pattern):
                if pattern[-1] == "<text>":
                    placed.append((command, [*values[:-1], f"{values[-1]} {word}"]))
                continue
            choices = pattern[index].split("|")
            for choice in choices:
                said = [*values, choice] if len(choices) > 1 else values
                if choice == word:
                    exact.append((command, said))
                elif choice == "<text>" or (
                    choice in self.places and self.places[choice].fullmatch(word)
                ):
                    placed.append((command, [*values, word]))
                elif choice[0] != "<" and choice.lower().startswith(word.lower()):
                    short.append((command, said))
        return exact + placed or short


def is_place(word: str) -> bool:
    """Whether a word of a pattern takes a value."""
    return word[0] == "<" or "|" in word


def _last(_context: object, *said: str) -> object:
    return said[-1]


@record
class Row:
    """A field of the configuration; the same line sets it and is printed for it."""

    line: str
    """Its words; the value comes from its place, or from `value` without a place."""
    field: str = ""
    """Empty in the annotation of a field: `rows_of` fills it in."""
    value: object = None
    without: object = None
    """The field's value after `no …`; printed as `no …` if it is not the default."""
    read: Callable[..., object] = _last
    """(edited object, text) to the value; may refuse."""
    show: Callable[[Any], str] = str
    """The value to its text."""
    head: str = ""
    """The words after `no`; empty: all words before the place."""
    removable: bool = True
    """Whether `no …` is known."""
    resets: bool = False
    """Whether `default …` is known too."""

    @property
    def _head(self) -> str:
        words = self.line.split()
        end = next((n for n, word in enumerate(words) if is_place(word)), len(words))
        return self.head or " ".join(words[:end])

    @property
    def _has_place(self) -> bool:
        return any(map(is_place, self.line.split()))

    def commands(
        self, get: Callable[..., object], before: str = ""
    ) -> Iterator[tuple[str, Handler]]:
        """The lines that set the field, and those that remove its value.

        Args:
            get: (context, values of the places in `before`, whether to set it) to the object with
                the field; None: the object is missing, and `no …` does nothing.
            before: Words before the line.
        """
        keys = sum(map(is_place, before.split()))

        def holder(context: object, said: Sequence[str], *, on: bool) -> object:
            return get(context, *said[:keys], on=on) if keys else get(context)

        def take(context: object, *said: str) -> None:
            held = holder(context, said, on=True)
            value = self.read(context, *said[keys:]) if self._has_place else self.value
            setattr(held, self.field, value)

        def leave(context: object, *said: str) -> None:
            held = holder(context, said, on=False)
            if held is not None:
                setattr(held, self.field, self.without)

        def reset(context: object, *said: str) -> None:
            setattr(holder(context, said, on=False), self.field, None)

        yield f"{before}{self.line}", take
        if self.removable:
            yield f"no {before}{self._head}", leave
        if self.resets:
            yield f"default {before}{self._head}", reset

    def is_default(self, held: BaseModel) -> bool:
        """Whether no line is printed for the field: most fields of most ports."""
        return bool(getattr(held, self.field) == _default_of(type(held), self.field))

    def lines(self, held: BaseModel) -> Iterator[str]:
        """The line for the field's value, unless it is the default."""
        if self.is_default(held):
            return
        value = getattr(held, self.field)
        if value == self.without:
            yield f"no {self._head}"
        elif self._has_place:
            words = (self.show(value) if is_place(word) else word for word in self.line.split())
            yield " ".join(words).rstrip()
        elif value == self.value:
            yield self.line


def flag(line: str, field: str = "", head: str = "") -> Row:
    """A field that its line turns on; `no` with the line, or with `head`, turns it off."""
    return Row(line, field, value=True, without=False, head=head)


@cache
def _default_of(kind: type[BaseModel], field: str) -> object:
    """The value of a field that no line set: only to compare with, since all share it."""
    return kind.model_fields[field].get_default(call_default_factory=True)


Lines = Callable[[Any], Iterable[str]]
"""An object with fields to lines that no row covers."""


@cache
def rows_of(kind: type[BaseModel]) -> tuple[Row | Lines, ...]:
    """The annotated lines of a configuration class's fields, in order."""
    return tuple(
        replace(note, field=name) if isinstance(note, Row) else note
        for name, info in kind.model_fields.items()
        for note in info.metadata
    )


def commands_of(
    rows: Iterable[Row | Lines], get: Callable[[Any], object]
) -> tuple[tuple[str, Handler], ...]:
    """The lines of all rows, for a command table; `get` returns the object with their fields."""
    return keyed_commands(rows, get, "")


def keyed_commands(
    rows: Iterable[Row | Lines], get: Callable[..., object], before: str
) -> tuple[tuple[str, Handler], ...]:
    """Like `commands_of`, for lines whose first words name the object with the fields."""
    found = [row.commands(get, before) for row in rows if isinstance(row, Row)]
    return tuple(line for lines in found for line in lines)


def assign(get: Callable[[Any], object], field: str, value: object) -> Callable[[Any], None]:
    """A line without a value: it sets the field to this one."""
    return lambda context: setattr(get(context), field, value)


def forget(
    get: Callable[[Any], dict[str, Any]], name: Callable[[str], str] = str
) -> Callable[[Any, str], None]:
    """A line that removes a named entry."""
    return lambda context, text: get(context).pop(name(text), None) and None


def listed(
    get: Callable[[Any], object], field: str, read: Callable[[str], Any] = str, *, on: bool
) -> Callable[[Any, str], None]:
    """A line that adds a value to a sorted list, or removes it."""

    def change(context: object, text: str) -> None:
        held, value = get(context), read(text)
        others = {*getattr(held, field)} - {value}
        setattr(held, field, sorted(others | {value} if on else others))

    return change


def lines_of(rows: Iterable[Row | Lines], held: BaseModel) -> Iterator[str]:
    """The lines that a configuration prints for an object, in the order of the rows."""
    for row in rows:
        if not isinstance(row, Row):
            yield from row(held)
        elif not row.is_default(held):
            yield from row.lines(held)
