"""One run at a time for one thing that is changed from this machine."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import IO, Final

from components.core.errors import DeviceError
from components.core.plain_text import plain_text

POLL_S: Final = 0.2
PRIVATE: Final = 0o700
LONGEST_HOLDER: Final = 500
"""Characters of what a lock says of its holder."""


def lock_folder() -> Path:
    """The folder of this user's locks, which only that user can write.

    It must be the same for every run: XDG_RUNTIME_DIR is no such place, since a timer has none.

    Raises:
        DeviceError: It cannot be made, or it is another user's, or a link.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "railyard" / "locks"
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            folder.chmod(PRIVATE)
            return folder
    except OSError as error:
        raise _refused(folder, f"cannot be used: {error.strerror}") from error
    raise _refused(folder, "is a link, or belongs to another user, who could hold every lock")


def _refused(place: Path, why: str) -> DeviceError:
    return DeviceError(
        f"{place}, which keeps two runs from changing one device at once, {why}. Nothing was"
        " changed.\n  fix    remove it, or set XDG_CACHE_HOME, the same for every run"
    )


@contextmanager
def hold_lock(name: str, busy: str, deadline_s: float) -> Generator[None, None, None]:
    """Hold the lock of one thing; a killed engine can leave a command running that holds it.

    Args:
        name: What is locked, as a part of a file's name.
        busy: What another run that holds it is doing, for the error.
        deadline_s: Seconds to wait for it.

    Raises:
        DeviceError: Another run still holds it after the deadline, or its file cannot be opened.
    """
    path = lock_folder() / f"{name}.lock"
    ends_at_s = time.monotonic() + deadline_s
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "r+") as file:
        while not _locked(file.fileno()):
            if time.monotonic() > ends_at_s:
                holder = plain_text(file.read(LONGEST_HOLDER).strip()) or "a run that left no name"
                raise DeviceError(
                    f"{busy} for more than {deadline_s:g} s. Nothing was changed. Wait for it to"
                    f" end.\n  holder  {holder}"
                )
            Event().wait(POLL_S)
        _sign(file)
        yield


def _sign(file: IO[str]) -> None:
    """Name the holder; the folder is that of its project."""
    since, who = time.strftime("%Y-%m-%d %H:%M:%S %Z"), f"process {os.getpid()}"
    file.truncate(0)
    file.write(f"{who} on {socket.gethostname()} in {Path.cwd()}, since {since}\n")
    file.flush()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
