"""How an exchange sends its changes, their outcome, and the evidence. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, Self

from pydantic import ValidationError

from components.core.difference import ABSENT, Difference
from components.core.errors import DeviceError, UnreachableError
from components.core.plain_text import one_line
from components.core.record import record
from components.core.templates import fault_text, reader_of
from components.fabric.effects import describe_changes, group_settings
from components.fabric.parts import Identity, fold_ports
from components.fabric.state import SwitchState
from components.fabric.systems import base
from components.fabric.systems.ranges import collapse_vlans

Stage = Literal["none", "open", "forced"]
"""`open`: lines are held back; `forced`: they are in force, but not confirmed; `none`: neither."""
EXAMPLE_ID: Final = "<revision>"
"""A plan shows this to people if the switch itself names the candidate."""
_NUMBERED: Final = re.compile(r"(.*vlan_|dscp_)(\d+)(.*)")
"""Settings that a port may have for thousands of VLANs or 64 DSCPs."""
_BESIDE: Final = "ports beside the file's"
_MOST_LINES: Final = 20
"""Lines of a text that a message shows: a whole configuration may have thousands."""
_WIDEST: Final = 200


class Packed(str):
    """A command that carries several lines; people see the lines instead."""

    __slots__ = ("lines",)
    lines: tuple[str, ...]

    def __new__(cls, command: str, lines: Sequence[str] = ()) -> Self:
        """A command, and the lines that the candidate holds once the command was taken."""
        packed = super().__new__(cls, command)
        packed.lines = tuple(lines)
        return packed


def shown(command: str) -> tuple[str, ...]:
    """The lines of a command, for people."""
    return command.lines if isinstance(command, Packed) else (command,)


@dataclass(slots=True)
class Candidate:
    """One exchange's candidates: a new one each time that changes are sent."""

    guard: base.Guard | None
    serial: int
    """Makes the names unique: a switch remembers those that were committed."""
    count: int = 0
    stage: Stage = "none"
    has_timer: bool = True
    """False: this release lacks a timer, and a change in force stays."""
    given: str | None = None
    """The switch's name for it; empty: it did not say. None: our name."""

    saves_itself: bool = False
    """The switch saves each applied change without a further line."""

    @property
    def kept(self) -> str:
        """Whether the sent lines survive a reboot, in words."""
        if not self.saves_itself or self.count == 0 or self.stage == "open":
            return "not saved"
        if self.stage == "forced":
            return "the switch saves automatically (whether before it is confirmed is unproven)"
        return "saved by the switch itself"

    @property
    def name(self) -> str:
        """The name of the current candidate."""
        more = f"-{self.count}" if self.count > 1 else ""
        return f"{base.CANDIDATE_PREFIX}{self.serial}{more}"

    def steps(self, changes: Iterable[base.Change]) -> Iterator[tuple[str, Stage]]:
        """Every line to send, and the stage that it leads to when it was taken."""
        lines = base.flatten(changes)
        if self.guard is None:
            for line in lines:
                yield line, "none"
            return
        self.count += 1
        self.given = None
        opened = (self.named(self.guard.open),) if self.guard.open else ()
        *before, last = self.guard.force if self.has_timer else self.guard.plain
        for line in (*opened, *self.guard.pack(lines), *map(self.named, before)):
            yield line, "open"
        yield self.named(last), "forced" if self.has_timer else "none"

    def confirm(self) -> tuple[str, ...]:
        """The lines that keep the changes in force."""
        return (self.named(self.guard.confirm),) if self.guard and self.stage == "forced" else ()

    def back_out(self) -> tuple[str, ...]:
        """The lines that take all changes back at once."""
        if self.guard is None or self.stage == "none":
            return ()
        line = self.guard.abandon if self.stage == "open" else self.guard.revert
        return (self.named(line),)

    def named(self, line: str) -> str:
        """A line of the guard with the name of the current candidate."""
        given = self.name if self.given is None else self.given
        # Without the switch's own name, the line names no candidate.
        return line.format(name=self.name, id=given).replace("  ", " ")


def guarded(guard: base.Guard | None, lines: Iterable[str]) -> tuple[str, ...]:
    """Lines as one confirmed candidate, for people."""
    plain = tuple(lines)
    if guard is None or not plain:
        return plain
    named = Candidate(guard, serial=1, count=1, given=EXAMPLE_ID if guard.find_id else None).named
    opened = (named(guard.open),) if guard.open else ()
    return (*opened, *plain, *map(named, guard.force), named(guard.confirm))


def describe_moves(
    before: SwitchState, after: SwitchState, ports: AbstractSet[str]
) -> tuple[set[tuple[str, str]], tuple[str, ...]]:
    """The settings that moved, and a line for each; one for all VLANs or DSCPs that moved alike.

    A trunk with every VLAN would otherwise give 4,093 lines, and the engine passes the evidence in
    one environment variable, of at most 128 KiB. Moves of a one-shot on ports outside `ports`,
    those of the file, are one line too.
    """
    was, now = before.settings(), after.settings()
    moved = {key for key in {*was, *now} if was.get(key, "") != now.get(key, "")}
    whole = before.roce != after.roce
    alike: dict[tuple[str, str, str, str], list[int]] = {}
    for key in sorted(moved):
        where, setting = key
        if whole and where.startswith("port ") and where.removeprefix("port ") not in ports:
            where = _BESIDE
        found = _NUMBERED.fullmatch(setting)
        head, number, tail = found.groups() if found else (setting, "", "")
        move = f"{was.get(key, 'absent')} -> {now.get(key, 'absent')}"
        alike.setdefault((where, head, tail, move), []).extend([int(number)] if found else [])
    return moved, tuple(
        f"{head}{collapse_vlans({*numbers}) if numbers else ''}{tail} of {where}: {move}"
        for (where, head, tail, move), numbers in alike.items()
    )


