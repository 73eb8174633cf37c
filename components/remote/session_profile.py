"""Describe the command line of a switch for a session.

It is separate from `switch_session.py`, so a description of a system does not load an SSH client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

from components.core.record import record

LONGEST_PROMPT: Final = 512
"""Most characters of a prompt's line; EOS allows host names of 255 (RFC 1123)."""
_LINES: Final = re.compile(r"[\r\n]+")
_CHANGES: Final = re.compile(r"(?<![A-Za-z\d])(?<![A-Za-z][-_])\d+")
"""Matches numbers that may be a time, a date or a count, but not those of `leaf-01` or `sw3`."""


@record
class SessionProfile:
    """The command line of one switch system."""

    prompt: str
    """A pattern of a whole prompt, without escapes. Its group `own` matches the part that a switch
    keeps in every mode, such as its host name; without this group no prompt is learned."""
    prepare: tuple[str, ...]
    """Lines to send right after login, such as the one that turns the pager off. The prompt is
    learned from the answer to the first one."""
    enables: bool = False
    """A login may start without rights, at a prompt with `>`, and `enable` gives them."""
    has_status: bool = False
    """Commands have a meaningful exit status."""
    https: bool = False
    """The device has an API: a command is a request, `GET /path` or `POST /path {…}`."""

    def line_of(self, command: str) -> str:
        """Return the line to type for a command; a shell prints its exit status too."""
        return f'{command}; echo "[status $?]"' if self.has_status else command


@dataclass(frozen=True)
class Prompt:
    """The prompt of one switch: first its system's form, later the learned one."""

    form: str
    own: str | None = None
    """The learned pattern of the group `own`; a prompt may show the time or count its commands."""

    @cached_property
    def _form(self) -> re.Pattern[str]:
        return re.compile(self.form)

    def find(self, text: str) -> str | None:
        """Return the prompt at the end of a text, or None; on Onyx it may follow an answer."""
        line = last_line(text)[-LONGEST_PROMPT:]
        found = self._form.fullmatch(line) if line else None
        if found is None or self.own is None:
            return found and line
        own = re.search(rf"(?:{self.own})\Z", found["own"])
        return line[found.start("own") + own.start() :] if own else None

    def learn(self, text: str) -> Self | None:
        """Return the prompt that was printed before and after the first command, or None.

        A banner's line may look like a prompt, but appears only once.
        """
        found = self._form.fullmatch(last_line(text)[-LONGEST_PROMPT:])
        if found is None or not self._form.groupindex:
            return self if found else None
        own = r"\d+".join(map(re.escape, _CHANGES.split(found["own"])))
        before = (self._form.match(each[:LONGEST_PROMPT]) for each in _LINES.split(text)[:-1])
        again = any(each and re.fullmatch(own, each["own"]) for each in before)
        return replace(self, own=own) if again else None


def last_line(text: str) -> str:
    """Return the text after the last line break; a carriage return counts as one."""
    return text[max(text.rfind("\n"), text.rfind("\r")) + 1 :]
