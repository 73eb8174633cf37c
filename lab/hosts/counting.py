"""How many processes a lab host has started.

The pids of a host's own namespace are given out in order, so the newest pid is a count of all
processes and threads since its boot. Asking costs pids too; they are taken off.
"""

from __future__ import annotations

import subprocess

from lab.hosts.namespace import START_DEADLINE_S, Namespace


class Counting:
    """The count of one host since its boot."""

    def __init__(self) -> None:
        self._own = 0

    def count(self, namespace: Namespace) -> int:
        """Processes and threads that somebody else started."""
        first = _newest(namespace)
        cost = _newest(namespace) - first
        counted = first - self._own - cost
        self._own += 2 * cost
        return counted


def _newest(namespace: Namespace) -> int:
    argv = namespace.argv(["/bin/sh", "-c", "echo $$"])
    done = subprocess.run(
        argv,
        check=True,
        capture_output=True,
        timeout=START_DEADLINE_S,
        stdin=subprocess.DEVNULL,
    )
    return int(done.stdout)
