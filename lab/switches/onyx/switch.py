"""`CliSwitch`: what Onyx and MLNX-OS have alike, which is all but what their commands do."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from components.remote.ssh_library import asyncssh
from lab.switches.login import KeyboardLogin
from lab.switches.onyx.cli import Faults, Mode, Session
from lab.switches.onyx.config import SavedAndRunning
from lab.switches.onyx.grammar import CliError
from lab.switches.onyx.show import Answer
from lab.switches.onyx.terminal import serve
from lab.switches.ssh_switch import Process, SshSwitch
from lab.switches.stored import Part
from lab.views import SwitchConfig

StoredT = TypeVar("StoredT", bound=SavedAndRunning[Any])


def _exit_status(switch: CliSwitch[Any], values: list[str]) -> str:
    switch.faults.exit_status = None if values[0] == "missing" else int(values[0])
    return f"exit status of an exec: {values[0]}"


EXIT_STATUS: Final[dict[str, Callable[[CliSwitch[Any], list[str]], str]]] = {
    "exit-status NUMBER|missing": _exit_status
}


class CliSwitch(SshSwitch[StoredT, Faults]):
    """A switch with Onyx' command line over SSH."""

    line_editor = False
    planted_refusal = "% Internal error: the command failed"  # planted, not modelled
    writes = re.compile("conf|write|reload")
    # A guess, after TMS base: a command that the user's capability lacks is not there for it.
    denial = '% Unrecognized command "{}".\nType "?" for help.'
    banner: ClassVar[str]
    """Before the login."""

    def __init__(self, config: SwitchConfig, state_path: Path, stored: StoredT) -> None:
        """Nothing is planted."""
        super().__init__(config, state_path, stored, Faults())

    @abstractmethod
    def show(self, words: list[str]) -> Answer:
        """Answer a show command."""

    @abstractmethod
    def edit(self, words: list[str]) -> None:
        """Run a configuration line; what it has done is taken back if it raises a CliError."""

    def login(self) -> asyncssh.SSHServer:
        """The one user's password."""
        return KeyboardLogin(self._config, self.banner)

    def session(self) -> Session:
        """A new login."""
        return Session(self, paging=self.stored.running.paging)

    async def serve(self, process: Process) -> None:
        """A shell, or one command."""
        await serve(process, self.session(), self.faults)

    def turn_away(self, process: Process) -> None:
        """Tell it (a guess)."""
        process.stdout.write("% Maximum number of sessions reached\n")
        process.close()

    @property
    def hostname(self) -> str:
        """As the prompt shows it."""
        return self.stored.running.hostname

    @property
    def port_names(self) -> Collection[str]:
        """Ethernet ports, whose mode may be entered."""
        return self.ports

    def change(self, words: list[str]) -> None:
        """Run a configuration line, whole or not at all."""
        running: Part = self.stored.running
        before = running.model_dump_json()  # a tenth of a copy; a refusal is rare
        try:
            self.edit(words)
        except CliError:
            self.stored.running = type(running).model_validate_json(before)
            raise
        self.commit()

    def save_configuration(self) -> None:
        """Make the running configuration the one that boots.

        Raises:
            CliError: The planted fault "disk full" (its wording is a guess).
        """
        if self.faults.disk_full:
            raise CliError("% Failed to save configuration: No space left on device")
        self.stored.saved = self.stored.running.model_copy(deep=True)
        self.commit()

    def reload(self) -> None:
        """Boot again: sessions end and what was not saved is lost."""
        self.stored.running = self.stored.saved.model_copy(deep=True)
        self.commit()
        self.drop_sessions()

    reboot = reload

    def run_line(self, line: str) -> str:
        """Run a configuration line as somebody at the console would; nothing is saved."""
        return Session(self, Mode.CONFIG, paging=False).run(line)
