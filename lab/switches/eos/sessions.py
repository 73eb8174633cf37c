"""Configuration sessions: candidates, commits with a timer, and what happens when it runs out.

Sources: docs/explanation/sources.md#eos. Texts marked as guesses follow what public tools look for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.switches.command_line import CliError
from lab.switches.eos.config import ConfigSession, Stored
from lab.switches.eos.lines import tidy

MAX_PENDING: Final = 5
"""`Maximum number of pending sessions: 5` (captures)."""
_TOO_MANY: Final = (
    "% Maximum number of pending sessions has been reached. "
    "Please commit or abort previous sessions before creating a new one."
)
"""Public tools look for `maximum number of pending sessions`; the rest is a guess."""


class ConfigSessions:
    """All configuration sessions of one switch; a reboot forgets them."""

    def __init__(self, stored: Stored, clock: Callable[[], float]) -> None:
        self._stored = stored
        self._clock = clock
        self.held: dict[str, ConfigSession] = {}

    def find_waiting(self) -> str | None:
        """The session that is in force and not confirmed."""
        waiting = (n for n, each in self.held.items() if each.state == "pendingCommitTimer")
        return next(waiting, None)

    def tick(self) -> None:
        """Take back what was not confirmed in time."""
        name = self.find_waiting()
        if name is not None and self._clock() >= self.held[name].expires_at_s:
            self._take_back(name)

    def expire(self) -> bool:
        """Let the timer run out now; whether there was one."""
        name = self.find_waiting()
        if name is not None:
            self._take_back(name)
        return name is not None

    def open(self, name: str, user: str) -> ConfigSession:
        """Enter a session, a new one or one that was left."""
        found = self.held.get(name)
        if found is None:
            pending = [each for each in self.held.values() if each.state == "pending"]
            if len(pending) >= MAX_PENDING:
                raise CliError(_TOO_MANY)
            candidate = self._stored.running.copied()
            found = self.held[name] = ConfigSession(candidate=candidate, user=user)
        elif found.state != "pending":
            raise CliError(f"% Cannot enter session {name}: {found.state}")  # words: a guess
        return found

    def commit(self, name: str, seconds: float | None) -> None:
        """Put a candidate into force, or confirm that it stays."""
        found = self._find(name)
        waiting = self.find_waiting()
        if waiting not in {None, name}:
            # The words between are a guess.
            raise CliError(f"% Cannot commit: another session {waiting} is pending commit timer")
        if found.state == "pending":
            tidy(found.candidate)
            found.checkpoint = self._stored.running
            # The whole configuration: what somebody changed since the session began is lost.
            self._stored.running = found.candidate.copied()
        elif found.state == "completed":
            raise CliError(f"% Session {name} is already completed")  # a guess
        if seconds is None:
            self._complete(name)
            return
        found.state, found.expires_at_s = "pendingCommitTimer", self._clock() + seconds
        self._stored.unconfirmed = found.checkpoint

    def abort(self, name: str) -> None:
        """Forget a candidate; one that is in force is taken back."""
        found = self._find(name)
        if found.state == "pendingCommitTimer":
            self._take_back(name)
        else:
            del self.held[name]

    def _find(self, name: str) -> ConfigSession:
        if name not in self.held:
            raise CliError(f"% Session {name} does not exist")  # a guess
        return self.held[name]

    def _complete(self, name: str) -> None:
        older = [n for n, each in self.held.items() if each.state == "completed"]
        for each in older:  # `Maximum number of completed sessions: 1`
            del self.held[each]
        self.held[name].state = "completed"
        self._stored.unconfirmed = None

    def _take_back(self, name: str) -> None:
        before = self.held.pop(name).checkpoint
        if before is not None:
            self._stored.running = before
        self._stored.unconfirmed = None