@record
class Outcome:
    """The result of an exchange."""

    before: SwitchState
    after: SwitchState
    lines: tuple[str, ...]
    interrupts: tuple[str, ...]
    """Its interruptions, one text for each place."""


class InterruptedRunError(DeviceError):
    """A signal ended a step; the text describes the switch now."""

    exit_code = 130
    """128 + SIGINT, as a shell reports it."""


class RefusedError(Exception):
    """The switch refused a line."""

    def __init__(self, line: str, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class StoppedError(Exception):
    """A change would interrupt traffic against the policy, or the last round left changes."""


def lost_text(
    error: UnreachableError | str,
    taken: Sequence[str],
    candidate: Candidate,
    how: str = "the session was lost",
) -> str:
    """Describe a session that ended in the middle: its lines, and their fate."""
    lines = "\n          ".join(taken) or "none"
    guard = candidate.guard
    end = "the next run continues from the current state"
    if guard is not None and candidate.stage != "none":
        end = f"the switch itself restores the previous configuration within {guard.rollback_s} s"
    words = {"error": error, "candidate": candidate, "how": how, "end": end, "lines": lines}
    return fault_text(__file__, "lost", **words)


def values_text(before: SwitchState, target: SwitchState, after: SwitchState | None) -> str:
    """Each setting to change, or changed: the old value, the wanted one, and the present one."""
    was, wanted = before.settings(), target.settings()
    now = after.settings() if after else {}
    words: dict[tuple[str, str], str] = {}
    for key in sorted({*was, *wanted}):
        old, end = was.get(key, ABSENT), now.get(key, ABSENT) if after else "not known"
        if wanted.get(key, old) != old or (after and end != old):
            words[key] = f"was {old}, should be {wanted.get(key, old)}, is {end}"
    return "\n".join(f"    {line}" for line in group_settings(words, {}))


def why_stopped(error: Exception) -> str:
    """Why an exchange puts its changes back."""
    if isinstance(error, RefusedError):
        first, *rest = error.line.split("\n")
        lines = "\n          ".join((first, *_first_lines(rest)))
        return f"refused a line\n  line    {lines}\n  switch  {error.text}"
    if isinstance(error, base.Unsettable):
        return f"has a setting that Railyard cannot change\n  why     {error}"
    if isinstance(error, DeviceError):
        return f"could not be read again after the change\n  why     {error}"
    return str(error)


def _first_lines(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _MOST_LINES
    return (*lines[:_MOST_LINES], *([f"and {more:,} more lines"] if more > 0 else []))


def refuse_interruptions(where: str, changes: Sequence[Difference], taken: Sequence[str]) -> None:
    """Refuse interruptions that the file denies: StoppedError if lines were sent already."""
    found = "; ".join(describe_changes(changes))
    if found and taken:
        raise StoppedError(f"would now interrupt traffic, which disruption.ports denies: {found}")
    if found:
        raise DeviceError(fault_text(__file__, "interrupts", where=where, found=found))


def unreadable_error(where: str, error: base.Unreadable) -> DeviceError:
    """An answer that cannot be read, with its first lines as a terminal may show them."""
    lines = [f"{one_line(x[:_WIDEST])}{'…' * (len(x) > _WIDEST)}" for x in error.text.splitlines()]
    text = "\n    ".join(_first_lines(lines) or ["(empty)"])
    return DeviceError(fault_text(__file__, "unreadable", where=where, error=error, lines=text))


@record
class SwitchEvidence:
    """The result of an apply or a restore, printed on stdout."""

    device: str
    changed: tuple[str, ...]
    unchanged: int
    interrupted: tuple[str, ...]
    saved: bool
    desired: SwitchState
    """The settings owned since this run; the next run restores those it no longer wants."""
    identity: Identity | None = None
    """Which switch it was; None if its system's answer is not published."""
    drained: tuple[str, ...] = ()
    """The nodes that left service for this change and are back."""
    shifted: str = ""
    """How traffic left the switch for this change; it is back. Empty: none was sent away."""


def previous_of(text: str) -> SwitchState | None:
    """The settings that the last run owned, from its evidence; None without evidence."""
    try:
        return reader_of(SwitchEvidence).validate_json(text).desired
    except ValidationError:
        return None


def dump_evidence(evidence: SwitchEvidence) -> str:
    """The evidence as indented JSON."""
    document = reader_of(SwitchEvidence).dump_python(evidence, mode="json", exclude_defaults=True)
    document["desired"] = fold_ports(document["desired"])
    return json.dumps(document, indent=1) + "\n"
