"""Connect to a Linux host with asyncssh, and run scripts and tools there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import AnyStr, Final

from components.core.errors import DeviceError, UnreachableError
from components.core.limits import ANSWER_BYTES, PIECE_BYTES, Held
from components.core.record import field, record
from components.core.templates import fault_text
from components.remote import ssh, step
from components.remote.login import AS_ROOT, start_sudo
from components.remote.ssh_library import asyncssh
from components.remote.tools import ToolCall

ATTEMPTS: Final = 4
"""Logins until a host counts as unreachable: a busy or just started sshd may drop one."""
PAUSE_S: Final = 2.0
_GRACE_S: Final = 15.0
"""Seconds beyond a script's own deadline until the session is abandoned."""


@record
class HostAnswer:
    """Output of a script on a host."""

    stdout: str
    stderr: str
    exit_status: int


@record
class HostSession:
    """An open connection to a host; several commands may run on it at once."""

    _endpoint: step.Endpoint
    _connection: asyncssh.SSHClientConnection
    _sudo_password: str | None = field(default=None, repr=False)
    """None if sudo does not ask."""

    async def run(
        self, command: str, *, stdin: str | Path = "", deadline_s: float, limit: int = ANSWER_BYTES
    ) -> HostAnswer:
        """Run one command in the login shell; the limit in bytes is for stdout and for stderr.

        Raises: UnreachableError: late, or the answer was cut off. DeviceError: sudo refuses.
        """
        try:
            async with asyncio.timeout(deadline_s):
                stdout, stderr, status = await self._run(command, stdin, limit)
        except (TimeoutError, OSError, asyncssh.Error) as error:
            raise ssh.cut_off(self._endpoint, error, deadline_s) from error
        if status is None:  # without status and signal the answer is incomplete
            raise ssh.cut_off(self._endpoint, ConnectionError("no exit status"), deadline_s)
        if status < 0:  # asyncssh's form of a signal
            words = {"where": self._endpoint.where, "signal": -status}
            stderr += f"{fault_text(__file__, 'killed', **words)}\n"
            status = 128 - status
        return HostAnswer(stdout, stderr, status)

    async def _run(
        self, command: str, stdin: str | Path, limit: int
    ) -> tuple[str, str, int | None]:
        password, said = self._sudo_password, ""
        needs_password = password is not None and command.startswith(AS_ROOT)
        if isinstance(stdin, Path):
            if needs_password:
                text = fault_text(__file__, "files-and-sudo", where=self._endpoint.where)
                raise DeviceError(text)
            binary = await self._connection.create_process(command, stdin=stdin, encoding=None)
            return *await _outputs(binary, limit), binary.returncode
        if password is not None and needs_password:
            process, said = await start_sudo(self._connection, self._endpoint, command, password)
        else:
            process = await self._connection.create_process(command)
        if stdin:
            # A command without its tool may end before it reads; its output gives the reason.
            with suppress(BrokenPipeError):
                process.stdin.write(stdin)
                process.stdin.write_eof()
        stdout, stderr = await _outputs(process, limit)
        return stdout, said + stderr, process.returncode


@asynccontextmanager
async def connect_to_host(
    endpoint: step.Endpoint,
    secrets: Mapping[str, str],
    *,
    jumps: ssh.JumpHosts | None = None,
    deadline_s: float = ssh.CONNECT_DEADLINE_S,
) -> AsyncGenerator[HostSession]:
    """Log in to a host, by default over its own jump connections; errors as of `ssh.login`."""
    within_s = min(ssh.CONNECT_DEADLINE_S, deadline_s)
    async with aclosing(ssh.JumpHosts(secrets)) as own:
        through = await (jumps or own).through(endpoint.jump)
        connection = await ssh.login(endpoint, secrets, through, within_s)
        try:
            yield HostSession(endpoint, connection, secrets.get(endpoint.sudo_secret or ""))
        finally:
            await ssh.end(connection)


async def run_on_host(
    endpoint: step.Endpoint,
    secrets: Mapping[str, str],
    command: str,
    *,
    stdin: str = "",
    deadline_s: float,
    limit: int = ANSWER_BYTES,
) -> HostAnswer:
    """Run one command over its own connection; the deadline also limits the login before it."""
    async with connect_to_host(endpoint, secrets, deadline_s=deadline_s) as session:
        return await session.run(command, stdin=stdin, deadline_s=deadline_s, limit=limit)


async def _outputs(process: asyncssh.SSHClientProcess[AnyStr], limit: int) -> tuple[str, str]:
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


async def connect_patiently(
    stack: AsyncExitStack, endpoint: step.Endpoint, secrets: Mapping[str, str]
) -> HostSession:
    """Log in as `connect_to_host` does, up to `ATTEMPTS` times; the stack ends the session."""
    for _ in range(ATTEMPTS - 1):
        with suppress(UnreachableError):
            return await stack.enter_async_context(connect_to_host(endpoint, secrets))
        await asyncio.sleep(PAUSE_S)
    return await stack.enter_async_context(connect_to_host(endpoint, secrets))


Run = Callable[[step.Endpoint, str, str, float], HostAnswer]
"""Run a command: endpoint, command, stdin, deadline in seconds."""


def run_on_hosts(endpoints: Iterable[step.Endpoint], environ: Mapping[str, str]) -> Run:
    """Return a function that runs commands on these hosts; UsageError if a secret is missing."""
    secrets = {endpoint.device: step.secrets_for(endpoint, environ) for endpoint in endpoints}

    def run(endpoint: step.Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        own, given_up_s = secrets[endpoint.device], deadline_s + _GRACE_S
        return asyncio.run(run_on_host(endpoint, own, command, stdin=stdin, deadline_s=given_up_s))

    return run


def run_call(
    run: Run,
    endpoint: step.Endpoint,
    call: ToolCall,
    stdin: str,
    deadline_s: float,
    *,
    ash: bool = False,
) -> HostAnswer:
    """Run a verb; if the tool is missing or altered, send its text for this one run."""
    answer = run(endpoint, step.render_call(call, deadline_s, ash=ash), stdin, deadline_s)
    if answer.exit_status != step.TOOL_MISSING:
        return answer
    return run(endpoint, step.render_sent_call(call, deadline_s, ash=ash), stdin, deadline_s)


async def look_with(
    run: Callable[[str], Awaitable[HostAnswer]],
    call: ToolCall,
    deadline_s: float,
    *,
    ash: bool = False,
) -> tuple[HostAnswer, bool]:
    """As `run_call`, on an open session; return too whether the host had the tool."""
    answer = await run(step.render_call(call, deadline_s, ash=ash))
    if answer.exit_status != step.TOOL_MISSING:
        return answer, True
    return await run(step.render_sent_call(call, deadline_s, ash=ash)), False
