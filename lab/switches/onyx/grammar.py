"""The command line's grammar: words, abbreviations, port ranges, VLAN ranges."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from lab.switches.release import numbers

_PORTS = re.compile(r"^\d+/\d+(/\d+)?(-\d+/\d+(/\d+)?)?(,\d+/\d+(/\d+)?(-\d+/\d+(/\d+)?)?)*$")
_VLANS = re.compile(r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
_PLACES: dict[str, re.Pattern[str]] = {
    "<ports>": _PORTS,
    "<vlans>": _VLANS,
    "<int>": re.compile(r"^\d+$"),
    "<word>": re.compile(r"^\S+$"),
}

HandlerT = TypeVar("HandlerT", bound=Callable[..., object])


class CliError(Exception):
    """A refusal: the text that the switch prints, starting with `%`."""


class UnknownCommandError(CliError):
    """A line that the emulator does not know; it is recorded as unmodelled."""


@dataclass(frozen=True, slots=True)
class Command(Generic[HandlerT]):
    """One line of the vendor's command table."""

    pattern: tuple[str, ...]
    handler: HandlerT


_SINCE: dict[str, tuple[int, ...]] = {
    "roce": (3, 8, 2000),
    "traffic-class": (3, 6, 5000),
    "trust": (3, 6, 5000),
    "congestion-control": (3, 6, 5000),
}
"""Word of a command to the release that brought it: Onyx user manual, "RoCE Commands"; a public
recipe for 3.7.1102 that 3.6.4114 refused."""


def of_release(
    commands: Iterable[Command[HandlerT]], release: str
) -> tuple[Command[HandlerT], ...]:
    """The commands that a release has."""
    held = numbers(release)
    return tuple(
        command
        for command in commands
        if all(_SINCE.get(word, ()) <= held for word in command.pattern)
    )


def split_words(line: str) -> list[str]:
    """Split a line at blanks; double quotes hold words together.

    Raises:
        CliError: A quote is not closed.
    """
    try:
        return [*_words(line)]
    except ValueError as error:
        raise CliError(f"% {error}") from error


@lru_cache(maxsize=1000)
def _words(line: str) -> tuple[str, ...]:
    """A driver asks the same of each port, again and again."""
    return tuple(shlex.split(line))


def match_command(
    commands: Iterable[Command[HandlerT]], words: list[str]
) -> tuple[HandlerT, list[str]]:
    """Find the command that the words abbreviate.

    Returns:
        Its handler and the values of its placeholders.

    Raises:
        CliError: The words are incomplete or ambiguous.
        UnknownCommandError: No command starts like this.
    """
    live = [(command, list[str]()) for command in commands]
    for index, word in enumerate(words):
        live = _narrow(live, index, word)
        if not live:
            # Text: TMS base, and MLNX-OS 3.6.8012 in capture C16.
            raise UnknownCommandError(f'% Unrecognized command "{word}".\nType "?" for help.')
    complete = [(c, v) for c, v in live if len(c.pattern) == len(words) or _is_text(c, len(words))]
    if not complete:
        # Text: the prefix that tools check (capture C12).
        raise CliError('% Incomplete command.\nType "?" for help.')
    if len(complete) > 1:
        raise CliError(f'% Ambiguous command "{words[0]}".\nType "?" for help.')  # guess
    command, values = complete[0]
    return command.handler, values


def _is_text(command: Command[HandlerT], length: int) -> bool:
    return command.pattern[-1] == "<text>" and length >= len(command.pattern)


def _narrow(
    live: list[tuple[Command[HandlerT], list[str]]], index: int, word: str
) -> list[tuple[Command[HandlerT], list[str]]]:
    exact: list[tuple[Command[HandlerT], list[str]]] = []
    short: list[tuple[Command[HandlerT], list[str]]] = []
    other: list[tuple[Command[HandlerT], list[str]]] = []
    for command, values in live:
        place = _place(command.pattern, index)
        if place is None:
            continue
        if place == word:
            exact.append((command, values))
        elif place == "<text>" or (place in _PLACES and _PLACES[place].match(word)):
            other.append((command, [*values, word]))
        elif place.lower().startswith(word.lower()) and not place.startswith("<"):
            short.append((command, values))
    return exact + other or short


def _place(pattern: tuple[str, ...], index: int) -> str | None:
    if index < len(pattern):
        return pattern[index]
    return "<text>" if pattern[-1] == "<text>" else None


def expand_ports(text: str, known: Iterable[str]) -> list[str]:
    """Expand `1/1-1/3,1/7` into ports that the switch has, in its order.

    Raises:
        CliError: A port is not there (the wording is a guess).
    """
    order = list(known)
    ports: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        for end in (first, last or first):
            if end not in order:
                raise CliError(f"% Interface ethernet {end} does not exist")  # guess
        ports += order[order.index(first) : order.index(last or first) + 1]
    return ports


def expand_vlans(text: str) -> list[int]:
    """Expand `10,111-112`.

    Raises:
        CliError: A VLAN is outside 1-4094 (the wording is a guess).
    """
    vlans: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        vlans += range(int(first), int(last or first) + 1)
    if not vlans or min(vlans) < 1 or max(vlans) > 4094:  # noqa: PLR2004 - IEEE 802.1Q
        raise CliError("% Please enter an integer between 1 and 4094.")  # guess, after netmiko #394
    return vlans


def collapse_vlans(vlans: Iterable[int]) -> str:
    """Write VLANs as `10,111-112`."""
    runs: list[list[int]] = []
    for vlan in sorted(vlans):
        if runs and runs[-1][-1] == vlan - 1:
            runs[-1].append(vlan)
        else:
            runs.append([vlan])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def collapse_ports(ports: Iterable[str], order: list[str]) -> str:
    """Write ports as `1/1-1/3,1/7`, in the switch's order."""
    runs: list[list[str]] = []
    for port in sorted(ports, key=order.index):
        if runs and order.index(runs[-1][-1]) == order.index(port) - 1:
            runs[-1].append(port)
        else:
            runs.append([port])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
