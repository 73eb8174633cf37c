"""How the command line of a switch is talked to: what a session must know, and no more.

It is apart from `switch_session.py`, so that who describes a system loads no SSH client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

LONGEST_PROMPT: Final = 512
"""Characters of one line that may be a prompt; EOS allows host names of 255 (RFC 1123)."""
_LINES: Final = re.compile(r"[\r\n]+")
_CHANGES: Final = re.compile(r"(?<![A-Za-z\d])(?<![A-Za-z][-_])\d+")
"""Numbers of a prompt that may be a time, a date or a count; that of `leaf-01` or `sw3` is none."""


@dataclass(frozen=True, slots=True)
class SessionProfile:
    """The command line of one switch system."""

    prompt: str
    """A pattern of a whole prompt, escapes taken away. Its group `own` is what one switch keeps in
    every mode, such as its host name; without it no prompt is learned."""
    prepare: tuple[str, ...]
    """Lines that are sent right after login, such as the one that turns the pager off. The prompt
    is learned from the answer to the first one."""
    enables: bool = False
    """A login may begin without rights, at a prompt with `>`, and `enable` gives them."""
    has_status: bool = False
    """Commands have an exit status that means something."""
    https: bool = False
    """There is no command line: a command is a request, `GET /path` or `POST /path {…}`."""

    def line_of(self, command: str) -> str:
        """What is typed for a command; a shell prints its exit status after it."""
        return f'{command}; echo "[status $?]"' if self.has_status else command


@dataclass(frozen=True)
class Prompt:
    """The prompt of one switch: first the form that its system has, then the one it printed."""

    form: str
    own: str | None = None
    """A pattern of group `own` of the form, once it is learned. A prompt may show the time or count
    its commands."""

    @cached_property
    def _form(self) -> re.Pattern[str]:
        return re.compile(self.form)

    def find(self, text: str) -> str | None:
        """The prompt at the end of a text, or None.

        An answer without a line break at its end stands before it on the same line (Onyx).
        """
        line = last_line(text)[-LONGEST_PROMPT:]
        found = self._form.fullmatch(line) if line else None
        if found is None or self.own is None:
            return found and line
        own = re.search(rf"(?:{self.own})\Z", found["own"])
        return line[found.start("own") + own.start() :] if own else None

    def learn(self, text: str) -> Self | None:
        """The prompt that a switch printed before the first command and again after it, or None.

        A line of a banner may have the form of a prompt, but no echo of the command stands behind
        it, and it does not come again.
        """
        found = self._form.fullmatch(last_line(text)[-LONGEST_PROMPT:])
        if found is None or not self._form.groupindex:
            return self if found else None
        own = r"\d+".join(map(re.escape, _CHANGES.split(found["own"])))
        before = (self._form.match(each[:LONGEST_PROMPT]) for each in _LINES.split(text)[:-1])
        again = any(each and re.fullmatch(own, each["own"]) for each in before)
        return replace(self, own=own) if again else None


def last_line(text: str) -> str:
    """What stands after the last line break; a carriage return begins a line again."""
    return text[max(text.rfind("\n"), text.rfind("\r")) + 1 :]
