"""Reading a Linux host: one asyncssh connection, and one answer for each script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal

import asyncssh

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.remote.step import Endpoint

CONNECT_DEADLINE_S: Final = 20.0
"""Seconds until a host has accepted the login; a host that is down gives no answer at all."""
CLOSE_DEADLINE_S: Final = 5.0
"""Seconds for a polite end of a connection whose answers are in."""


class _Stranger(asyncssh.SSHClient):
    """Keeps the host key that was presented in place of the pinned one, to name it."""

    presented = ""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        del host, addr, port
        self.presented = key.export_public_key("openssh").decode().strip()
        return False


@dataclass(frozen=True, slots=True)
class _Doing:
    """How far a session is, and the deadline of that part."""

    part: Literal["connect", "run"]
    deadline_s: float

    def failed(self, error: BaseException) -> str:
        """What ended it: a host that is down, or one that is there and too slow."""
        timed_out = isinstance(error, TimeoutError)
        words = str(error) or type(error).__name__
        within = f"within {self.deadline_s:g} s"
        if self.part == "connect":
            return f"is not reachable {within}: {'no answer' if timed_out else words}"
        if timed_out:
            return f"accepted the login, but did not finish {within}: check its load and its disks"
        return f"accepted the login, but the connection was lost: {words}"


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What a script on a host printed."""

    stdout: str
    stderr: str
    exit_status: int


class HostSession:
    """An open connection to a host, on which several commands may run, also at once."""

    def __init__(self, endpoint: Endpoint, connection: asyncssh.SSHClientConnection) -> None:
        self._endpoint = endpoint
        self._connection = connection

    async def run(self, command: str, *, stdin: str = "", deadline_s: float) -> HostAnswer:
        """Run one command.

        Args:
            command: Text for the login shell.
            stdin: What the command reads.
            deadline_s: Seconds until it must have ended.

        Raises:
            UnreachableError: No answer within the deadline, or half of one.
        """
        doing = _Doing("run", deadline_s)
        try:
            async with asyncio.timeout(deadline_s):
                done = await self._connection.run(command, input=stdin, check=False)
        except (TimeoutError, OSError, asyncssh.Error) as error:
            raise _explain(self._endpoint, error, "", doing) from error
        if done.returncode is None:  # neither a status nor a signal came: half an answer is none
            raise UnreachableError(
                f"{self._endpoint.where} {doing.failed(ConnectionError('no exit status'))}"
            )
        return HostAnswer(_text(done.stdout), _text(done.stderr), done.returncode)


@asynccontextmanager
async def connect_to_host(
    endpoint: Endpoint, private_key: str, *, deadline_s: float = CONNECT_DEADLINE_S
) -> AsyncGenerator[HostSession]:
    """Log in to a host whose key is pinned.

    Args:
        endpoint: Address and pinned host key.
        private_key: The client's key in OpenSSH form.
        deadline_s: Seconds until the host has accepted the login.

    Raises:
        UnreachableError: No session within the deadline, and why.
        HostKeyError: The host presented another key, or none is pinned; nothing was sent.
        DeviceError: The host refused our key, or the secret is no key.
    """
    stranger = _Stranger()
    options = _options(endpoint, private_key, stranger)
    doing = _Doing("connect", min(CONNECT_DEADLINE_S, deadline_s))
    try:
        async with asyncio.timeout(doing.deadline_s):
            connection = await asyncssh.connect(endpoint.address, endpoint.port, options=options)
    except (TimeoutError, OSError, asyncssh.Error) as error:
        raise _explain(endpoint, error, stranger.presented, doing) from error
    try:
        yield HostSession(endpoint, connection)
    finally:
        connection.close()
        with suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await connection.wait_closed()


async def run_on_host(
    endpoint: Endpoint, private_key: str, command: str, *, stdin: str = "", deadline_s: float
) -> HostAnswer:
    """Run one command over a connection of its own.

    Args:
        endpoint: Address and pinned host key.
        private_key: The client's key in OpenSSH form.
        command: Text for the login shell.
        stdin: What the command reads.
        deadline_s: Seconds until the login is accepted, at most CONNECT_DEADLINE_S, and again until
            the command has ended.

    Raises:
        UnreachableError: No session, or no answer within the deadline, and why.
        HostKeyError: The host presented another key, or none is pinned; nothing was sent.
        DeviceError: The host refused our key, or the secret is no key.
    """
    async with connect_to_host(endpoint, private_key, deadline_s=deadline_s) as session:
        return await session.run(command, stdin=stdin, deadline_s=deadline_s)


def _options(
    endpoint: Endpoint, private_key: str, stranger: _Stranger
) -> asyncssh.SSHClientConnectionOptions:
    # As a key and not as a line of known_hosts, whose form of an address depends on the port.
    pinned = _pinned_key(endpoint)
    none: list[asyncssh.SSHKey] = []
    return asyncssh.SSHClientConnectionOptions(
        username=endpoint.user,
        client_keys=[_client_key(endpoint, private_key)],
        known_hosts=([pinned], none, none),
        server_host_key_algs=[pinned.get_algorithm()],
        config=None,
        agent_path=None,
        client_factory=lambda: stranger,
    )


def _pinned_key(endpoint: Endpoint) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_public_key(endpoint.host_key)
    except ValueError as error:
        raise HostKeyError(
            f"{endpoint.where}: the pinned host key is no public key ({error}); nothing was sent.\n"
            f"  fix        write the key as `ssh-keyscan -p {endpoint.port} {endpoint.address}`"
            " prints it after the address"
        ) from error


def _client_key(endpoint: Endpoint, private_key: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(private_key)
    except ValueError as error:
        raise DeviceError(
            f"{endpoint.where}: the secret {endpoint.private_key_secret} is no private key without"
            f" a passphrase in OpenSSH form: {error}. Nothing was sent."
        ) from error


def _changed_key(endpoint: Endpoint, presented: str) -> str:
    return (
        f"{endpoint.where}: the host key is not the pinned one; nothing was sent.\n"
        f"  pinned     {endpoint.host_key}\n"
        f"  presented  {presented or 'none of the pinned type'}\n"
        f"  fix        if the host was reinstalled, pin the key that its console shows:"
        f" ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
    )


def _explain(
    endpoint: Endpoint, error: BaseException, presented: str, doing: _Doing
) -> DeviceError:
    """Say in words why there was no answer."""
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(_changed_key(endpoint, presented))
    if isinstance(error, asyncssh.PermissionDenied):
        return DeviceError(
            f"{endpoint.where} refused our SSH key (secret "
            f"{endpoint.private_key_secret}): {error.reason}"
        )
    return UnreachableError(f"{endpoint.where} {doing.failed(error)}")


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
