"""`SshSwitch`: what every emulated switch has: an SSH port, its sessions, and its state on disk."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import asyncssh
from pydantic import BaseModel

from lab import keys
from lab.views import SwitchConfig

Process = asyncssh.SSHServerProcess[str]
StoredT = TypeVar("StoredT", bound=BaseModel)


def cut_connection(process: Process) -> None:
    """End the connection that a session runs over, as a lost management network would.

    It also works when the client has just closed the session.
    """
    connection: asyncssh.SSHServerConnection = process.get_extra_info("connection")
    connection.abort()


class SshSwitch(ABC, Generic[StoredT]):
    """Listens and hands each session to the switch; `stop` leaves no session behind."""

    line_editor: ClassVar[bool] = True
    """Whether asyncssh edits lines for a session with a terminal, or the switch does it itself."""

    def __init__(self, config: SwitchConfig, state_path: Path, stored: StoredT) -> None:
        """Keep `stored`, the state of last time or the factory's, at `state_path`."""
        self._config = config
        self._path = state_path
        self._server: asyncssh.SSHAcceptor | None = None
        self._open: dict[Process, asyncio.Task[None] | None] = {}
        self.stored = stored
        self.recabled: dict[str, tuple[str, str]] = {}
        """Port to the (host, network device) that somebody has plugged in by mistake (a fault)."""

    @abstractmethod
    def login(self) -> asyncssh.SSHServer:
        """Who may log in, and how."""

    @abstractmethod
    async def serve(self, process: Process) -> None:
        """One session, from its greeting to its end."""

    @property
    def cabled(self) -> frozenset[str]:
        """The ports with a cable to a host or another switch."""
        config = self._config
        return frozenset({*config.cables, *config.neighbours, *config.links, *self.recabled})

    @property
    def plugged(self) -> dict[str, tuple[str, str]]:
        """Port to who tells its name there by LLDP, and by which of its ports."""
        return {**self._config.neighbours, **self.recabled}

    def recable(self, port: str, ends: Sequence[str]) -> str:
        """Plug a host's card into a port, or with `off` what the lab file has there again.

        Args:
            port: Port of this switch.
            ends: Host and network device, or `off`.

        Raises:
            ValueError: It is neither.
        """
        if list(ends) == ["off"]:
            self.recabled.pop(port, None)
            return f"{port} is cabled as the lab file says"
        host, device = ends
        self.recabled[port] = (host, device)
        return f"{device} of {host} is plugged into {port}"

    @property
    def ssh_port(self) -> int:
        """The port that SSH listens on; the lab file may say 0 for any free one."""
        return self._server.get_port() if self._server is not None else self._config.port

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._open)

    async def start(self) -> None:
        """Open the SSH port."""
        key = keys.host_key(self._config.host_key_seed).private_openssh
        self._server = await asyncssh.listen(
            self._config.address,
            self._config.port,
            server_factory=self.login,
            server_host_keys=[asyncssh.import_private_key(key)],
            process_factory=self._accept,
            line_editor=self.line_editor,
            encoding="utf-8",
            login_timeout=30,
        )

    async def stop(self) -> None:
        """Close the port and every session."""
        self.drop_sessions()
        tasks = [task for task in self._open.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def drop_sessions(self) -> None:
        """Cut every session, as a reload does."""
        for process in list(self._open):
            cut_connection(process)

    async def _accept(self, process: Process) -> None:
        self._open[process] = asyncio.current_task()
        try:
            await self.serve(process)
        except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
            process.close()
        finally:
            self._open.pop(process, None)

    def commit(self) -> None:
        """Write the state to disk, whole or not at all."""
        scratch = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(self.stored.model_dump_json(indent=1))
        os.replace(scratch, self._path)  # noqa: PTH105 - says atomic to readers
