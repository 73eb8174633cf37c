"""A folder in memory that nobody else sees, and that is gone with the process that made it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from components.core.errors import UsageError

_FSOPEN: Final = 430
_FSCONFIG: Final = 431
_FSMOUNT: Final = 432
"""Numbers of the calls on every processor; Linux has them since 5.2."""
_CREATE: Final = 6
"""FSCONFIG_CMD_CREATE of linux/mount.h."""
_CLOSE_ON_EXEC: Final = 1


class MemoryFolder:
    """A tmpfs that is mounted nowhere: it is reached by a descriptor of this process."""

    def __init__(self) -> None:
        """Make one.

        Raises:
            UsageError: The kernel makes none, for example for another user than root.
        """
        made = _call(_FSOPEN, b"tmpfs", _CLOSE_ON_EXEC)
        try:
            _call(_FSCONFIG, made, _CREATE, None, None, 0)
            self._descriptor = _call(_FSMOUNT, made, _CLOSE_ON_EXEC, 0)
        finally:
            os.close(made)

    @property
    def path(self) -> Path:
        """Where every process of this machine finds it, while this one has it."""
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def close(self) -> None:
        """Give it back; it lasts for those who still work in it."""
        os.close(self._descriptor)


def _call(number: int, *words: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    got = int(library.syscall(ctypes.c_long(number), *words))
    if got < 0:
        why = os.strerror(ctypes.get_errno())
        raise UsageError(f"the lab got no folder in memory: {why}; is it run by root?")
    return got
