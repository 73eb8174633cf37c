"""Jump hosts: one connection to each in a run, and a channel through it for each device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from components.remote.explain import Doing, explain
from components.remote.login import Stranger, client_options
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

    async def through(self, hops: tuple[Endpoint, ...]) -> asyncssh.SSHClientConnection | None:
        """The connection to the last jump host of a way; None where there is none on it.

        Raises:
            DeviceError: A jump host is not reached, or refuses; it is not asked again in this run.
        """
        if not hops:
            return None
        if hops not in self._open:
            self._open[hops] = asyncio.create_task(self._connect(hops))
        return await asyncio.shield(self._open[hops])

    async def _connect(self, hops: tuple[Endpoint, ...]) -> asyncssh.SSHClientConnection:
        before = await self.through(hops[:-1])
        return await login(hops[-1], self._secrets, before, CONNECT_DEADLINE_S)

    async def close(self) -> None:
        """End all connections, those that lie behind others first."""
        tasks = list(self._open.values())[::-1]
        self._open.clear()
        for task in tasks:
            task.cancel()
            with suppress(BaseException):
                await end(await task)


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
    stranger = Stranger()
    doing = Doing("connect", deadline_s)
    address, port = endpoint.address, endpoint.port
    try:
        async with (
            asyncio.timeout(deadline_s),
            client_options(endpoint, secrets, stranger) as options,
        ):
            return await asyncssh.connect(address, port, tunnel=through or (), options=options)
    except (TimeoutError, OSError, asyncssh.Error) as error:
        raise explain(endpoint, error, stranger.presented, doing) from error


async def end(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection, politely for as long as that takes little time."""
    connection.close()
    with suppress(TimeoutError, OSError, asyncssh.Error):
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await connection.wait_closed()


@asynccontextmanager
async def jump_hosts(secrets: Mapping[str, str]) -> AsyncGenerator[JumpHosts]:
    """The jump hosts of one run, closed at its end."""
    hosts = JumpHosts(secrets)
    try:
        yield hosts
    finally:
        await hosts.close()
