"""How the command line of a switch is talked to: what a session must know, and no more.

It is apart from `switch_session.py`, so that who describes a system loads no SSH client.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionProfile:
    """The command line of one switch system."""

    prompt: str
    """A pattern of the prompt, at the end of what was read, escapes taken away."""
    prepare: tuple[str, ...]
    """Lines that are sent right after login, such as the one that turns the pager off."""
    keyboard_first: bool = False
    """The login is keyboard-interactive, and a plain password only where that is not offered."""
    enables: bool = False
    """A login may begin without rights, at a prompt with `>`, and `enable` gives them."""
    has_status: bool = False
    """Commands have an exit status that means something."""
    https: bool = False
    """There is no command line: a command is a request, `GET /path` or `POST /path {…}`."""

    def line_of(self, command: str) -> str:
        """What is typed for a command; a shell prints its exit status after it."""
        return f'{command}; echo "[status $?]"' if self.has_status else command

    @property
    def end(self) -> str:
        """A pattern of the end of an answer.

        A prompt that was late is no answer: where there is a status, it comes before the one that
        is.
        """
        return rf"\[status \d+\][^\0]*?{self.prompt}" if self.has_status else self.prompt
