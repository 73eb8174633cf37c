"""What the supervisor keeps of a unit at run time, and how it has commands run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from components.core.record import record
from lab.hosts.units import DEFAULT_MEMLOCK_BYTES, Unit


@record
class Launch:
    """A command to run inside of the host."""

    argv: tuple[str, ...]
    env: dict[str, str]
    user: str = "root"
    cwd: str = "/"
    memlock: str = str(DEFAULT_MEMLOCK_BYTES)


class Launcher(Protocol):
    """How the supervisor runs a command in its host's namespace."""

    async def spawn(self, launch: Launch, log: Path) -> asyncio.subprocess.Process:
        """Start a command, output appended to `log`."""
        ...


@dataclass(slots=True)
class UnitState:
    """What systemd knows of a unit at run time."""

    unit: Unit
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    status: int = 0
    restarts: int = 0
    invocation: str = ""
    memlock: str = ""
    """LimitMEMLOCK of the running processes, as it was at their start."""
    process: asyncio.subprocess.Process | None = None
    watcher: asyncio.Task[None] | None = None
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    starts: list[float] = field(default_factory=list[float])
