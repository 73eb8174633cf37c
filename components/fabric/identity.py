"""Which switch it is, by its own answers: model, release, and the rights of a login."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, ValidationError

from components.core.errors import DeviceError

MARKS: Final = "/var/lib/railyard"
"""Folder on a Linux switch, as on hosts; in it is one for the stack that manages the switch."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The answers of a switch; empty if it gave no answer that we can read."""

    release: str = ""
    model: str = ""
    rights: str = ""
    """The switch's answer about this login if its rights do not suffice; empty if they do."""
    serial: str = ""
    """Serial number of the chassis, which differs between switches of one model."""
    base_mac: str = ""
    """Its first MAC address, as the switch writes it; only shown."""
    stacks: tuple[str, ...] = ()
    """The stacks that manage it, as it says itself; never recorded."""


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
    serial: Field | None = None
    base_mac: Field | None = None
    rights: Field | None = None
    """The rights of the login; None: `tries`, or the driver's `enter` with sudo, proves them."""
    may: str = ""
    """Pattern of `rights` that is enough."""
    tries: tuple[str, str] | None = None
    """A line that opens the configuration, refused to read-only logins, and one that leaves it."""
    marks: bool = False
    """Whether it is a Linux machine, where `MARKS` says which stack manages it."""

    @property
    def commands(self) -> tuple[str, ...]:
        """What to ask, each once."""
        return (*_commands(self.release, *self.model, self.rights), *self.unique)

    @property
    def unique(self) -> tuple[str, ...]:
        """What to ask for serial number, base MAC and stack; empty if no form is published."""
        marks = (f"ls -1 {MARKS}",) if self.marks else ()
        return (*_commands(self.serial, self.base_mac), *marks)

    def parse_unique(self, answers: Mapping[str, str]) -> Identity:
        """Read the answers to `unique`."""
        serial, mac = (each.find(answers) if each else "" for each in (self.serial, self.base_mac))
        found = answers[f"ls -1 {MARKS}"] if self.marks else ""
        stacks = re.findall(r"^[\w.-]+(?=\s*$)", found, re.MULTILINE)
        return Identity(serial=serial, base_mac=mac, stacks=tuple(stacks))

    def parse(self, answers: Mapping[str, str]) -> Identity:
        """Read the answers."""
        rights = self.rights.find(answers) if self.rights else ""
        enough = self.rights is None or re.search(self.may, rights) is not None
        return replace(
            self.parse_unique(answers),
            release=self.release.find(answers),
            model=next(filter(None, (each.find(answers) for each in self.model)), ""),
            rights="" if enough else rights or "no answer",
        )


def _commands(*fields: Field | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.command for field in fields if field is not None))


def refuse_other(where: str, now: Identity | None, was: Identity | None, serial: str) -> None:
    """Refuse another switch, by its serial number; the one in the file wins over the recorded one.

    Raises:
        DeviceError: It has another serial number.
    """
    wanted, source = (serial, "the file says") if serial else (was.serial if was else "", "it was")
    if now is None or not now.serial or not wanted or now.serial == wanted:
        return
    raise DeviceError(
        f"{where}: this is another switch: its serial number is {now.serial}, and {source}"
        f" {wanted}. Nothing was changed.\n"
        f"  fix    correct its `ssh`; or, if it was replaced, write `serial: {now.serial}` for it:"
        " docs/howto/rename-and-replace.md"
    )


def refuse_other_stack(where: str, now: Identity | None, stack: str) -> None:
    """End a step before its first write if another stack manages the switch.

    Raises:
        DeviceError: The switch has the mark of another stack; the text names it.
    """
    for other in now.stacks if now and stack else ():
        if other != stack:
            raise DeviceError(f"{where}: {other_stack_text(stack, other)}")


def other_stack_text(stack: str, other: str) -> str:
    """What happened and how to go on if a switch has the mark of another stack."""
    return (
        f"the stack {other} manages this switch, and this is the stack {stack}: destroying either "
        "stack would remove the settings of the other. Nothing was changed.\n"
        f"  fix    keep the switch in one file; if {other} is gone for good, run `sudo rmdir "
        f"{MARKS}/{other}` on the switch"
    )


class _Record(BaseModel):
    identity: Identity | None = None


def recorded_identity(stdout: str) -> Identity | None:
    """The identity that an apply, restore or baseline recorded; None if it recorded none."""
    try:
        found = _Record.model_validate_json(stdout).identity
    except ValidationError:
        return None
    return found and Identity(serial=found.serial, base_mac=found.base_mac)
