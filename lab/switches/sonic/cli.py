"""One login: bash, the tools of sonic-utilities, and the output of one line.

Sources: lab/sources.md#sonic. The session does not use SSH itself.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lab.switches.plain_faults import PlainFaults
from lab.switches.shell import BUILTINS, NOT_FOUND, BashLogin, Output, grep, xargs
from lab.switches.sonic.commands import CONFIG, COUNTERPOLL, PFCWD, options_first
from lab.switches.sonic.config import RELOAD_LOCK, VERSION_FILE
from lab.switches.sonic.show import run_show
from lab.switches.sonic.tools import CommandError, run_cfggen, run_db_cli

_LOCK_S: Final = 5.0
_LOCK_LOOKS: Final = 100
_TIMES_S: Final = (
    (re.compile(r"config save"), 1.5),
    (re.compile(r"sonic-cfggen|sonic-db-dump"), 0.5),
    (re.compile(r"\b(config|show|pfcwd|counterpoll) "), 1.0),
    (re.compile(r"sonic-db-cli"), 0.05),
)
"""Seconds of a command: an SN2700, and reports on click (sonic-buildimage 20048, 22526, 26827).

The time of sonic-db-cli, a program in C++, is a guess.
"""
_OF_ROOT: Final = [["pfcwd", verb] for verb in ("start", "stop", "interval", "counter_poll")]
_CHANGES: Final = ("config", "counterpoll", "pfcwd", "sonic-db-cli", "sonic-cfggen")


def real_time_s(line: str) -> float:
    """Duration of a line's commands on a real switch."""
    parts = re.split(r"&&|\|\|", line)
    return sum(next((s for form, s in _TIMES_S if form.search(part)), 0.0) for part in parts)


@dataclass(slots=True)
class Faults(PlainFaults):
    """Faults that only SONiC has."""

    ignore: list[str] = field(default_factory=list[str])
    """A changing command that contains one of these is accepted, and does nothing."""
    sudo_password: bool = False
    """Whether sudo asks for a password."""


