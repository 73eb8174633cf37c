"""What an exchange that failed says: what was taken, what comes of it, and the values. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from components.core.difference import ABSENT, Difference
from components.core.errors import DeviceError, UnreachableError
from components.fabric.candidate import Candidate
from components.fabric.effects import describe_changes
from components.fabric.setting_text import group_settings
from components.fabric.state import SwitchState
from components.fabric.systems.base import Unreadable, Unsettable


class InterruptedRunError(DeviceError):
    """A signal ended a step; the text says what is on the switch now."""

    exit_code = 130
    """128 + SIGINT, as a shell reports it."""


class RefusedError(Exception):
    """The switch refused a line."""

    def __init__(self, line: str, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class StoppedError(Exception):
    """A change would interrupt traffic, and may not; or no round ended with nothing to change."""


def lost_text(
    error: UnreachableError | str,
    taken: Sequence[str],
    candidate: Candidate,
    how: str = "the session was lost",
) -> str:
    """What a session that ends in the middle leaves, and what comes of it."""
    lines = "\n          ".join(taken) or "none"
    guard = candidate.guard
    end = "the next run goes on from what is there"
    if guard is not None and candidate.stage != "none":
        end = f"the switch itself takes back what was in force within {guard.rollback_s} s"
    return (
        f"{error}\n  result  {how} while the switch was changed; not saved, and"
        f" {end}\n  taken   {lines}"
    )


def values_text(before: SwitchState, target: SwitchState, after: SwitchState | None) -> str:
    """What was to change, or has changed: the value of before, the wanted one, and that of now."""
    was, wanted = before.settings(), target.settings()
    now = after.settings() if after else {}
    words: dict[tuple[str, str], str] = {}
    for key in sorted({*was, *wanted}):
        old, end = was.get(key, ABSENT), now.get(key, ABSENT) if after else "not known"
        if wanted.get(key, old) != old or (after and end != old):
            words[key] = f"was {old}, shall be {wanted.get(key, old)}, is {end}"
    return "\n".join(f"    {line}" for line in group_settings(words, {}))


def why_stopped(error: Exception) -> str:
    """Why an exchange puts back what it did."""
    if isinstance(error, RefusedError):
        return f"refused a line\n  line    {error.line}\n  switch  {error.text}"
    if isinstance(error, Unsettable):
        return f"has a setting that no line of ours can change\n  why     {error}"
    if isinstance(error, DeviceError):
        return f"could not be looked at again after it was changed\n  why     {error}"
    return str(error)


def refuse_interruptions(where: str, changes: Sequence[Difference], taken: Sequence[str]) -> None:
    """Refuse changes that interrupt traffic, for a file that denies it.

    Args:
        where: The device and its address.
        changes: What interrupts.
        taken: Lines that were sent already: a change may have moved other settings too.

    Raises:
        StoppedError: Some lines were sent, so the previous values have to go back.
        DeviceError: Nothing was sent.
    """
    found = "; ".join(describe_changes(changes))
    if found and taken:
        raise StoppedError(f"would now interrupt traffic, which disruption.ports denies: {found}")
    if found:
        raise DeviceError(
            f"{where}: this update would interrupt traffic: {found}. Nothing was changed.\n"
            "  where  disruption.ports = deny\n"
            "  fix    plan a window and write disruption.ports: allow, or take the change back"
        )


def unreadable_error(where: str, error: Unreadable) -> DeviceError:
    """An answer that cannot be read, with its whole text."""
    return DeviceError(
        f"{where}: cannot read the answer to `{error.command}`: {error.why}\n  answer\n{error.text}"
    )
