"""One login: bash, the tools of sonic-utilities, and what one line prints.

Sources: docs/explanation/sources.md#sonic. The session knows nothing of SSH.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lab.switches import neighbours
from lab.switches.plain_faults import PlainFaults
from lab.switches.sonic.commands import CONFIG, COUNTERPOLL, PFCWD, options_first
from lab.switches.sonic.config import RELOAD_LOCK, VERSION_FILE
from lab.switches.sonic.shell import Shell, ShellError, grep, xargs
from lab.switches.sonic.show import run_show
from lab.switches.sonic.tools import CommandError, run_cfggen, run_db_cli

if TYPE_CHECKING:
    from lab.switches.sonic.server import SonicSwitch

_LOCK_S: Final = 5.0
_LOCK_LOOKS: Final = 100
_TIMES_S: Final = (
    (re.compile(r"config save"), 1.5),
    (re.compile(r"sonic-cfggen|sonic-db-dump"), 0.5),
    (re.compile(r"\b(config|show|pfcwd|counterpoll) "), 1.0),
    (re.compile(r"sonic-db-cli"), 0.05),
)
"""Seconds that a command takes: an SN2700, and reports on click (sonic-buildimage 20048, 22526,
26827). That of sonic-db-cli, a program in C++, is a guess."""
NOT_FOUND: Final = 127
"""bash's exit status for a command that there is not."""
_OF_ROOT: Final = [["pfcwd", verb] for verb in ("start", "stop", "interval", "counter_poll")]
_CHANGES: Final = ("config", "counterpoll", "pfcwd", "sonic-db-cli", "sonic-cfggen")


def real_time_s(line: str) -> float:
    """How long the commands of a line take on a real switch."""
    parts = re.split(r"&&|\|\|", line)
    return sum(next((s for form, s in _TIMES_S if form.search(part)), 0.0) for part in parts)


@dataclass(slots=True)
class Faults(PlainFaults):
    """What only SONiC has."""

    ignore: list[str] = field(default_factory=list[str])
    """A command that changes something and holds one of these is taken and does nothing."""
    sudo_password: bool = False
    """Somebody took the right to sudo without a password away."""


@dataclass(slots=True, eq=False)
class Session:
    """The state of one login."""

    switch: SonicSwitch
    host: str
    user: str = "admin"
    open: bool = True
    changes: int = 0
    opened: str = ""
    """The file behind descriptor 9."""
    shell: Shell = field(init=False)

    def __post_init__(self) -> None:
        """Give the shell its commands."""
        self.shell = Shell(self._run, self._write_file)

    @property
    def status(self) -> int:
        """Exit status of the last command."""
        return self.shell.status

    def prompt(self) -> str:
        """The prompt of bash on SONiC, or the one that asks for the rest of a command."""
        if self.shell.pending:
            return "> "
        return f"{self.user}@{self.host}:~$ "

    def run(self, line: str) -> str:
        """Run one line of commands and return what they print."""
        if not line.strip():
            return ""
        try:
            return self.shell.type_line(line.strip())
        except ShellError as error:
            self.shell.status = 2
            return f"-bash: syntax error: {error}\n"

    def _write_file(self, path: str, text: str) -> None:
        self.switch.stored.files[path] = text

    def _run(self, words: list[str], given: str = "") -> tuple[str, int]:
        if words[0] == "grep":
            return grep(words[1:], given)
        if words[0] == "xargs":
            return xargs(words[1:], given, self._run)
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
            printed, status = self.switch.stored.run_folders(words, root=root)
            self.switch.commit()
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
        """`sonic-db-dump`, of the table of ports in STATE_DB."""
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

    def leave(self) -> tuple[str, int]:
        """End the shell."""
        self.open = False
        self.switch.holders.discard(self)
        return "", 0

    def take(self, words: list[str]) -> tuple[str, int]:
        """`exec 9<FILE`: opens it, if it is there."""
        if words[:2] != ["9", "<"] or self.switch.stored.files.get(words[2]) is None:
            return _no_file("-bash", words[-1]), 1
        self.opened = words[2]
        return "", 0

    async def wait_for(self, line: str) -> None:
        """Each command takes its time; `flock -w 5 9` waits for a login that is just ending."""
        if self.switch.faults.pace:
            await asyncio.sleep(self.switch.faults.pace * real_time_s(line))
        for _ in range(_LOCK_LOOKS):
            if "flock -w" not in line or not self.switch.holders - {self}:
                return
            await asyncio.sleep(_LOCK_S / _LOCK_LOOKS)

    def flock(self, words: list[str]) -> tuple[str, int]:
        """`flock -w 5 9`: 1 while somebody else holds the lock; else it is ours until we leave."""
        others = self.switch.stored.lock_owner or self.switch.holders - {self}
        if words not in (["-n", "9"], ["-w", "5", "9"]) or self.opened != RELOAD_LOCK or others:
            return "", 1
        self.switch.holders.add(self)
        return "", 0

    def touch(self, words: list[str]) -> tuple[str, int]:
        """Make an empty file if there is none."""
        self.switch.stored.files.setdefault(words[0], "")
        return "", 0

    def vtysh(self, words: list[str]) -> tuple[str, int]:
        """The real one, or as much of it as asks for sessions."""
        refusal = self.switch.refuse(" ".join(("vtysh", *words)))
        if refusal is not None:
            return f"{refusal}\n", 1
        if self.switch.frr is not None:
            status, printed = self.switch.frr.vtysh(*words)
            return printed, status
        found = neighbours.vtysh(words, self.switch.router_view(), self.switch.told())
        if found is None:
            self.switch.note_unmodelled(" ".join(("vtysh", *words)))
            return "-bash: vtysh: command not found", NOT_FOUND
        return found, 0

    def cat(self, words: list[str]) -> tuple[str, int]:
        """Print a file that somebody wrote."""
        found = self.switch.stored.files.get(words[0])
        if words[0] == VERSION_FILE:
            found = f"build_version: '{self.switch.release.removeprefix('SONiC.')}'\n"
        return (found, 0) if found is not None else (_no_file("cat", words[0]), 1)

    def remove(self, words: list[str]) -> tuple[str, int]:
        """Delete a file that somebody wrote."""
        names = [word for word in words if word != "-f"]
        gone = [self.switch.stored.files.pop(name, None) for name in names]
        if None in gone and "-f" not in words:
            return f"rm: cannot remove '{names[0]}': No such file or directory", 1
        return "", 0


def _no_file(tool: str, path: str) -> str:
    return f"{tool}: {path}: No such file or directory"


_BUILTINS: Final[dict[str, Callable[[Session, list[str]], tuple[str, int]]]] = {
    "echo": lambda _session, words: (" ".join(words) + "\n", 0),
    # The lab's counters move at once: nothing has to be waited for.
    **dict.fromkeys(("sleep", "true", "export"), lambda _session, _words: ("", 0)),
    "false": lambda _session, _words: ("", 1),
    **dict.fromkeys(("exit", "logout"), lambda session, _words: session.leave()),
    "exec": Session.take,
    "touch": Session.touch,
    "flock": Session.flock,
    "cat": Session.cat,
    "rm": Session.remove,
    # Of the container `bgp`, which a person of the group docker may ask without sudo.
    "vtysh": Session.vtysh,
}
