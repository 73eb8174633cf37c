"""A switch system configured by lines of text, as a table: one row for each setting.

A row says what shows the setting, its line in the configuration, the factory's value, and the lines
to send. One reader and one writer serve every row; the order of rows is the order of writing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from components.core.record import field, record
from components.fabric.parts import is_default
from components.fabric.state import SwitchState
from components.fabric.systems.base import Answer, Change

Write = Callable[["Row", Any, Any], Iterable[str]]
"""(row, before, after): the lines that change the setting of a port, a queue, a partition."""
Step = Callable[[SwitchState, SwitchState], Iterable[tuple[str, ...]]]
"""(actual, target) of the whole switch to lines, in groups that belong together."""
Values = dict[str, Any]
"""Name of a row to its value."""


def take_text(_held: object, text: str) -> object:
    """A number or a word."""
    return int(text) if text.isdecimal() else text


def by_word(read: Callable[[str], object]) -> Callable[[object, str], object]:
    """Reads the one group of a pattern, whatever was there before."""
    return lambda _held, text: read(text)


def by_key(held: Mapping[str, object] | None, key: str, *value: object) -> dict[str, object]:
    """Adds to the values of several lines: one each, or a tuple, under the first group."""
    return {**(held or {}), key: value[0] if len(value) == 1 else value}


def collect(held: tuple[str, ...] | None, word: str) -> tuple[str, ...]:
    """Adds to the words of several lines."""
    return (*(held or ()), word)


def nothing(_row: Row, _was: object, _now: object) -> tuple[str, ...]:
    """For a setting that another row writes, or none."""
    return ()


def write_value(row: Row, was: Any, now: Any) -> tuple[str, ...]:  # noqa: ANN401 - of any type
    """The line of the value, if it is wanted and another one is there; None is not wanted."""
    held, wanted = getattr(was, row.name), getattr(now, row.name)
    implied = bool(row.unset) and is_default(was.native, row.name)
    if wanted is not None and row.unset and is_default(now.native, row.name):
        return () if implied else (row.unset,)
    if wanted is None or (wanted == held and not (implied and row.factory is None)):
        return ()
    return (row.text(wanted),)


@record
class Row:
    """One setting of a port, a queue, a partition or another object with its own lines."""

    name: str
    """The field of the state."""
    line: str = "(?!)"
    """Pattern of its line, and the line to send, with the value in place of the group."""
    factory: Any = None
    """Its value if no line sets one; None: it depends on the release or on other settings."""
    take: Callable[..., object] = take_text
    """The value before that line, or None, and the groups of the pattern, to the value after it."""
    lines: Mapping[Any, str] = field(default_factory=dict[Any, str])
    """Value to the line to send, if not `line`; under None that of other values, with `{}`."""
    unset: str = ""
    """The line that removes it, if the state's `native` records whether one existed."""
    write: Write = write_value
    """The lines from one state to another; a special function if other settings matter too."""
    command: str = ""
    """Shows it, with `{}` for the port; empty: a table of all ports, or the configuration."""
    read: Callable[[Answer], object] | None = None
    """Reads the answer to that command."""
    say: Callable[[Any], object] = str
    """The value as the line has it."""
    alone: bool = False
    """One port at a time, since the port flaps."""
    if_asked: bool = False
    """Read only if it is asked for, and not whenever its command is sent."""

    def text(self, value: Any) -> str:  # noqa: ANN401 - of any row
        """The line that sets a value."""
        form = self.lines.get(value) or self.lines.get(None)
        if form is not None:
            return form.format(self.say(value))
        return re.sub(r"\(.*\)", lambda _found: str(self.say(value)), self.line)


def read_answers(rows: Iterable[Row], answers: Mapping[str, str], place: str = "") -> Values:
    """Read the answers to the commands of some rows, about one port if `place` names it."""
    found: Values = {}
    for row in rows:
        command = row.command.format(place)
        if row.read and command in answers:
            found[row.name] = row.read(Answer(command, answers[command], place))
    return found


def take_line(rows: Iterable[Row], found: Values, line: str) -> bool:
    """Read one line of a configuration into the values; whether a row has this line."""
    for row in rows:
        said = [value for value, text in row.lines.items() if text == line and value is not None]
        match = None if said else re.fullmatch(row.line, line)
        if said or match:
            held = found.get(row.name)
            found[row.name] = said[0] if match is None else row.take(held, *match.groups())
            return True
    return False


def take_lines(rows: Iterable[Row], lines: Iterable[str]) -> Values:
    """The values that some lines set; foreign lines are left out."""
    found: Values = {}
    for line in lines:
        take_line(rows, found, line)
    return found


def factory_values(rows: Iterable[Row]) -> Values:
    """Row name to its value if no line sets one."""
    return {row.name: row.factory for row in rows}


def nested_lines(text: str) -> Iterator[tuple[str, ...]]:
    """Each line of a configuration after the lines that it is indented under; `!` is skipped."""
    path: list[tuple[int, str]] = []
    for line in text.replace("\r", "").splitlines():
        words, indent = line.strip(), len(line) - len(line.lstrip())
        if words not in {"", "!"}:
            path = [*(each for each in path if each[0] < indent), (indent, words)]
            yield tuple(words for _, words in path)


def write_rows(rows: Iterable[Row], was: object, now: object) -> Iterator[str]:
    """The lines of all rows from one state to another."""
    for row in rows:
        yield from row.write(row, was, now)


def write_steps(
    steps: Iterable[Step], actual: SwitchState, target: SwitchState
) -> tuple[Change, ...]:
    """The ordered way from one state of a switch to another."""
    return tuple(Change(lines) for step in steps for lines in step(actual, target))


def add_vlans(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, ...]]:
    """The first step: VLANs, before ports name them."""
    return ((f"vlan {vlan}", "exit") for vlan in target.vlans if vlan not in actual.vlans)


def remove_vlans(actual: SwitchState, target: SwitchState) -> Iterator[tuple[str, ...]]:
    """The last step."""
    return ((f"no vlan {vlan}",) for vlan in actual.vlans if vlan not in target.vlans)
