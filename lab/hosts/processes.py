"""The processes behind a unit, seen from the outer machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

WRAPPERS = frozenset({"enter", ""})
"""Programs that stand between the lab and a unit's own program."""


def processes_of(invocation: str) -> list[int]:
    """Outer pids of all processes of one start of a unit.

    Without control groups of its own the lab knows them by the INVOCATION_ID that systemd gives
    each start of a unit and that children inherit.
    """
    if not invocation:
        return []
    mark = f"INVOCATION_ID={invocation}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
                if mark in environ.split(b"\0") and command_of(int(entry.name)) not in WRAPPERS:
                    found.append(int(entry.name))
    return found


def main_pid(process: asyncio.subprocess.Process | None) -> int:
    """Outer pid of a unit's main process: the child of the `enter` that the lab started."""
    if process is None:
        return 0
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(OSError):
        words = children.read_text().split()
        return int(words[0]) if words else 0
    return 0


def signal_all(invocation: str, number: signal.Signals) -> None:
    """Send a signal to every process of one start of a unit."""
    for pid in processes_of(invocation):
        send(pid, number)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def command_of(pid: int) -> str:
    """Name of the program that a process runs; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """The process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