@dataclass(slots=True, eq=False)
class Session(BashLogin):
    """The state of one login."""

    user: str = "admin"
    opened: str = ""
    """The file behind descriptor 9."""

    @property
    def files(self) -> dict[str, str]:
        """The switch's files; they stay when the login ends."""
        return self.switch.stored.files

    def prompt(self) -> str:
        """The prompt of bash on SONiC, or the one that asks for the rest of a command."""
        if self.shell.pending:
            return "> "
        return f"{self.user}@{self.host}:~$ "

    def run_words(self, words: list[str], given: str = "") -> Output:
        """Run one simple command."""
        if words[0] == "grep":
            return grep(words[1:], given)
        if words[0] == "xargs":
            return xargs(words[1:], given, self.run_words)
        root = words[0] == "sudo"
        if root:
            words = [word for word in words[1:] if word != "-n"]
            if self.switch.faults.sudo_password or self.switch.faults.read_only:
                return "sudo: a password is required", 1
        builtin = _BUILTINS.get(words[0])
        if builtin is not None:
            return (given, 0) if words == ["cat"] else builtin(self, words[1:])
        try:
            return self._tool(words, given, root=root), 0
        except CommandError as error:
            return str(error), error.status

    def _tool(self, words: list[str], given: str, *, root: bool) -> str:
        changing = words[0] in _CHANGES and "--print-data" not in words
        line = " ".join([*(["sudo"] if root else []), *words, given]).rstrip()
        refusal = self.switch.refuse(line)
        if refusal is not None:
            raise CommandError(refusal, 2)
        if changing and any(text in line for text in self.switch.faults.ignore):
            return ""
        if words[0] in {"ls", "mkdir", "rmdir"}:
            printed, status = self.folders(words, root=root)
            if status:
                raise CommandError(printed, status)
        else:
            printed = self._dispatch(words, given, root=root)
        if changing:
            self.changes += 1
            self.switch.commit()
        return printed

    def _dispatch(self, words: list[str], given: str, *, root: bool) -> str:
        switch = self.switch
        tools: dict[str, Callable[[], str]] = {
            "config": lambda: CONFIG.run(switch, words),
            "sonic-cfggen": lambda: run_cfggen(switch.database, words[1:], given),
            "sonic-db-cli": lambda: run_db_cli(switch.database, words[1:]),
            "sonic-db-dump": lambda: self._dump(words[1:]),
            "counterpoll": lambda: COUNTERPOLL.run(switch, words),
            "pfcwd": lambda: PFCWD.run(switch, words, options_first(words)),
            "show": lambda: run_show(switch, words),
        }
        if words[0] not in tools:
            switch.note_unmodelled(" ".join(words))
            raise CommandError(f"-bash: {words[0]}: command not found", NOT_FOUND)
        if not root and (words[0] == "config" or words[:2] in _OF_ROOT):
            raise CommandError("Root privileges are required for this operation", 1)
        return tools[words[0]]()

    def _dump(self, words: list[str]) -> str:
        """`sonic-db-dump`, only for the table of ports in STATE_DB."""
        if words != ["-n", "STATE_DB", "-y", "-k", "PORT_TABLE|*"]:
            self.switch.note_unmodelled(" ".join(("sonic-db-dump", *words)))
            raise CommandError("sonic-db-dump: error: no such option", 2)
        found = {
            f"PORT_TABLE|{port}": {
                "expireat": 0,
                "ttl": -0.001,
                "type": "hash",
                "value": {
                    "supported_speeds": ",".join(self.switch.supported_speeds(port)),
                    "supported_fecs": ",".join(self.switch.supported_fecs(port)),
                },
            }
            for port in self.switch.database.db["PORT"]
        }
        return json.dumps(found, indent=2)

    def leave(self) -> Output:
        """End the shell, and release its lock."""
        self.switch.holders.discard(self)
        return BashLogin.leave(self)

    def take(self, words: list[str]) -> Output:
        """`exec 9<FILE`: open it, if it exists."""
        if words[:2] != ["9", "<"] or self.files.get(words[2]) is None:
            return _no_file("-bash", words[-1]), 1
        self.opened = words[2]
        return "", 0

    async def wait_for(self, line: str) -> None:
        """Wait for each command's time; `flock -w 5 9` also waits for a login that ends."""
        if self.switch.faults.pace:
            await asyncio.sleep(self.switch.faults.pace * real_time_s(line))
        for _ in range(_LOCK_LOOKS):
            if "flock -w" not in line or not self.switch.holders - {self}:
                return
            await asyncio.sleep(_LOCK_S / _LOCK_LOOKS)

    def flock(self, words: list[str]) -> Output:
        """`flock -w 5 9`: 1 if another login holds the lock; else take it until this login ends."""
        others = self.switch.stored.lock_owner or self.switch.holders - {self}
        if words not in (["-n", "9"], ["-w", "5", "9"]) or self.opened != RELOAD_LOCK or others:
            return "", 1
        self.switch.holders.add(self)
        return "", 0

    def touch(self, words: list[str]) -> Output:
        """Make an empty file if it is missing."""
        self.files.setdefault(words[0], "")
        return "", 0

    def cat(self, words: list[str]) -> Output:
        """Print a file that a user wrote."""
        found = self.files.get(words[0])
        if words[0] == VERSION_FILE:
            found = f"build_version: '{self.switch.release.removeprefix('SONiC.')}'\n"
        return (found, 0) if found is not None else (_no_file("cat", words[0]), 1)


def _no_file(tool: str, path: str) -> str:
    return f"{tool}: {path}: No such file or directory"


_BUILTINS: Final[dict[str, Callable[[Session, list[str]], Output]]] = {
    **BUILTINS,
    "exec": Session.take,
    "touch": Session.touch,
    "flock": Session.flock,
    "cat": Session.cat,
    # Runs in the container `bgp`; members of the group docker need no sudo for it.
    "vtysh": Session.vtysh,
}
