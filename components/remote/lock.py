"""One run at a time for one thing that is changed from this machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

from components.core.errors import DeviceError

POLL_S: Final = 0.2


@contextmanager
def hold_lock(name: str, busy: str, deadline_s: float) -> Generator[None, None, None]:
    """Hold the lock of one thing; a killed engine can leave a command running that holds it.

    Args:
        name: What is locked, as a part of a file's name.
        busy: What another run that holds it is doing, for the error.
        deadline_s: Seconds to wait for it.

    Raises:
        DeviceError: Another run still holds it after the deadline.
    """
    path = Path(tempfile.gettempdir()) / f"railyard-{os.getuid()}-{name}.lock"
    ends_at_s = time.monotonic() + deadline_s
    with path.open("a") as file:
        while not _locked(file.fileno()):
            if time.monotonic() > ends_at_s:
                raise DeviceError(
                    f"{busy} for more than {deadline_s:g} s. Nothing was changed. Wait for it to"
                    " end."
                )
            Event().wait(POLL_S)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
