"""Real daemons answer in their own time: a test looks again until it sees what it wants."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

DONE_S: Final = 120.0
"""The machine may be busy; each wait ends with what it waits for."""
POLL_S: Final = 0.1


def until(look: Callable[[], object], wanted: object) -> None:
    """Look until it is as wanted; the failure shows what was seen last."""
    deadline = time.monotonic() + DONE_S
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(POLL_S)
