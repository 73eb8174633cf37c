"""Tools that run a process on the standard streams of their own client, as sudo does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from lab.hosts.tools.call import ToolCall, ToolResult


class Relay:
    """Passes signals that the tool's client got to the process that the tool runs."""

    def __init__(self, connection: socket.socket) -> None:
        """Listen on the client's connection."""
        self._connection = connection

    async def watch(self, send: Callable[[int], None]) -> None:
        """Read signal numbers until the client is gone."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._connection, 16):
            for number in data:
                send(number)


class Streams:
    """The standard streams of a tool's client, and the relay of its signals."""

    def __init__(self, descriptors: list[int], relay: Relay) -> None:
        """Own the descriptors until `close`."""
        self.descriptors = descriptors
        self.relay = relay

    def close_input(self) -> None:
        """Put /dev/null in the place of the standard input."""
        empty = os.open(os.devnull, os.O_RDONLY)
        os.close(self.descriptors[0])
        self.descriptors[0] = empty

    def close(self) -> None:
        """Give the descriptors back."""
        for number in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(number)
        self.descriptors = []


RunOnStreams = Callable[[ToolCall, Streams], Awaitable[ToolResult]]


async def run_on_streams(
    argv: Sequence[str], env: Mapping[str, str], call: ToolCall, streams: Streams
) -> ToolResult:
    """Run a command line on the client's streams; its status is the tool's."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=streams.descriptors[0],
        stdout=streams.descriptors[1],
        stderr=streams.descriptors[2],
        env=dict(env),
        cwd="/",
        umask=call.umask,
        start_new_session=True,
    )
    streams.close()
    watch = asyncio.create_task(streams.relay.watch(_forward_to(process.pid)))
    try:
        status = await process.wait()
    finally:
        watch.cancel()
    return ToolResult(status if status >= 0 else 128 - status)


def _forward_to(pid: int) -> Callable[[int], None]:
    def forward(number: int) -> None:
        if forwardable(number):
            signal_tree(pid, number)

    return forward


def signal_tree(pid: int, number: int) -> None:
    """Send a signal to the child of an `enter`, which passes none on itself."""
    with contextlib.suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for word in words:
            os.kill(int(word), number)


def forwardable(number: int) -> bool:
    """Signals that sudo passes on."""
    return number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
