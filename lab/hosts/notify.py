"""READY=1 of Type=notify services (sd_notify(3)): one datagram socket for each start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

INNER_FOLDER = "/run/lab/daemon"
MAX_MESSAGE_BYTES = 4096


class NotifySocket:
    """Where one start of a service says that it is ready."""

    def __init__(self, folder: Path, invocation: str) -> None:
        """Listen in `folder`, which the host sees as `INNER_FOLDER`; needs a running loop."""
        self._path = folder / f"notify-{invocation[:16]}"
        self.inner = f"{INNER_FOLDER}/{self._path.name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            # Through the folder's descriptor, as a socket address holds 108 bytes only.
            self._socket.bind(f"/proc/self/fd/{descriptor}/{self._path.name}")
        finally:
            os.close(descriptor)
        self._path.chmod(0o666)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        self._path.unlink(missing_ok=True)

    async def wait(self, process: asyncio.subprocess.Process, deadline_s: float | None) -> bool:
        """Wait for READY=1; False when the process ends before it or the time is up."""
        ready = asyncio.create_task(self._ready())
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({ready, ended}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        good = ready.done()
        for task in (ready, ended):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return good

    async def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await loop.sock_recv(self._socket, MAX_MESSAGE_BYTES)
            if b"READY=1" in message.split(b"\n"):
                return
