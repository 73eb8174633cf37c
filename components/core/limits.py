"""Limits for all input from outside: a total deadline, and a limit of bytes.

A timeout of a socket starts again with each byte, so a peer that sends a little now and then, or
without end, never meets it. Readers here check a clock between two pieces and count the bytes.
"""

from __future__ import annotations

import io
import os
import select
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from components.core.errors import UsageError

if TYPE_CHECKING:
    import ssl

ANSWER_BYTES: Final = 8 << 20
"""Limit for one answer of a device. The longest expected one is the configuration or the state
database of a large switch, about 1 MB (512 ports with some 2 KB each)."""
LOG_BYTES: Final = 64 << 20
"""Limit for one log of a pod or a probe: some 500,000 lines."""
FILE_BYTES: Final = 32 << 20
"""Limit for a file that a user names: a site of 1,000 hosts has about 4 MB."""
PIECE_BYTES: Final = 1 << 16
STREAM_BYTES: Final = 2 << 30
"""Limit for a log on standard input: 1,000 ranks with `NCCL_DEBUG=INFO` write less than 1 GB."""
STREAM_DEADLINE_S: Final = 3600.0
"""Deadline for a log on standard input: a job may still be writing it."""
_ENDS: Final[ContextVar[Deadline | None]] = ContextVar("ends", default=None)


class TooLongError(OSError):
    """Input from outside exceeds its limit, and was not kept."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it sent more than {limit >> 20} MiB, which no sound answer has")


@dataclass(slots=True)
class Deadline:
    """The end of one piece of work, however often its socket waits before that."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    ends_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the deadline now."""
        self.ends_at_s = self.clock() + self.seconds

    def left_s(self) -> float:
        """Seconds until the end; TimeoutError if it has passed."""
        left = self.ends_at_s - self.clock()
        if left <= 0:
            raise TimeoutError(f"no end within {self.seconds:g} s")
        return left


@dataclass(slots=True)
class Held:
    """The pieces of one answer, up to a limit."""

    limit: int = ANSWER_BYTES
    size: int = 0
    pieces: list[bytes] = field(default_factory=list[bytes])

    def add(self, piece: bytes) -> None:
        """Keep one more piece; TooLongError if they would be more than the limit."""
        self.size += len(piece)
        if self.size > self.limit:
            raise TooLongError(self.limit)
        self.pieces.append(piece)

    def text(self) -> str:
        """The whole text; bytes that are not UTF-8 are replaced."""
        return b"".join(self.pieces).decode(errors="replace")


def read_all(read: Callable[[int], bytes], deadline: Deadline, limit: int) -> bytes:
    """Read until `read`, such as `read1` of an HTTP answer, gives nothing.

    TimeoutError: the deadline passed first. TooLongError: the answer exceeds the limit.
    """
    held = Held(limit)
    while piece := read(PIECE_BYTES):
        held.add(piece)
        deadline.left_s()
    return b"".join(held.pieces)


def _readable(files: Sequence[IO[bytes]], wait_s: float) -> list[IO[bytes]]:
    """Return the files with data or at their end; select(2) refuses descriptors from 1,024 on."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    ready = {number for number, _ in poll.poll(max(wait_s, 0) * 1000)}
    return [file for file in files if file.fileno() in ready]


def run_within(
    words: Sequence[str], seconds: float, limit: int = ANSWER_BYTES
) -> tuple[int, bytes, bytes]:
    """Run a program without a shell or input, and return its exit status, stdout and stderr.

    OSError: it cannot be run. TimeoutError: it did not end in time, and was killed. TooLongError:
    it printed more than the limit, and was killed.
    """
    from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired  # noqa: PLC0415 - `check` runs none

    deadline = Deadline(seconds)
    with Popen(words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as child:
        held = {pipe: Held(limit) for pipe in (child.stdout, child.stderr) if pipe is not None}
        waiting = [*held]
        try:
            while waiting:
                for pipe in _readable(waiting, deadline.left_s()):
                    piece = os.read(pipe.fileno(), PIECE_BYTES)
                    held[pipe].add(piece)
                    if not piece:
                        waiting.remove(pipe)
            status = child.wait(deadline.left_s())
        except TimeoutExpired:
            raise TimeoutError(f"no end within {seconds:g} s") from None
        finally:
            child.kill()  # does nothing if it has ended
        out, err = (b"".join(each.pieces) for each in held.values())
        return status, out, err


@contextmanager
def end_within(deadline: Deadline) -> Generator[Deadline]:
    """Make each read of a `timed` connection in this thread end at a deadline."""
    before = _ENDS.set(deadline)
    try:
        yield deadline
    finally:
        _ENDS.reset(before)


@cache
def _timed_socket() -> type[ssl.SSLSocket]:
    from ssl import SSLSocket  # noqa: PLC0415 - slow, and `check` connects to nothing

    class TimedSocket(SSLSocket):
        def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:  # noqa: ANN401 - any buffer
            if (deadline := _ENDS.get()) is not None:
                left_s = deadline.left_s()
                self.settimeout(min(self.gettimeout() or left_s, left_s))
            return super().recv_into(buffer, nbytes, flags)

    return TimedSocket


def timed(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make the connections of a context obey `end_within`, also while they read headers."""
    context.sslsocket_class = _timed_socket()
    return context


def read_file(path: Path, limit: int = FILE_BYTES) -> bytes:
    """Read a file that a user names; OSError if it cannot be read.

    UsageError: the path names a device or a pipe, or the file exceeds the limit.
    """
    return _sound(path, limit).read_bytes()


def read_text(path: Path, limit: int = FILE_BYTES) -> str:
    """Read it as UTF-8 text with Unix line ends; this can also raise UnicodeDecodeError."""
    return _sound(path, limit).read_text(encoding="utf-8")


def refuse_endless(path: Path) -> os.stat_result:
    """Refuse a device or a pipe: opening one may wait for ever, and reading one may never end.

    UsageError: the path is one. OSError: the file does not exist.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{path}: not a regular file. Save its text as a file and name that.")
    return found


def _sound(path: Path, limit: int) -> Path:
    found = refuse_endless(path)
    if stat.S_ISREG(found.st_mode) and found.st_size > limit:
        what = f"longer than {limit >> 20} MiB, the limit of a file that Railyard reads"
        raise UsageError(f"{path}: {what}. Is it the right file?")
    return path


@dataclass(slots=True)
class Stream:
    """A pipe, read with a deadline for all of it and a limit of bytes."""

    file: IO[bytes]
    deadline: Deadline = field(default_factory=lambda: Deadline(STREAM_DEADLINE_S))
    limit: int = STREAM_BYTES
    size: int = 0

    def read(self, size: int) -> bytes:
        """The next piece, at most `size` bytes; UsageError beyond the deadline or the limit."""
        try:
            ready = _readable([self.file], self.deadline.left_s())
        except TimeoutError:
            ready = []
        if not ready:
            fix = "Save the log as a file once it is complete, and name that."
            what = f"no end within {self.deadline.seconds:g} s"
            raise UsageError(f"standard input: {what}. {fix}")
        piece = os.read(self.file.fileno(), size)
        self.size += len(piece)
        if self.size > self.limit:
            what = f"standard input: more than {self.limit >> 20} MiB"
            raise UsageError(f"{what}. Save the log as a file, and name that.")
        return piece


def bounded(file: IO[bytes]) -> Stream | IO[bytes]:
    """Standard input with its limits; data in memory needs no limit."""
    in_memory: IO[bytes] | None = file if isinstance(file, io.BytesIO) else None
    return in_memory or Stream(file)
