"""The values of drivers of switch systems: text in, plain values out, without I/O.

A driver opens no connection. It says which commands to send, reads what came back, and renders
the way from one state to another. `components/fabric/exchange.py` does the talking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.core.record import record
from components.fabric.parts import LATER
from components.fabric.state import OtherPorts, SwitchState

FoundT = TypeVar("FoundT")
CANDIDATE_PREFIX: Final = "railyard-"
"""Prefix of our candidates' names, by which we find those of a killed run."""
CounterWay = Literal["rx", "tx", "marked", "discards", "errors", "pauses", "storms"]
ValueT = TypeVar("ValueT")
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue, config=LATER)
_TEXT: Final = TypeAdapter(str, config=LATER)


class Script(str):
    """Shell text beyond plain words, made only from our own patterns."""

    __slots__ = ()


class Change(NamedTuple):
    """One step of the way: lines that belong together."""

    lines: tuple[str, ...]
    settles: bool = False
    """The change moves other settings too: read again before planning the rest."""


def flatten(changes: Iterable[Change]) -> tuple[str, ...]:
    """The lines of some changes, in order."""
    return tuple(line for change in changes for line in change.lines)


def refusals(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    """Finds errors that are lines of text: the first group. There is no exit status."""
    return lambda output: (found := pattern.search(output)) and found[1].strip()


@record
class Reading:
    """One reading of a switch."""

    state: SwitchState
    vlan_holders: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """VLAN to the ports whose settings mention it, without the requested ports."""
    others: OtherPorts = field(default_factory=OtherPorts)
    """The same ports by the VLANs that they carry now."""


@record
class PriorityCounters:
    """The counters of one port for one priority (received) and traffic class (sent)."""

    rx_bytes: int | None
    """None: the system does not count received bytes by priority, or they could not be read."""
    tx_bytes: int | None
    """None: they could not be read."""
    tx_drops: int | None = None
    """Packets that the full queue of this class threw away; None: not counted by class."""


@record
class PauseCounters:
    """The PFC frames of one port for one priority."""

    received: int
    """The neighbour stopped this port from sending."""
    sent: int
    """The port stopped its neighbour from sending."""


@record
class Unread:
    """Counters in an answer whose form the driver does not know."""

    way: CounterWay
    command: str
    text: str
    """The answer as it came."""
    why: str


@record
class PortCounters:
    """The counters of one port that tell in which class its traffic travels."""

    by_priority: Mapping[int, PriorityCounters]
    ecn_marked: int | None
    """Packets that the port marked, over all classes: the system counts no finer, or not at all."""
    rx_discards: int | None
    rx_bytes: int | None = None
    """Received in all priorities together, if the system counts no finer."""
    pauses: Mapping[int, PauseCounters] = field(default_factory=dict[int, PauseCounters])
    """By priority; one that the system does not count is not in it."""
    storms: Mapping[int, int] = field(default_factory=dict[int, int])
    """By traffic class: how often the PFC watchdog found its queue stuck, if that is counted."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """Frames that arrived broken, by the system's name of each kind, if they are counted."""
    unread: tuple[Unread, ...] = ()
    """The unreadable counters; the others are valid."""


class Unreadable(Exception):  # noqa: N818 - a finding about text; the exchange makes the error
    """An answer that the driver cannot read."""

    def __init__(self, command: str, text: str, why: str) -> None:
        super().__init__(why)
        self.command = command
        self.text = text
        self.why = why


@dataclass(slots=True)
class SoftReader:
    """Reads counters one by one: an answer in an unknown form does not spoil the others."""

    unread: list[Unread] = field(default_factory=list[Unread])

    def read(self, way: CounterWay, parse: Callable[[], FoundT]) -> FoundT | None:
        """The result of `parse`; None if it cannot read its answer."""
        try:
            return parse()
        except Unreadable as error:
            self.unread.append(Unread(way, error.command, error.text, error.why))
            return None

    @property
    def found(self) -> tuple[Unread, ...]:
        """One entry for each answer that could not be read."""
        return tuple({(each.way, each.text): each for each in self.unread}.values())


class Unsettable(Exception):  # noqa: N818 - a finding about a state; the exchange makes the error
    """A setting differs, and no line of the driver can set it."""


class Occupied(Exception):  # noqa: N818 - a finding about a switch; the exchange makes the error
    """Another user's unfinished change is on the switch, and our change would break it."""


class Guard(NamedTuple):
    """How a system takes changes as a candidate, and takes them back unless they are confirmed.

    In a line `{name}` is the name that we give the candidate, `{id}` the system's own name for it.
    """

    open: str | None
    """Begins a candidate: lines after it are held back. None: the first line begins one."""
    force: Sequence[str]
    """Puts the candidate into force, at its last line, for `rollback_s` seconds only."""
    confirm: str
    """Makes changes in force stay."""
    abandon: str
    """Forgets a candidate before it is in force."""
    revert: str
    """Takes back, at once, unconfirmed changes in force."""
    rollback_s: int
    """After this time the switch itself takes back an unconfirmed change, whoever is connected."""
    list_command: str
    find_stale: Callable[[str], tuple[str, ...]]
    """From that answer: candidates that our earlier runs left behind, as `{id}`; raises
    `Unreadable`, and `Occupied` if another user's change is in the way."""
    find_id: Callable[[str, str], str] | None = None
    """From the answer and our name: the system's name, or blank. None: the system uses ours."""
    plain: Sequence[str] = ()
    """Puts one into force for good, on releases that refuse `list_command` and lack a timer."""
    since: tuple[int, ...] = ()
    """First release with the timer; empty: any."""
    pack: Callable[[Sequence[str]], Iterable[str]] = tuple
    """The commands that carry the lines of a candidate."""
    saves_note: str = ""
    """The driver's note about a switch that saves each applied change; empty: none does."""


class Drain(NamedTuple):
    """How traffic leaves a switch with BGP sessions before it changes, and comes back after it.

    The lines are saved with the change, so the way back ends with a save.
    """

    title: str
    """For people: `EOS maintenance mode`."""
    away: Sequence[str]
    """Lines that send traffic away; `{on}` in a line is the word that switches something on."""
    back: Sequence[str]
    """Lines that bring it back and restore the configuration."""
    asks: str
    """Command that shows whether traffic is sent away; it changes nothing."""
    is_away: str
    """Pattern in that answer if the switch asks its neighbours to use other paths."""
    is_empty: str = ""
    """Pattern of the answer once no traffic is left either; empty: the system does not show it."""
    enabled_note: str = ""
    """The driver's note about a switch on which that word is `enabled`; elsewhere it is `on`."""


@record
class Question(Generic[FoundT]):
    """The commands of a question, and how to read the answers. No command changes a setting."""

    commands: tuple[str, ...]
    parse: Callable[[Mapping[str, str]], FoundT]
    """From command to answer; raises `Unreadable` if an answer has an unknown form."""


def ask_once(command: str, parse: Callable[[Answer], FoundT]) -> Question[FoundT]:
    """A question of one command; a `ValueError` of `parse` means that the answer is unreadable."""

    def read(answers: Mapping[str, str]) -> FoundT:
        try:
            return parse(Answer(command, answers[command]))
        except ValueError as error:
            raise Unreadable(command, answers[command], str(error)) from error

    return Question((command,), read)


class ByHand(NamedTuple):
    """How a person splits a port, if an undo by Railyard could not lead back exactly."""

    why: str
    lines: tuple[str, ...]
    """Lines to type; `{whole}` is the port, `{parts}` the number of parts."""


@record
class Answer:
    """The output of a command, and the port that it covers; empty: every port."""

    command: str
    text: str
    port: str = ""

    def unreadable(self, why: str) -> Unreadable:
        """The finding that this answer has another form."""
        return Unreadable(self.command, self.text, why)

    @contextmanager
    def reading(self, why: str = "") -> Generator[None]:
        """A `ValueError` raised in this block says why the answer cannot be read, if not `why`."""
        try:
            yield
        except ValueError as error:
            words = re.sub(r"^invalid literal for int\(\) .*: ", "no number, but ", str(error))
            raise self.unreadable(why or words) from error

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
    if isinstance(value, dict) and key in value:
        return value[key]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = (_below(part, key) for part in parts)
    return next((item for item in found if item is not None), None)
