"""`SshSwitch`: the base of every emulated switch: SSH port, sessions, and state on disk."""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import JsonValue

from components.core.errors import UsageError
from components.remote.ssh_library import asyncssh
from lab import keys
from lab.switches.plain_faults import PLAIN_FAULTS, PlainFaults
from lab.switches.stored import Part, PortCounters, Stored, chassis_of
from lab.views import BgpView, SwitchConfig

Process = asyncssh.SSHServerProcess[str]
StoredT = TypeVar("StoredT", bound=Stored)
PartT = TypeVar("PartT", bound=Part)
FaultsT = TypeVar("FaultsT", bound=PlainFaults)
_ERROR: Final = re.compile(r"^%", re.MULTILINE)


def load_stored(kind: type[StoredT], path: Path, factory: Callable[[], StoredT]) -> StoredT:
    """The state of the last run, or the factory's."""
    return kind.model_validate_json(path.read_text()) if path.exists() else factory()


def show_parts(
    parts: Mapping[str, PartT], render: Callable[[PartT], JsonValue]
) -> dict[str, JsonValue]:
    """Configurations by name in canonical form, each with its text."""
    return {
        name: {"config": part.model_dump(mode="json"), "text": render(part)}
        for name, part in parts.items()
    }


def cut_connection(process: Process) -> None:
    """End a session's connection, as a lost management network would.

    It also works if the client has just closed the session.
    """
    connection: asyncssh.SSHServerConnection = process.get_extra_info("connection")
    connection.abort()


