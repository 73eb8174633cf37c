"""What a switch says that it is: its model, its release, and whether a login may configure it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """What was asked; empty where the switch gave no answer that is known here."""

    release: str = ""
    model: str = ""
    rights: str = ""
    """What the switch says of this login, where that is not enough; empty where it is enough."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value in the answer to one command."""

    command: str
    pattern: str
    """With one group: the value."""

    def find(self, answers: Mapping[str, str]) -> str:
        """The value, or nothing."""
        found = re.search(self.pattern, answers[self.command], re.MULTILINE)
        return found[1].strip() if found else ""


@dataclass(frozen=True, slots=True)
class IdentityQuestions:
    """How one system is asked. No line changes a setting."""

    release: Field
    model: tuple[Field, ...]
    """The first that finds something counts: releases have it in different places."""
    rights: Field | None = None
    """What the login is; None: `tries` proves it, or `enter` of the driver, which asks for sudo."""
    may: str = ""
    """Pattern of `rights` that is enough."""
    tries: tuple[str, str] | None = None
    """A line that opens the configuration, which a login that may only look is refused, and the
    line that leaves it as it was."""

    @property
    def commands(self) -> tuple[str, ...]:
        """What to ask, each once."""
        fields = (self.release, *self.model, self.rights)
        return tuple(dict.fromkeys(field.command for field in fields if field is not None))

    def parse(self, answers: Mapping[str, str]) -> Identity:
        """Read the answers."""
        rights = self.rights.find(answers) if self.rights else ""
        enough = self.rights is None or re.search(self.may, rights) is not None
        return Identity(
            release=self.release.find(answers),
            model=next(filter(None, (each.find(answers) for each in self.model)), ""),
            rights="" if enough else rights or "no answer",
        )
