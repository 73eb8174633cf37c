"""Whether an update of a stack is running, or was ended by force: its state is then half-made.

The locks of the engine's file backend name the process that works on a stack.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from components.core.plain_text import shortened
from components.core.record import record

_FILE: Final = "file://"
_MOST_NAMED: Final = 5
_FOLDER: Final = ".pulumi/locks/organization"
"""The folder of lock files (pkg/backend/diy/lock.go); services do not show their locks."""


@record
class UnderWay:
    """The unfinished work of an update."""

    operations: tuple[str, ...] = ()
    """Each resource that the engine works on, with its verb: `gpu01-host (updating)`."""
    holder: str = ""
    """Process, user and host that hold the stack's lock; empty if the backend has no locks."""
    is_dead: bool = False
    """Whether the process that held the lock ran on this machine, and is gone."""

    @property
    def is_any(self) -> bool:
        """Whether an update runs or was ended by force."""
        return bool(self.operations or self.holder)

    def render(self, stack: str) -> str:
        """Describe the unfinished work and the next command, in two sentences."""
        shown = shortened(self.operations, _MOST_NAMED)
        work = f" on {shown}" if shown else ""
        now = f", now{work}" if work else ""
        again = f"run `railyard drift {stack}` again when it has ended"
        cancel = f"`pulumi cancel --stack {stack}`, then `pulumi up --stack {stack}`"
        if self.is_dead:
            return (
                f"An update of stack {stack} was ended by force while it worked{work}"
                f" ({self.holder}). Finish it: {cancel}."
            )
        if self.holder:
            return (
                f"An update of stack {stack} is running{now} ({self.holder})."
                f" What differs may be its unfinished work: {again}."
            )
        return (
            f"An update of stack {stack} is running{now}, or was ended by force."
            f" If it runs, {again}; if none runs: {cancel}."
        )


def find_under_way(exported: str, backend: str, project: str, stack: str) -> UnderWay:
    """Find unfinished work in an export and the backend's locks; `project` may be empty."""
    deployment: dict[str, Any] = json.loads(exported).get("deployment") or {}
    pending: list[dict[str, Any]] = deployment.get("pending_operations") or []
    operations: tuple[str, ...] = ()
    for each in pending:
        resource: dict[str, Any] = each.get("resource") or {}
        name = str(resource.get("urn", "")).rpartition("::")[2]
        operations += (f"{name} ({each.get('type', 'working')})",)
    lock = None
    if backend.startswith(_FILE):
        place = backend.removeprefix(_FILE).partition("?")[0]
        root = Path(place).expanduser() if place not in ("", "~") else Path.home()
        lock = next(read_locks(root, project or "*", stack), None)
    if lock is None:
        return UnderWay(operations)
    holder = f"process {lock.pid} of {lock.user}@{lock.host} since {lock.stamp}"
    is_gone = False
    if lock.host == socket.gethostname() and lock.pid:
        try:
            os.kill(lock.pid, 0)
        except ProcessLookupError:
            is_gone = True
        except PermissionError:
            pass  # another user's process: it still runs
    return UnderWay(operations, holder, is_gone)


@record
class Lock:
    """One lock file."""

    pid: int
    """0 if the file does not name it."""
    user: str
    host: str
    stamp: str
    """When it was taken, as the engine wrote it: RFC 3339 with nanoseconds."""


def read_locks(backend: Path, project: str, stack: str) -> Iterator[Lock]:
    """The locks on a stack, one after the other."""
    for file in sorted((backend / _FOLDER).glob(f"{project}/{stack}/*.json")):
        with suppress(OSError, ValueError):  # the engine released it in the meantime
            yield parse_lock(file.read_text())


def parse_lock(text: str) -> Lock:
    """Read a lock file; ValueError if the text is not JSON."""
    held: dict[str, object] = json.loads(text)
    pid, names = held.get("pid"), ("username", "hostname", "timestamp")
    return Lock(pid if isinstance(pid, int) else 0, *(str(held.get(name)) for name in names))
