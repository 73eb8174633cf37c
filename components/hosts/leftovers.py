"""What `destroy` cannot take back on a host, or not at once: said by `railyard plan` beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.hosts.keys.ask import KEYS, find_row, is_idle


@dataclass(frozen=True, slots=True)
class Leftovers:
    """In words, what an undo leaves on one host."""

    stays: tuple[str, ...]
    """For good, where this stack made or installed it."""
    until_restart: tuple[str, ...]
    """Are put back, and what runs is as before until the host or the card starts again."""


def leftovers(settings: Mapping[str, str]) -> Leftovers:
    """What the undo of these settings leaves."""
    rows = (find_row(key) for key, value in settings.items() if not is_idle(key, value))
    found = {row.pattern for row in rows if row and row.leaves}
    left = [row for row in KEYS if row.pattern in found]
    return Leftovers(
        tuple(dict.fromkeys(row.leaves for row in left if not row.loads_at_start)),
        tuple(dict.fromkeys(row.leaves for row in left if row.loads_at_start)),
    )
