"""The socket on which the emulated tools of one ESXi host ask."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from lab.hosts.tool_server import HEADER, REQUEST, SOCKET_NAME, Request, render_answer
from lab.hosts.tools.call import ToolResult

Answer = Callable[[Request], Awaitable[ToolResult]]


class ToolSocket:
    """Answers one tool call for each connection; a call ends when its client goes away."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        """Serve on a socket in `folder`."""
        self._folder = folder
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        path = self._folder / SOCKET_NAME
        self._folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            # Through the folder's descriptor, as a socket address holds 108 bytes only.
            listener.bind(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
        finally:
            os.close(descriptor)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work: asyncio.Task[ToolResult] | None = None
        try:
            (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
            request = REQUEST.validate_json(await reader.readexactly(size))
            work = asyncio.ensure_future(self._answer(request))
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            result = _ended_by(gone.result()) if gone.done() else work.result()
            gone.cancel()
            if result is not None:
                writer.write(render_answer(result))
                await writer.drain()
        except (OSError, EOFError, ValueError):
            # The client went away, as a killed process does; nobody waits for the answer.
            return
        finally:
            if work is not None:
                work.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _ended_by(received: bytes) -> ToolResult | None:
    """How a tool ends that got a signal, which its client passes on; None when it is gone."""
    return ToolResult(128 + received[0]) if received else None
