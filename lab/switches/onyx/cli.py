"""The common base of Onyx and MLNX-OS: a switch, its sessions with their modes, and its commands.

Modes and prompts: lab/sources.md#onyx. A session does not use SSH itself.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from components.remote.ssh_library import asyncssh
from lab.switches.command_line import CliError, Command, UnknownCommandError, table
from lab.switches.logins import KeyboardLogin
from lab.switches.onyx.config import GRAMMAR, UNKNOWN, SavedAndRunning, expand_ports, split_words
from lab.switches.onyx.show import Answer
from lab.switches.onyx.terminal import serve
from lab.switches.plain_faults import PlainFaults, sets
from lab.switches.ssh_switch import Process, SshSwitch
from lab.switches.stored import Part
from lab.switches.text import indented
from lab.views import SwitchConfig

StoredT = TypeVar("StoredT", bound=SavedAndRunning[Any])


class Mode(Enum):
    """The modes of a session, each with the end of its prompt."""

    STANDARD = "> "
    ENABLE = "# "
    CONFIG = "(config{}) # "


@dataclass(slots=True)
class Session:
    """The state of one login."""

    switch: CliSwitch[Any]
    mode: Mode = Mode.STANDARD
    context: str = ""
    """`interface ethernet 1/1` or `vlan 111` inside config mode."""
    paging: bool = True
    open: bool = True
    changes: int = 0
    """Configuration lines accepted so far, for the fault that drops a session."""

    def prompt(self) -> str:
        """The prompt, which shows the mode."""
        end = self.mode.value.format(self.context and f" {self.context}")
        return f"{self.switch.hostname} [standalone: master] {end}"

    def run(self, line: str) -> str:
        """Run one line and return its output, which ends with a newline unless it is empty."""
        text = line.strip()
        if not text or text.startswith("#"):
            return ""
        try:
            return self._run(text)
        except CliError as error:
            if isinstance(error, UnknownCommandError):
                self.switch.note_unmodelled(text)
            return f"{error}\n"

    def _run(self, text: str) -> str:
        refusal = self.switch.refuse(text)
        if refusal is not None:
            raise CliError(refusal)
        body, *filters = [part.strip() for part in text.split(" | ")]
        words = split_words(body)
        if _abbreviates(words[0], "show"):
            return _filtered(self.switch.show(words), filters)
        try:
            handler, values = GRAMMAR.find(_SESSION_COMMANDS[self.mode], words)
        except UnknownCommandError:
            if self.mode is not Mode.CONFIG:
                raise
            self._configure(words)
            return ""
        handler(self, *values)
        return ""

    def _configure(self, words: tuple[str, ...]) -> None:
        """Run a configuration line: first within the context, then as a global one."""
        try:
            self.switch.change(_move_no((*self.context.split(), *words)))
        except UnknownCommandError:
            if not self.context:
                raise
            self.switch.change(_move_no(words))
        self.changes += 1
        # `vlan 111` also enters that VLAN (onyx_vlan.py).
        if len(words) == 2 and words[0] == "vlan":  # noqa: PLR2004 - `vlan N`
            self.context = f"vlan {words[1]}"

    def leave(self) -> None:
        """`exit`: one level up; at the top the session ends."""
        if self.context:
            self.context = ""
        elif self.mode is Mode.CONFIG:
            self.mode = Mode.ENABLE
        else:
            self.open = False

    def enter_ports(self, ports: str) -> None:
        """`interface ethernet …` alone: enter that mode."""
        expand_ports(ports, self.switch.port_names)
        self.context = f"interface ethernet {ports}"

    def save(self) -> None:
        """Save the configuration."""
        self.switch.save_configuration()

    def reload(self) -> None:
        """Only the forced form is known, because the questions of a plain `reload` are a guess."""
        self.open = False
        self.switch.reload()

    def set_length(self, text: str) -> None:
        """`terminal length 0` is refused with exactly this text (netmiko #394)."""
        if not 5 <= int(text) <= 999:  # noqa: PLR2004 - the range in the text
            raise CliError("% Please enter an integer between 5 and 999.")

    def ignore(self, *_values: str) -> None:
        """Change nothing."""


def _move_no(words: tuple[str, ...]) -> tuple[str, ...]:
    """Read `no interface ethernet 1/1 X` as `interface ethernet 1/1 no X`."""
    if words[0] == "no" and words[4:] and _abbreviates(words[1], "interface"):
        return (*words[1:4], "no", *words[4:])
    return words


def _abbreviates(word: str, full: str) -> bool:
    return len(word) > 1 and full.startswith(word)


def _filtered(answer: Answer, filters: list[str]) -> str:
    if "json-print" in filters:
        if answer.data is None:
            raise UnknownCommandError(UNKNOWN.format("json-print"))
        return indented(answer.data)
    if answer.text is None:
        # No capture of the text form exists (sources.md#onyx-unknown); the lab does not need it.
        raise UnknownCommandError('% Unrecognized command.\nType "?" for help.')
    text = answer.text
    for item in filters:
        word, _, pattern = item.partition(" ")
        if not _abbreviates(word, "include"):
            raise UnknownCommandError(UNKNOWN.format(word))
        matcher = re.compile(pattern.strip().strip('"').replace("\\\\", "\\"))
        text = "".join(f"{line}\n" for line in text.splitlines() if matcher.search(line))
    return text


def _set(field: str, value: object) -> Callable[[Session], None]:
    return lambda session: setattr(session, field, value)


_ANYWHERE: Final = (
    ("exit", Session.leave),
    ("no cli session paging enable", _set("paging", value=False)),
    ("cli session paging enable", _set("paging", value=True)),
    ("terminal length <int>", Session.set_length),
    ("cli session terminal length <int>", Session.set_length),
    ("terminal type <word>", Session.ignore),
)
_ENABLED: Final = (
    ("enable", Session.ignore),
    ("configure terminal", _set("mode", Mode.CONFIG)),
    *((line, Session.save) for line in ("configuration write", "write memory")),
    *((line, Session.reload) for line in ("reload force", "reload noconfirm")),
)
_TO_STANDARD: Final = ("disable", _set("mode", Mode.STANDARD))
_SESSION_COMMANDS: Final = {
    Mode.STANDARD: table((*_ANYWHERE, ("enable", _set("mode", Mode.ENABLE)), _TO_STANDARD)),
    # `enable` in enable mode changes nothing; bare `configure` is incomplete (sonic-mgmt PR 841).
    Mode.ENABLE: table((*_ANYWHERE, *_ENABLED, _TO_STANDARD)),
    Mode.CONFIG: table(
        (*_ANYWHERE, *_ENABLED, ("interface ethernet <ports>", Session.enter_ports))
    ),
}


@dataclass(slots=True)
class Faults(PlainFaults):
    """Faults of Onyx and MLNX-OS only; public clients open at most 5 sessions (capture C8)."""

    exit_status: int | None = None
    """Status of an exec; with None the switch omits it, as xCAT tolerates."""


EXIT_STATUS: Final = {
    "exit-status NUMBER|missing": sets(
        "exit_status",
        lambda text: None if text == "missing" else int(text),
        "exit status of an exec: {}",
    )
}


class CliSwitch(SshSwitch[StoredT, Faults]):
    """A switch with Onyx' command line over SSH."""

    line_editor = False
    planted_refusal = "% Internal error: the command failed"  # planted, not modelled
    writes = re.compile("conf|write|reload")
    # A guess, after TMS base: the switch does not know a command that the user must not run.
    denial = UNKNOWN
    banner: ClassVar[str]
    """Printed before the login."""

    def __init__(self, config: SwitchConfig, state_path: Path, stored: StoredT) -> None:
        """Start without planted faults."""
        super().__init__(config, state_path, stored, Faults())

    @property
    @abstractmethod
    def commands(self) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
        """Its show commands and its configuration lines."""

    @property
    def edited(self) -> Part:
        """The object that configuration lines change."""
        return self.stored

    def show(self, words: Sequence[str]) -> Answer:
        """Answer a show command; `show interface` may abbreviate `show interfaces`."""
        handler, values = GRAMMAR.find(self.commands[0], words)
        found: Answer | str = handler(self, *values)
        return Answer(found) if isinstance(found, str) else found

    def login(self) -> asyncssh.SSHServer:
        """Check the password of the only user."""
        return KeyboardLogin(self._config, self.banner)

    def session(self) -> Session:
        """Open a new login."""
        return Session(self, paging=self.stored.running.paging)

    async def serve(self, process: Process) -> None:
        """Serve a shell, or one command."""
        await serve(process, self.session(), self.faults)

    def turn_away(self, process: Process) -> None:
        """Refuse with a message (a guess)."""
        process.stdout.write("% Maximum number of sessions reached\n")
        process.close()

    @property
    def hostname(self) -> str:
        """The host name in the prompt."""
        return self.stored.running.hostname

    @property
    def port_names(self) -> Collection[str]:
        """The Ethernet ports, whose mode a session may enter."""
        return self.ports

    def change(self, words: Sequence[str]) -> None:
        """Run a configuration line, whole or not at all."""
        running: Part = self.stored.running
        before = running.model_dump_json()  # a tenth of a copy; a refusal is rare
        try:
            handler, values = GRAMMAR.find(self.commands[1], words)
            handler(self.edited, *values)
        except CliError:
            self.stored.running = type(running).model_validate_json(before)
            raise
        self.commit()

    def save_configuration(self) -> None:
        """Make the running configuration the startup one; a full disk refuses (a guess)."""
        if self.faults.disk_full:
            raise CliError("% Failed to save configuration: No space left on device")
        self.stored.saved = self.stored.running.model_copy(deep=True)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end and unsaved changes are lost."""
        self.stored.running = self.stored.saved.model_copy(deep=True)
        self.commit()
        self.drop_sessions()

    reboot = reload

    def run_line(self, line: str) -> str:
        """Run a configuration line as a person at the console would; nothing is saved."""
        return Session(self, Mode.CONFIG, paging=False).run(line)
