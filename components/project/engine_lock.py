"""The locks of the engine's file backend: who works on a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, cast

_FOLDER: Final = ".pulumi/locks/organization"
"""Where they lie (pkg/backend/diy/lock.go); services keep theirs to themselves."""


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file."""

    file: Path
    pid: int
    """0 where the file does not say."""
    user: str
    host: str
    stamp: str
    """When it was taken, as the engine wrote it: RFC 3339 with nanoseconds."""

    @property
    def taken_at(self) -> datetime:
        """The same as a time.

        Raises:
            ValueError: It is none.
        """
        return datetime.fromisoformat(self.stamp)


def read_locks(backend: Path, project: str, stack: str) -> Iterator[Lock]:
    """The locks on a stack, one after the other.

    Args:
        backend: The folder of the backend.
        project: Name of the project, or `*` for all.
        stack: Name of the stack.
    """
    for file in sorted((backend / _FOLDER).glob(f"{project}/{stack}/*.json")):
        try:
            yield parse_lock(file, file.read_text())
        except (OSError, ValueError):
            continue  # it was given back while we looked


def parse_lock(file: Path, text: str) -> Lock:
    """Read a lock file.

    Raises:
        ValueError: It is no JSON.
    """
    held = cast("Mapping[str, object]", json.loads(text))
    pid = held.get("pid")
    return Lock(
        file=file,
        pid=pid if isinstance(pid, int) else 0,
        user=str(held.get("username")),
        host=str(held.get("hostname")),
        stamp=str(held.get("timestamp")),
    )
