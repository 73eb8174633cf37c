"""The candidate configuration of one exchange, where the system has one: pure.

It knows in which stage the changes are, and so which line takes them back: before they are in
force, after it, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from components.fabric.state import SwitchState
from components.fabric.systems.base import CANDIDATE_PREFIX, Change, Guard

Stage = Literal["none", "open", "forced"]
"""Nothing is held back; lines are held back; they are in force and not confirmed."""
EXAMPLE: Final = f"{CANDIDATE_PREFIX}1"
"""The name that a plan shows to people."""
EXAMPLE_ID: Final = "<revision>"
"""What a plan shows to people where the switch itself names the candidate."""


class Packed(str):
    """A command that carries several lines; people see those in its place."""

    __slots__ = ("lines",)
    lines: tuple[str, ...]

    def __new__(cls, command: str, lines: Sequence[str] = ()) -> Self:
        """A command, and the lines that are in the candidate once it was taken."""
        packed = super().__new__(cls, command)
        packed.lines = tuple(lines)
        return packed


def shown(command: str) -> tuple[str, ...]:
    """The lines of a command, for people."""
    return command.lines if isinstance(command, Packed) else (command,)


@dataclass(slots=True)
class Candidate:
    """One exchange's candidates: a new one each time that changes are sent."""

    guard: Guard | None
    serial: int
    """Makes the names unique: a switch remembers those that were committed."""
    count: int = 0
    stage: Stage = "none"
    has_timer: bool = True
    """False: this release has none, and what is in force stays."""
    given: str | None = None
    """What the switch calls it; empty: it did not say. None: our name."""

    saves_itself: bool = False
    """The switch saves what it applies, without a line that says so."""

    def look_at(self, state: SwitchState) -> None:
        """Learn from what was read how this switch keeps changes."""
        self.saves_itself = self.guard is not None and self.guard.saves_itself(state)

    @property
    def kept(self) -> str:
        """Whether the next boot has what was sent, in words."""
        if not self.saves_itself or self.count == 0 or self.stage == "open":
            return "not saved"
        if self.stage == "forced":
            return "the switch saves by itself (whether before it is confirmed is unproven)"
        return "saved by the switch itself"

    @property
    def name(self) -> str:
        """Of the current candidate."""
        more = f"-{self.count}" if self.count > 1 else ""
        return f"{CANDIDATE_PREFIX}{self.serial}{more}"

    def steps(self, changes: Iterable[Change]) -> Iterator[tuple[str, Stage]]:
        """Every line to send, and the stage that it leads to when it was taken."""
        lines = tuple(line for change in changes for line in change.lines)
        if self.guard is None:
            for line in lines:
                yield line, "none"
            return
        self.count += 1
        self.given = None
        opened = (self._named(self.guard.open),) if self.guard.open else ()
        *before, last = self.guard.force if self.has_timer else self.guard.plain
        for line in (*opened, *self.guard.pack(lines), *map(self._named, before)):
            yield line, "open"
        yield self._named(last), "forced" if self.has_timer else "none"

    def confirm(self) -> tuple[str, ...]:
        """What makes changes in force stay."""
        held = self.guard is not None and self.stage == "forced"
        return (self._named(self.guard.confirm),) if self.guard and held else ()

    def back_out(self) -> tuple[str, ...]:
        """What takes all changes back at once."""
        if self.guard is None or self.stage == "none":
            return ()
        line = self.guard.abandon if self.stage == "open" else self.guard.revert
        return (self._named(line),)

    def _named(self, line: str) -> str:
        given = self.name if self.given is None else self.given
        # Without what the switch calls it, the line is the one that names none.
        return line.format(name=self.name, id=given).replace("  ", " ")


def guarded(guard: Guard | None, lines: Iterable[str]) -> tuple[str, ...]:
    """Lines as one candidate that is confirmed, for people."""
    plain = tuple(lines)
    if guard is None or not plain:
        return plain
    shown = EXAMPLE_ID if guard.find_id else EXAMPLE
    opened = (guard.open,) if guard.open else ()
    around = (
        tuple(line.format(name=EXAMPLE, id=shown) for line in part)
        for part in (opened, guard.force, (guard.confirm,))
    )
    before, force, confirm = around
    return (*before, *plain, *force, *confirm)
