"""How vtysh speaks to a daemon of FRR, over its Unix socket (FRR, lib/vty.c, `vtysh_read`).

A command ends with a zero byte; its answer ends with three zero bytes and the command's status.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from components.core.record import record

ANSWER_DEADLINE_S: Final = 30.0
"""A daemon answers within milliseconds; a machine whose cores are shared needs longer."""
_CHUNK: Final = 1 << 16
_END: Final = b"\0\0\0"


@record
class Reply:
    """What a daemon answers to one command."""

    status: int
    """0: done; 1 and 13: a warning; 2: unknown; others in FRR's lib/command.h."""
    text: str


def exchange(path: Path, commands: Sequence[str], *, whole: bool = False) -> tuple[Reply, ...]:
    """Give commands to a daemon, in privileged mode.

    Args:
        path: The daemon's socket, for example `/run/frr/bgpd.vty`.
        commands: Lines as vtysh would pass them on.
        whole: Give all of them; else none after the first that the daemon does not do.

    Raises:
        OSError: The daemon is gone or does not answer.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(ANSWER_DEADLINE_S)
            # Through the folder's descriptor, as a socket address holds 108 bytes only.
            line.connect(f"/proc/self/fd/{folder}/{path.name}")
            _ask(line, "enable")
            replies: list[Reply] = []
            for command in commands:
                replies.append(_ask(line, command))
                if replies[-1].status and not whole:
                    break
            return tuple(replies)
    finally:
        os.close(folder)


def _ask(line: socket.socket, command: str) -> Reply:
    line.sendall(command.encode() + b"\0")
    answer = b""
    while len(answer) <= len(_END) or answer[-4:-1] != _END:
        more = line.recv(_CHUNK)
        if not more:
            raise ConnectionResetError(f"FRR closed the connection at {command!r}")
        answer += more
    return Reply(answer[-1], answer[:-4].decode(errors="replace"))
