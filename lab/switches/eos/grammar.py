"""The command line's grammar: words, abbreviations, numbers, VLAN lists.

Error texts: docs/explanation/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

INVALID: Final = "% Invalid input"
INCOMPLETE: Final = "% Incomplete command"
AMBIGUOUS: Final = "% Ambiguous command"
_MAX_VLAN: Final = 4094
_PLACES: Final = {
    "<int>": re.compile(r"\d+"),
    "<seconds>": re.compile(r"\d+(\.\d{1,3})?"),
    "<vlans>": re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*"),
    "<svi>": re.compile(r"(?:vlan|loopback)\d+", re.IGNORECASE),
    "<word>": re.compile(r"\S+"),
    "<time>": re.compile(r"\d{1,2}:\d{2}:\d{2}"),
    "<port>": re.compile(r"(?:et(?:h(?:e(?:r(?:n(?:et?)?)?)?)?)?)?\d+(/\d+)*", re.IGNORECASE),
}


class EosError(Exception):
    """A refusal: the text that the switch prints, starting with `%`."""


class UnknownCommandError(EosError):
    """A line that the emulator does not know; it is recorded as unmodelled."""


Handler = Callable[..., str]
"""(context, *values of the placeholders) to what is printed."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a mode's command table: words, places, and how to answer."""

    pattern: tuple[str, ...]
    handler: Handler


def table(lines: Iterable[tuple[str, Handler]]) -> tuple[Command, ...]:
    """Make a command table; `a|b` in a word stands for either, and is given to the handler."""
    return tuple(Command(tuple(words.split()), handler) for words, handler in lines)


def run(commands: Sequence[Command], words: list[str], context: Any) -> str:  # noqa: ANN401 - whatever the table's handlers take
    """Find the command that the words abbreviate, and run it.

    Raises:
        EosError: The words are incomplete or ambiguous, or the handler refuses.
        UnknownCommandError: No command starts like this.
    """
    live = [(command, list[str]()) for command in commands]
    for index, word in enumerate(words):
        live = _narrow(live, index, word)
        if not live:
            raise UnknownCommandError(INVALID)
    whole = [(c, v) for c, v in live if len(c.pattern) == len(words) or _is_text(c, len(words))]
    if not whole:
        raise EosError(INCOMPLETE)
    if len(whole) > 1:
        raise EosError(AMBIGUOUS)
    command, values = whole[0]
    return command.handler(context, *values)


def _is_text(command: Command, length: int) -> bool:
    return command.pattern[-1] == "<text>" and length >= len(command.pattern)


_Live = list[tuple[Command, list[str]]]


def _narrow(live: _Live, index: int, word: str) -> _Live:
    exact: _Live = []
    short: _Live = []
    other: _Live = []
    for command, values in live:
        place = _place(command.pattern, index)
        if place == "<text>":
            joined = " ".join((*values[-1:], word)) if index >= len(command.pattern) else word
            kept = values[:-1] if index >= len(command.pattern) else values
            other.append((command, [*kept, joined]))
        elif place in _PLACES:
            if _PLACES[place].fullmatch(word):
                other.append((command, [*values, word]))
        elif place is not None:
            _literal(command, values, place, word, exact, short)
    return exact + other or short


def _literal(
    command: Command, values: list[str], place: str, word: str, exact: _Live, short: _Live
) -> None:
    choices = place.split("|")
    for choice in choices:
        said = [*values, choice] if len(choices) > 1 else values
        if choice == word:
            exact.append((command, said))
        elif choice.lower().startswith(word.lower()):
            short.append((command, said))


def _place(pattern: tuple[str, ...], index: int) -> str | None:
    if index < len(pattern):
        return pattern[index]
    return "<text>" if pattern[-1] == "<text>" else None


def within(text: str, low: int, high: int) -> int:
    """A number in its range.

    Raises:
        EosError: It is outside.
    """
    if not low <= int(text) <= high:
        raise EosError(INVALID)
    return int(text)


def within_seconds(text: str, low: float, high: float) -> str:
    """A time in its range, as it was typed.

    Raises:
        EosError: It is outside.
    """
    if not low <= float(text) <= high:
        raise EosError(INVALID)
    return text


def expand(text: str, high: int = _MAX_VLAN, low: int = 1) -> list[int]:
    """Spell out `10,111-112`, and `0 1 2` as the QoS maps have it.

    Raises:
        EosError: A number is out of range, or it is no list.
    """
    if not re.fullmatch(r"\d+(-\d+)?([, ]\d+(-\d+)?)*", text):
        raise EosError(INVALID)
    found: list[int] = []
    for part in re.split("[, ]", text):
        first, _, last = part.partition("-")
        found += range(within(first, low, high), within(last or first, low, high) + 1)
    return found


def collapse(numbers: Iterable[int]) -> str:
    """Write numbers as `10,111-112`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def port_name(text: str) -> str:
    """`Et1/1`, `eth1/1` and `1/1` are `Ethernet1/1`."""
    return f"Ethernet{re.sub('^[A-Za-z]+', '', text)}"
