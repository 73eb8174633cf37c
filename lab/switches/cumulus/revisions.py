"""NVUE's revisions: permanent and temporary applies, and how they are reverted.

Sources: lab/sources.md#cumulus. The reference and public clients name the options and the states,
and show that a timer rolls back. Printed texts are guesses if they are marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from lab.switches.cumulus.config import Stored, Tree, Unconfirmed
from lab.switches.cumulus.conflicts import find_conflict
from lab.switches.cumulus.values import NvueError
from lab.switches.front import Front

DEFAULT_CONFIRM_S: Final = 600
"""Ten minutes (NVUE reference)."""
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "": 60}
"""A number alone is minutes: `--confirm 60` is one hour (NVUE reference)."""
_TIME: Final = re.compile(r"(\d+)([smh]?)")
_HISTORY: Final = 50
"""Revisions in the list; NVUE's own number is not public."""


@dataclass(slots=True)
class Apply:
    """The options of one `nv config apply`."""

    revision: str | None = None
    yes: bool = False
    confirm_s: int | None = None
    answer: str | None = None
    """`--confirm-yes`, `--confirm-no` or `--confirm-status`."""
    message: str = ""


def parse_apply(words: Sequence[str]) -> Apply:
    """The options after `nv config apply`; an NvueError for an unknown one (a guess)."""
    found, rest = Apply(), [*words]
    while rest:
        word = rest.pop(0)
        if word in {"-y", "--y", "--assume-yes"}:
            found.yes = True
        elif word in {"--confirm-yes", "--confirm-no", "--confirm-status"}:
            found.answer = word.removeprefix("--confirm-")
        elif word == "--confirm":  # its time may be missing
            time = _TIME.fullmatch(rest[0]) if rest else None
            found.confirm_s = int(time[1]) * _UNIT_S[time[2]] if time else DEFAULT_CONFIRM_S
            rest = rest[1:] if time else rest
        elif word == "-m" and rest:
            found.message = rest.pop(0)
        elif word.isdigit() and found.revision is None:
            found.revision = word
        else:
            raise NvueError(f"Error: Invalid parameter\n  '{word}' is no option of apply")
    return found


class Revisions:
    """The revisions of one switch."""

    def __init__(
        self,
        stored: Stored,
        clock: Callable[[], float],
        front: Front,
        refused_by_frr: Callable[[Tree], str | None] = lambda _: None,
        auto_save: Callable[[], bool] = lambda: False,
    ) -> None:
        """Revert an unconfirmed apply of an earlier lab run, whose timer is gone.

        Args:
            stored: The state of the switch.
            clock: In seconds.
            front: Its front panel.
            refused_by_frr: Gives a tree to the routing daemons; returns their refusal.
            auto_save: Saves the applied tree, if the release and the configuration want it;
                returns whether it did.
        """
        self._stored = stored
        self._front = front
        self._refused_by_frr = refused_by_frr
        self._auto_save = auto_save
        self._clock = clock
        self._expires_at_s = 0.0
        self._take_back()

    def tick(self) -> None:
        """Revert an apply that was not confirmed in time."""
        if self._stored.unconfirmed is not None and self._clock() >= self._expires_at_s:
            self._take_back()

    def expire(self) -> bool:
        """End the timer now; returns whether one was running."""
        waited = self._stored.unconfirmed is not None
        self._take_back()
        return waited

    def run(self, options: Apply) -> str:
        """`nv config apply …`; an NvueError for an invalid one, or an answer without a question."""
        if options.answer is not None:
            return self._answer(options)
        if self._stored.unconfirmed is not None:
            waiting = self._stored.unconfirmed.revision
            # No source says what NVUE does with an apply while another one waits: a guess.
            raise NvueError(f"Error: revision {waiting} is waiting for confirmation")
        return self._apply(options)

    def _apply(self, options: Apply) -> str:
        stored = self._stored
        if stored.pending is None:
            return ""
        if not options.yes:
            raise NvueError("Are you sure? [y/N] N\nError: aborted")  # a session cannot answer
        stored.revision += 1
        conflict = find_conflict(stored.pending, self._front)
        if conflict is not None:
            raise NvueError(f"Invalid config [rev_id: {stored.revision}]\n  {conflict}")
        refusal = self._refused_by_frr(stored.pending)
        if refusal is not None:  # FRR's own words; what NVUE puts before them is a guess
            raise NvueError(f"Failure during apply [rev_id: {stored.revision}]\n  {refusal}")
        number, before = str(stored.revision), stored.applied
        stored.applied, stored.pending = stored.pending, None
        if options.confirm_s is None:
            return self._finish(number, options.message)
        stored.unconfirmed = Unconfirmed(revision=number, before=before)
        self._expires_at_s = self._clock() + options.confirm_s
        self._note(number, "confirm", options.message)
        return f"applied [rev_id: {number}]"

    def _finish(self, number: str, message: str) -> str:
        """Make the apply permanent; `applied_and_saved [rev_id: 2]` is public, also as a state."""
        state = "applied_and_saved" if self._auto_save() else "applied"
        self._note(number, state, message)
        return f"{state} [rev_id: {number}]"

    def _answer(self, options: Apply) -> str:
        waiting = self._stored.unconfirmed
        if options.answer == "status":
            left_s = max(0, int(self._expires_at_s - self._clock()))
            return f"{left_s} s" if waiting else "No pending confirm"  # both are guesses
        if waiting is None or options.revision not in {None, waiting.revision}:
            state = "applied" if waiting is None else "confirm"
            raise NvueError(f"Error: Unknown state: '{state}'")  # public; the state is a guess
        if options.answer == "no":
            self._take_back()
            return "rolled back"  # a guess
        self._stored.unconfirmed = None
        # It saves only now, after the confirmation: a guess (WHY.md, Cumulus).
        return self._finish(waiting.revision, self._stored.history[waiting.revision][1])

    def show(self) -> dict[str, JsonValue]:
        """`nv config revision -o json`; the key `message` is a guess."""
        return {
            number: {"state": state, "message": message}
            for number, (state, message) in self._stored.history.items()
        }

    def _take_back(self) -> None:
        waiting = self._stored.unconfirmed
        if waiting is None:
            return
        self._stored.applied, self._stored.unconfirmed = waiting.before, None
        self._note(waiting.revision, "confirm_fail", self._stored.history[waiting.revision][1])

    def _note(self, number: str, state: str, message: str) -> None:
        history = {**self._stored.history, number: (state, message)}
        self._stored.history = dict([*history.items()][-_HISTORY:])
