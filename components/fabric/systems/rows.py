"""A switch system as a table: one row a setting of a port, from which reading and writing follow.

A row says what shows the setting, its line in the running configuration, the factory's value, and
how it is written. The order of the rows is the order of writing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.answer import Answer
from components.fabric.systems.base import Change

PortLines = Callable[["PortRow", PortState, PortState], Iterable[str]]
"""(row, actual, target) of one port to the tails of its lines."""
SwitchLines = Callable[[SwitchState, SwitchState], Iterable[tuple[str, ...]]]
"""(actual, target) of the whole switch to lines that belong together."""
Values = dict[Any, Any]
"""Name of a row to the value of one port."""


def nothing(_row: PortRow, _actual: PortState, _target: PortState) -> tuple[str, ...]:
    """Another row writes it, or none does."""
    return ()


def write_line(row: PortRow, actual: PortState, target: PortState) -> Iterator[str]:
    """The line of the running configuration with the wanted value in it."""
    wanted = getattr(target, row.name)
    if wanted is None or wanted == getattr(actual, row.name):
        return
    words = row.line.removeprefix("(no )?")
    if words != row.line:
        yield words.replace("( on)?", " on") if wanted else f"no {words.replace('( on)?', '')}"
    else:
        yield re.sub(r"\(.*\)", str(wanted), words)


def take_text(_held: object, text: str | None) -> object:
    """A number or a word; of a line that may begin with `no`, whether it does not."""
    if text is None or text == "no ":
        return text is None
    return int(text) if text.isdecimal() else text


_YES: Final = {"Enabled": True, "enabled": True, "Disabled": False, "disabled": False}


def line_reader(pattern: str) -> Callable[[Answer], object]:
    """Reads the first group of a pattern: whether it is enabled, or else a number."""
    return lambda answer: _YES.get(word := answer.match(pattern), take_text(None, word))


def word_reader(port: str, key: str, *known: str) -> Callable[[Answer], object]:
    """Reads one of the known words under the name of the port, which is made of `{}`, and a key."""

    def read(answer: Answer) -> object:
        word = answer.word((port.format(answer.port), key), *known)
        return _YES.get(word, word)

    return read


@dataclass(frozen=True, slots=True)
class PortRow:
    """One setting of a port."""

    name: str
    """The field of `PortState`; of `schedule` two: strict classes, and weights of the others."""
    topic: str = ""
    read: Callable[[Answer], object] | None = None
    """From the answer about one port; None: a table of all ports has it."""
    factory: Any = None
    """Its value if no line says one; None: that depends on the release."""
    line: str = "(?!)"
    """Pattern of its line in the running configuration, which is also the one to send."""
    take: Callable[..., object] = take_text
    """The value before that line, and the groups of the pattern, to the value after it."""
    write: PortLines = write_line
    alone: bool = False
    """One port at a time, since the port flaps."""
    if_asked: bool = False
    """Read only if it is asked for, not whenever its topic is."""

    def is_asked(self, port: PortState) -> bool:
        """Whether a wish or a question names it."""
        names = ("strict_classes", "class_shares") if self.name == "schedule" else (self.name,)
        return any(getattr(port, name) not in (None, {}) for name in names)

    def fields(self, value: Any, asked: PortState) -> dict[str, object]:  # noqa: ANN401 - of any row
        """A value as fields of `PortState`."""
        if self.name != "schedule":
            return {self.name: value}
        strict = tuple(sorted(tc for tc, weight in value.items() if weight is None))
        weights = {tc: weight for tc, weight in value.items() if weight is not None}
        shares = {"class_shares": weights} if asked.class_shares else {}
        return {"strict_classes": strict, "wrr_weights": weights, **shares}


def plan_rows(
    rows: Sequence[PortRow | SwitchLines],
    head: str,
    collapse: Callable[[Sequence[str]], Iterable[str]],
    states: tuple[SwitchState, SwitchState],
) -> Iterator[Change]:
    """The ordered way from one state to another.

    Args:
        rows: In the order of writing.
        head: What comes before the tail of a line, with `{}` for the ports.
        collapse: Ports in groups that one line can name: those with the same lines share them.
        states: Actual and target.
    """
    actual, target = states
    for row in rows:
        if not isinstance(row, PortRow):
            yield from map(Change, row(actual, target))
            continue
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for name, port in target.ports.items():
            lines = tuple(row.write(row, actual.ports.get(name, PortState()), port))
            groups.setdefault((name if row.alone else "", lines), []).append(name)
        for (_, lines), names in groups.items():
            for ports in collapse(names) if lines else ():
                yield Change(tuple(f"{head.format(ports)} {line}" for line in lines))


def rows_of(rows: Iterable[PortRow], topic: str, asked: PortState) -> Iterator[PortRow]:
    """The rows of a topic that are read at once."""
    for row in rows:
        if row.topic == topic and (not row.if_asked or row.is_asked(asked)):
            yield row


def read_rows(
    rows: Sequence[PortRow],
    commands: Mapping[str, str],
    answers: Mapping[str, str],
    port: str,
    asked: PortState,
) -> dict[str, object]:
    """The settings of a port that its own answers show: topic to command, `{}` for the port."""
    found: dict[str, object] = {}
    for topic, command in commands.items():
        text = answers.get(command.format(port))
        for row in rows_of(rows, topic, asked) if text is not None else ():
            if row.read:
                value = row.read(Answer(command.format(port), text or "", port))
                found |= row.fields(value, asked)
    return found


def factory_values(rows: Iterable[PortRow]) -> Values:
    """What an untouched port has."""
    return {row.name: row.factory for row in rows}


def take_line(rows: Iterable[PortRow], values: Values, line: str) -> bool:
    """Read a line of the running configuration about one port; whether a row has this line."""
    for row in rows:
        found = re.fullmatch(row.line, line) if row.topic else None
        if found is not None:
            values[row.name] = row.take(values.get(row.name, {}), *found.groups())
            return True
    return False


def fields_of(
    rows: Iterable[PortRow], base: Values, own: Values, asked: PortState
) -> dict[str, object]:
    """The fields of a port: its own values, and those of every port if it has none."""
    found: dict[str, object] = {}
    for row in rows:
        value = own.get(row.name, base[row.name])
        if isinstance(value, dict) and isinstance(base[row.name], dict):
            value = base[row.name] | value
        found |= row.fields(value, asked)
    return found
