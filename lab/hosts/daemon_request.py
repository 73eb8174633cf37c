"""How a tool of a lab host asks the lab daemon, over the host's own control socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

from pydantic import TypeAdapter

from components.core.errors import UsageError

MAX_ANSWER_BYTES = 16 << 20
_ANSWER = TypeAdapter(dict[str, object])


async def ask_daemon(path: Path, body: dict[str, object]) -> dict[str, object]:
    """Send one request and give the answer.

    Raises:
        UsageError: The lab refuses it.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)  # noqa: FBT003 - the socket module's own signature
    # Through the folder's descriptor, as a socket address holds 108 bytes only.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_ANSWER_BYTES)
    try:
        writer.write(json.dumps(body).encode() + b"\n")
        answer = _ANSWER.validate_json(await reader.readline())
    finally:
        writer.close()
    if answer.pop("ok", False) is not True:
        raise UsageError(str(answer.get("error", "the lab refused without a reason")))
    return answer
