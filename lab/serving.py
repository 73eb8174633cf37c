"""What a lab daemon does: it plays the devices of one lab file and answers its control socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.core.errors import RailyardError
from lab.hosts.host import LabHost
from lab.hosts.lab_file import LabFile
from lab.hosts.machine_room import Lab

MAX_LINE_BYTES = 16 << 20
THREADS = 256
"""Waiting for a process or reading a socket takes a thread each; hosts run many at a time."""
REQUEST = TypeAdapter(dict[str, object])


async def listen(lab: Lab, path: Path) -> asyncio.Server:
    """Answer control requests on a unix socket that root alone may use."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=folder)
    try:
        # Through the folder's descriptor, as a socket address holds 108 bytes only.
        server = await asyncio.start_unix_server(
            lambda r, w: _serve_connection(lab, r, w),
            f"/proc/self/fd/{folder}/{path.name}",
            limit=MAX_LINE_BYTES,
        )
        os.chmod(path.name, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    return server


async def _serve_connection(
    lab: Lab, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError):
        while line := await reader.readline():
            writer.write(json.dumps(await _reply(lab, line)).encode() + b"\n")
            await writer.drain()
    writer.close()


async def _reply(lab: Lab, line: bytes) -> dict[str, object]:
    try:
        return {"ok": True, **await lab.answer(REQUEST.validate_json(line))}
    except ValidationError as error:
        return {"ok": False, "error": f"this is no request: {error}"}
    except RailyardError as error:
        return {"ok": False, "error": str(error)}
    except Exception as error:  # noqa: BLE001 - one bad request must not end the lab; it is reported
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


async def serve(lab_file: LabFile) -> None:
    """Play the lab until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lab = Lab(lab_file)
    servers: list[asyncio.Server] = []

    async def attend(host: LabHost) -> None:
        servers.append(await listen(lab, host.control_socket))

    lab.attend = attend
    try:
        # The hosts' own sockets first: what their units start at boot may ask the lab.
        for host in lab.hosts.values():
            await attend(host)
        await lab.start()
        servers.append(await listen(lab, lab_file.control_socket))
        print(f"lab {lab_file.stack} is up", flush=True)
        await stopping.wait()
    finally:
        for server in servers:
            server.close()
        await lab.stop()
