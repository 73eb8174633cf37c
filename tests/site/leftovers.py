"""What a lab and its engine may leave behind: processes and mounts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import psutil

from components.core.record import record

MARK: Final = "RAILYARD_SITE_TEST"
"""In the environment of all that these tests start, and of all that those start in turn."""
POLL_S: Final = 0.1


@record
class Alive:
    """One process that should not be there; its start time tells it from a later namesake."""

    pid: int
    started: float
    command: str


def marked_processes(mark: str, project: Path) -> list[psutil.Process]:
    """All processes that these tests started, or that play a device of this project's labs."""
    labs = f"{project}/.lab/"
    own = os.getpid()
    return [
        process
        for process in psutil.process_iter()
        if process.pid != own and (_has_mark(process, mark) or labs in _command(process))
    ]


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except psutil.Error:
        return False


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it; what plays a host's own processes is found by this alone."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_until_gone(processes: list[psutil.Process], deadline_s: float) -> list[Alive]:
    """Wait for processes to end; those that do not are reported, and never ended here."""
    deadline = time.monotonic() + deadline_s
    while (alive := _alive(processes)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return alive


def _alive(processes: list[psutil.Process]) -> list[Alive]:
    found: list[Alive] = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Alive(process.pid, process.create_time(), _command(process)))
        except psutil.NoSuchProcess:
            continue
    return found


def mount_points() -> list[str]:
    """All of them, FUSE or other: proc(5) mountinfo, field 5."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def mounts_under(folder: Path) -> list[str]:
    """Mount points inside a folder."""
    return [point for point in mount_points() if point.startswith(f"{folder}/")]
