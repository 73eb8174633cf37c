"""Reading a Linux host: one asyncssh connection, and one answer for each script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import AnyStr

from components.core.errors import DeviceError, UnreachableError
from components.core.limits import ANSWER_BYTES, PIECE_BYTES, Held
from components.remote import sudo
from components.remote.explain import Doing, explain
from components.remote.jump import CONNECT_DEADLINE_S, JumpHosts, end, jump_hosts, login
from components.remote.login import Client
from components.remote.ssh_library import asyncssh
from components.remote.step import Endpoint


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What a script on a host printed."""

    stdout: str
    stderr: str
    exit_status: int


class HostSession:
    """An open connection to a host, on which several commands may run, also at once."""

    def __init__(
        self,
        endpoint: Endpoint,
        connection: asyncssh.SSHClientConnection,
        sudo_password: str | None = None,
    ) -> None:
        """Take over an open connection.

        Args:
            endpoint: Which host.
            connection: To it.
            sudo_password: What its sudo asks for; None: it does not ask.
        """
        self._endpoint = endpoint
        self._connection = connection
        self._sudo_password = sudo_password

    async def run(
        self, command: str, *, stdin: str = "", deadline_s: float, limit: int = ANSWER_BYTES
    ) -> HostAnswer:
        """Run one command.

        Args:
            command: Text for the login shell.
            stdin: What the command reads.
            deadline_s: Seconds until it must have ended.
            limit: Most bytes of stdout, and of stderr, that it may print.

        Raises:
            UnreachableError: No answer within the deadline, or half of one.
            DeviceError: sudo refuses the password.
        """
        return await self._within(deadline_s, self._run(command, stdin, limit))

    async def _run(self, command: str, stdin: str, limit: int) -> tuple[str, str, int | None]:
        password, said = self._sudo_password, ""
        if password is not None and command.startswith(sudo.AS_ROOT):
            process, said = await sudo.start(self._connection, self._endpoint, command, password)
        else:
            process = await self._connection.create_process(command)
        if stdin:
            # A command may end before it reads, where its tool is missing: its output says why.
            with suppress(BrokenPipeError):
                process.stdin.write(stdin)
                process.stdin.write_eof()
        stdout, stderr = await _outputs(process, limit)
        return stdout, said + stderr, process.returncode

    async def run_with_file(self, command: str, source: Path, *, deadline_s: float) -> HostAnswer:
        """Run one command that reads a file of this machine, which is streamed.

        Raises:
            UnreachableError: No answer within the deadline, or half of one.
            DeviceError: sudo asks for a password there, which would be read in place of the file.
        """
        if self._sudo_password is not None and command.startswith(sudo.AS_ROOT):
            raise DeviceError(
                f"{self._endpoint.where}: files are sent only to hosts whose sudo asks for no"
                " password. Nothing was changed there.\n"
                "  fix    allow it for this user in sudoers (NOPASSWD: ALL), or let the hosts"
                " download: leave sources.bundle and the mirror's login out"
            )
        return await self._within(deadline_s, self._stream(command, source))

    async def _stream(self, command: str, source: Path) -> tuple[str, str, int | None]:
        process = await self._connection.create_process(command, stdin=source, encoding=None)
        stdout, stderr = await _outputs(process, ANSWER_BYTES)
        return stdout, stderr, process.returncode

    async def _within(
        self, deadline_s: float, work: Awaitable[tuple[str, str, int | None]]
    ) -> HostAnswer:
        """Output, errors and status of a command that ends in time, and says how it ended."""
        doing = Doing("run", deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                stdout, stderr, status = await work
        except (TimeoutError, OSError, asyncssh.Error) as error:
            raise explain(self._endpoint, error, doing, Client(None)) from error
        if status is None:  # neither a status nor a signal: half an answer is none
            raise UnreachableError(
                f"{self._endpoint.where} {doing.failed(ConnectionError('no exit status'))}"
            )
        return HostAnswer(stdout, stderr, status)


@asynccontextmanager
async def connect_to_host(
    endpoint: Endpoint,
    secrets: Mapping[str, str],
    *,
    jumps: JumpHosts | None = None,
    deadline_s: float = CONNECT_DEADLINE_S,
) -> AsyncGenerator[HostSession]:
    """Log in to a host whose key is pinned.

    Args:
        endpoint: Address, pinned host key and way.
        secrets: Secret name to value: those of `endpoint.secret_names`.
        jumps: The jump hosts of this run; by default, connections of its own.
        deadline_s: Seconds until the host has accepted the login.

    Raises:
        UnreachableError: No session within the deadline, and why.
        HostKeyError: The host presented another key, or none is pinned; nothing was sent.
        DeviceError: The host refused our key, or the secret is no key.
    """
    within_s = min(CONNECT_DEADLINE_S, deadline_s)
    async with jump_hosts(secrets) as own:
        through = await (jumps or own).through(endpoint.jump)
        connection = await login(endpoint, secrets, through, within_s)
        try:
            yield HostSession(endpoint, connection, secrets.get(endpoint.sudo_secret or ""))
        finally:
            await end(connection)


async def run_on_host(
    endpoint: Endpoint,
    secrets: Mapping[str, str],
    command: str,
    *,
    stdin: str = "",
    deadline_s: float,
    limit: int = ANSWER_BYTES,
) -> HostAnswer:
    """Run one command over a connection of its own.

    Args:
        endpoint: Address, pinned host key and way.
        secrets: Secret name to value.
        command: Text for the login shell.
        stdin: What the command reads.
        deadline_s: Seconds until the login is accepted, at most CONNECT_DEADLINE_S, and again until
            the command has ended.
        limit: Most bytes of stdout, and of stderr, that it may print.

    Raises:
        UnreachableError: No session, or no answer within the deadline, and why.
        HostKeyError: The host presented another key, or none is pinned; nothing was sent.
        DeviceError: The host refused our key, or the secret is no key.
    """
    async with connect_to_host(endpoint, secrets, deadline_s=deadline_s) as session:
        return await session.run(command, stdin=stdin, deadline_s=deadline_s, limit=limit)


async def _outputs(process: asyncssh.SSHClientProcess[AnyStr], limit: int) -> tuple[str, str]:
    """All of stdout and stderr until the command ended, each up to its limit.

    Raises:
        TooLongError: There is more of one of them; the command is ended.
    """

    async def keep(stream: asyncssh.SSHReader[AnyStr]) -> str:
        held = Held(limit)
        while piece := await stream.read(PIECE_BYTES):
            held.add(piece if isinstance(piece, bytes) else piece.encode())
        return held.text()

    try:
        both = await asyncio.gather(keep(process.stdout), keep(process.stderr))
        await process.wait_closed()
    finally:
        process.close()
    return both
