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
    has_status: bool = False
    """Commands have an exit status that means something."""
