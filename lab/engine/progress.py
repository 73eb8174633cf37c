"""Long work with a word every ten seconds, and locks so that two callers do it once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

TICK_S: Final = 10.0
STOP_S: Final = 10.0
TIMED_OUT: Final = 124
"""The exit status that timeout(1) gives."""


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock file, waiting for another holder. The kernel frees it if we die."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that holds {path}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_shown(
    command: Sequence[str],
    what: str,
    timeout_s: float,
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    lines: int = 0,
) -> tuple[int, str]:
    """Run a command and say every ten seconds that it still runs.

    Args:
        command: Program and arguments.
        what: What is done and why, for the person who waits.
        timeout_s: The command is ended after this time, with status 124.
        directory: Where it runs.
        environment: Its whole environment; ours when None.
        lines: How many lines it prints if nothing is cached; the time that is left is estimated
            from them. 0: not known.

    Returns:
        The exit status, and standard output and error together.

    """
    print(f"{what} …", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=log, stderr=log, text=True
        )
        try:
            status = _wait(child, what, timeout_s, partial(estimate, log.fileno(), lines))
        except BaseException:
            _end(child)
            raise
        log.seek(0)
        output = log.read()
    word = "done" if status == 0 else f"failed with exit status {status}"
    print(f"{what}: {word} after {time.monotonic() - started:.0f} s", flush=True)
    return status, output


def estimate(file: int, lines: int, elapsed_s: float) -> str:
    """Tell how far a command is and how long it still takes, from the lines of its log.

    Go also writes a line, which begins with `go: `, for each module that it downloads.
    """
    # The command writes at the offset that it shares with us: pread does not move it.
    log = os.pread(file, os.fstat(file).st_size, 0)
    done = log.count(b"\n") - log.count(b"\ngo: ") - log.startswith(b"go: ")
    if not 0 < done < lines:
        return ""
    return f", {done} of {lines} packages, {elapsed_s / done * (lines - done):.0f} s left or less"


def _wait(
    child: subprocess.Popen[str], what: str, timeout_s: float, left: Callable[[float], str]
) -> int:
    started = time.monotonic()
    while True:
        try:
            return child.wait(timeout=TICK_S)
        except subprocess.TimeoutExpired:
            elapsed_s = time.monotonic() - started
            print(f"  {what}: {elapsed_s:.0f} s{left(elapsed_s)}", flush=True)
            if elapsed_s > timeout_s:
                _end(child)
                return TIMED_OUT


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