class SshSwitch(ABC, Generic[StoredT, FaultsT]):
    """Listen and give each session to the switch; `stop` closes every session."""

    line_editor: ClassVar[bool] = True
    """Whether asyncssh edits lines for a session with a terminal, or the switch does it itself."""
    own_faults: ClassVar[Mapping[str, Callable[[Any, list[str]], str]]] = {}
    """Faults of this system only, in the form of `PLAIN_FAULTS`."""
    planted_refusal: ClassVar[str]
    """Answer to a line that the fault `reject` refuses; `{}` is its text."""
    writes: ClassVar[re.Pattern[str]]
    """Lines that a read-only login must not run."""
    denial: ClassVar[str]
    """Answer to such a line; `{}` is the line."""
    factory_release: ClassVar[str]
    """Its release, if the lab file does not name one."""

    def __init__(
        self, config: SwitchConfig, state_path: Path, stored: StoredT, faults: FaultsT
    ) -> None:
        """Keep `stored`, the state of last time or the factory's, at `state_path`."""
        self._config = config
        self._path = state_path
        self._server: asyncssh.SSHAcceptor | None = None
        self._open: dict[Process, asyncio.Task[None] | None] = {}
        self.stored = stored
        self.faults = faults
        self.chassis = chassis_of(config.host_key_seed)
        self.recabled: dict[str, tuple[str, str]] = {}
        """Port to the (host, network device) plugged in by mistake (a fault)."""
        self.told: Callable[[], BgpView] = BgpView
        """The routes that its neighbours announce by BGP; empty without neighbours."""
        self.on_commit: Callable[[], None] = lambda: None
        """Called after every change of its state."""

    @abstractmethod
    def login(self) -> asyncssh.SSHServer:
        """Who may log in, and how."""

    @abstractmethod
    async def serve(self, process: Process) -> None:
        """One session, from its greeting to its end."""

    @property
    def model(self) -> str:
        """The model."""
        return self._config.model

    @property
    def release(self) -> str:
        """The running release."""
        return self._config.release or self.factory_release

    def has_cable(self, port: str) -> bool:
        """Whether a port is cabled, and its cable is not pulled."""
        return port in self.cabled and port not in self.stored.link_down

    def counted(self, port: str) -> PortCounters:
        """The counters of a port."""
        return self.stored.counters.get(port, PortCounters())

    def set_login(self, authorized_key: str, enable_password: str = "") -> None:
        """Give its user a public key, and `enable` a password."""
        self._config = replace(
            self._config, authorized_key=authorized_key, enable_password=enable_password
        )

    def turn_away(self, process: Process) -> None:
        """End a session that exceeds the limit; sshd sends no message."""
        cut_connection(process)

    @property
    @abstractmethod
    def ports(self) -> Collection[str]:
        """The ports on its front."""

    @abstractmethod
    def run_line(self, line: str) -> str:
        """Run a line as a person at the console would; nothing is saved."""

    def refusal_of(self, line: str) -> str | None:
        """Run a line like a typed one; returns the switch's refusal, or None."""
        output = self.run_line(line)
        return output.strip() if _ERROR.search(output) else None

    def refuse(self, line: str) -> str | None:
        """The planted refusal of a line, or None."""
        if self.faults.read_only and self.writes.match(line):
            return self.denial.format(line)
        if self.faults.lose_link and self.faults.lose_link[1] in line:
            self.stored.link_down = sorted({*self.stored.link_down, self.faults.lose_link[0]})
        found = next((text for text in self.faults.reject if text in line), None)
        return None if found is None else self.planted_refusal.format(found)

    def require_port(self, port: str) -> None:
        """Check a port's name; a UsageError if the switch lacks the port."""
        if port not in self.ports:
            raise UsageError(f"{self._config.name} has no port {port!r}")

    @classmethod
    def faults_by_form(cls) -> dict[str, Callable[[Any, list[str]], str]]:
        """Every fault by its command form."""
        return {**cls.own_faults, **PLAIN_FAULTS}

    def fault(self, args: Sequence[str]) -> str:
        """Plant a fault, or make a change that a person might make.

        Args:
            args: For example `slow 2`; see `faults_by_form`.

        Returns:
            A sentence about the change.

        Raises:
            UsageError: The fault is unknown or its values are wrong.
        """
        verb, *values = args or ("",)
        forms = self.faults_by_form()
        planted = next((each for form, each in forms.items() if form.split()[0] == verb), None)
        known = " | ".join(forms)
        if planted is None:
            raise UsageError(f"{self._config.name} has no fault {verb!r}; it has: {known}")
        try:
            done = planted(self, values)
        except (IndexError, KeyError, ValueError) as error:
            raise UsageError(f"fault {verb}: {error}; expected: {known}") from error
        self.commit()
        return f"{self._config.name}: {done}"

    def add_counters(
        self, port: str, tc: int, rx_bytes: int = 0, tx_bytes: int = 0, ecn_marked: int = 0
    ) -> None:
        """Move the counters of a port.

        Args:
            port: Port of this switch.
            tc: Switch priority for `rx_bytes`, traffic class for the others.
            rx_bytes: Bytes received in that priority.
            tx_bytes: Bytes sent from that class.
            ecn_marked: Packets marked in that class.
        """
        moved = {"rx_bytes": rx_bytes, "tx_bytes": tx_bytes, "ecn_marked": ecn_marked}
        self._count(port, tc, moved)

    def _count(self, port: str, key: int, moved: Mapping[str, int]) -> None:
        held = self.stored.counters.setdefault(port, PortCounters())
        for field, count in moved.items():
            by_key: dict[int, int] = getattr(held, field)
            by_key[key] = by_key.get(key, 0) + count
        self.commit()

    def add_discards(self, port: str, rx_discards: int) -> None:
        """Count received packets that the port dropped."""
        self.stored.counters.setdefault(port, PortCounters()).rx_discards += rx_discards
        self.commit()

    def add_pauses(
        self, port: str, priority: int, rx: int = 0, tx: int = 0, storms: int = 0
    ) -> None:
        """Count PFC frames of one priority, and how often the watchdog found its queue stuck."""
        self._count(port, priority, {"rx_pauses": rx, "tx_pauses": tx, "storms": storms})

    def add_drops(self, port: str, tc: int, packets: int) -> None:
        """Count packets that the full queue of a traffic class dropped."""
        self._count(port, tc, {"tx_drops": packets})

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Sent lines that this emulator does not know; a test fails on any."""
        return tuple(self.stored.unmodelled)

    def note_unmodelled(self, line: str) -> None:
        """Record an unknown line."""
        self.stored.unmodelled.append(line)
        self.commit()

    @property
    def cabled(self) -> frozenset[str]:
        """The ports with a cable to a host or another switch."""
        config = self._config
        return frozenset({*config.cables, *config.neighbours, *config.links, *self.recabled})

    @property
    def plugged(self) -> dict[str, tuple[str, str]]:
        """Port to the neighbour there, and to the port that it announces by LLDP."""
        return {**self._config.neighbours, **self.recabled}

    def recable(self, port: str, ends: Sequence[str]) -> str:
        """Plug a host's card into a port, or restore the lab file's cable with `off`.

        Args:
            port: Port of this switch.
            ends: Host and network device, or `off`.

        Raises:
            UsageError: The switch lacks this port.
            ValueError: The ends are neither.
        """
        self.require_port(port)
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
        limit = self.faults.sessions
        try:
            if limit is not None and self.sessions > limit:
                self.turn_away(process)
            else:
                await self.serve(process)
        except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
            process.close()
        finally:
            self._open.pop(process, None)

    def commit(self) -> None:
        """Write the state to disk, whole or not at all."""
        scratch = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(self.stored.model_dump_json().encode())
        os.replace(scratch, self._path)  # noqa: PTH105 - says atomic to readers
        self.on_commit()
