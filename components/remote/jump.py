"""Jump hosts: one connection to each in a run, and a channel through it for each device."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from components.remote.explain import Doing, explain
from components.remote.login import Client, client_options
from components.remote.ssh_library import asyncssh
from components.remote.step import Endpoint

CONNECT_DEADLINE_S: Final = 20.0
"""Seconds until a host has accepted the login; a host that is down gives no answer at all."""
CLOSE_DEADLINE_S: Final = 5.0
"""Seconds for a polite end of a connection whose answers are in."""


class JumpHosts:
    """The connections to jump hosts in one event loop, each made once.

    An sshd counts logins that are under way (`MaxStartups`), and a way for each device of a rack at
    once would be dropped at random; channels through one connection are not counted.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._open: dict[tuple[Endpoint, ...], asyncio.Task[asyncssh.SSHClientConnection]] = {}

    async def through(
        self, hops: tuple[Endpoint, ...], secrets: Mapping[str, str] | None = None
    ) -> asyncssh.SSHClientConnection | None:
        """The connection to the last jump host of a way; None where there is none on it.

        Args:
            hops: The jump hosts of the way.
            secrets: Those of this way; by default, those of the run.

        Raises:
            DeviceError: A jump host is not reached, or refuses; it is not asked again in this run.
        """
        if not hops:
            return None
        if hops not in self._open or _has_ended(self._open[hops]):
            self._open[hops] = asyncio.create_task(self._connect(hops, secrets or self._secrets))
        return await asyncio.shield(self._open[hops])

    async def _connect(
        self, hops: tuple[Endpoint, ...], secrets: Mapping[str, str]
    ) -> asyncssh.SSHClientConnection:
        before = await self.through(hops[:-1], secrets)
        return await login(hops[-1], secrets, before, CONNECT_DEADLINE_S)

    async def close(self) -> None:
        """End all connections, those that lie behind others first."""
        tasks = list(self._open.values())[::-1]
        self._open.clear()
        for task in tasks:
            task.cancel()
            with suppress(BaseException):
                await end(await task)


def _has_ended(task: asyncio.Task[asyncssh.SSHClientConnection]) -> bool:
    """A connection that was there and is lost: a jump host that refused us stays refused."""
    return (
        task.done()
        and not task.cancelled()
        and task.exception() is None
        and task.result().is_closed()
    )


async def login(
    endpoint: Endpoint,
    secrets: Mapping[str, str],
    through: asyncssh.SSHClientConnection | None,
    deadline_s: float,
) -> asyncssh.SSHClientConnection:
    """Log in to one SSH server whose key is pinned.

    Args:
        endpoint: Which one.
        secrets: Secret name to value.
        through: The connection to the jump host before it, or None.
        deadline_s: Seconds until it has accepted the login.

    Raises:
        UnreachableError: No session within the deadline, and why.
        HostKeyError: It presented another key, or none is pinned; nothing was sent.
        DeviceError: It refused our key or password, or there is none.
    """
    # asyncssh uses it only with servers that have nothing newer, and we were asked for those.
    warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")
    client = Client(secrets.get(endpoint.password_secret or ""))
    doing = Doing("connect", deadline_s)
    address, port = endpoint.address, endpoint.port
    try:
        async with (
            asyncio.timeout(deadline_s),
            client_options(endpoint, secrets, client) as options,
        ):
            return await asyncssh.connect(address, port, tunnel=through or (), options=options)
    except (TimeoutError, OSError, asyncssh.Error) as error:
        raise explain(endpoint, error, doing, client) from error


async def end(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection, politely for as long as that takes little time."""
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await connection.wait_closed()
    except (TimeoutError, OSError, asyncssh.Error):
        connection.abort()


@asynccontextmanager
async def jump_hosts(secrets: Mapping[str, str]) -> AsyncGenerator[JumpHosts]:
    """The jump hosts of one run, closed at its end."""
    hosts = JumpHosts(secrets)
    try:
        yield hosts
    finally:
        await hosts.close()
