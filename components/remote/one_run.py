"""Allow one changing run at a time from this machine, and stop it only between two commands.

An exception in the middle of an answer would leave its rest for the next command. So the first
SIGINT or SIGTERM is only recorded: the exchange ends before its next command, and restores its
changes. A second one ends the step at once.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Final, Protocol

from components.core.errors import DeviceError
from components.core.plain_text import plain_text
from components.core.templates import fault_text

POLL_S: Final = 0.2
PRIVATE: Final = 0o700
LONGEST_HOLDER: Final = 500
"""Most characters of a lock file that name its holder."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def lock_folder() -> Path:
    """Return the folder of this user's locks; not XDG_RUNTIME_DIR, which a timer lacks."""
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
    return DeviceError(fault_text(__file__, "lock-folder", place=place, why=why))


@contextmanager
def hold_lock(name: str, busy: str, deadline_s: float) -> Generator[None, None, None]:
    """Hold a lock, also while an orphaned command runs; DeviceError at the deadline."""

    def locked(descriptor: int) -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    path = lock_folder() / f"{name}.lock"
    ends_at_s = time.monotonic() + deadline_s
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _refused(path, f"cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "r+") as file:
        while not locked(file.fileno()):
            if time.monotonic() > ends_at_s:
                holder = plain_text(file.read(LONGEST_HOLDER).strip()) or "a run that left no name"
                words = {"busy": busy, "limit_s": deadline_s, "holder": holder}
                raise DeviceError(fault_text(__file__, "held", **words))
            Event().wait(POLL_S)
        since, who = time.strftime("%Y-%m-%d %H:%M:%S %Z"), f"process {os.getpid()}"
        file.truncate(0)
        file.write(f"{who} on {socket.gethostname()} in {Path.cwd()}, since {since}\n")
        file.flush()
        yield


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop; the text is its name."""


class InterruptedTwice(KeyboardInterrupt):
    """A second signal: stop sending at once."""


@dataclass(slots=True)
class Stop:
    """The stop that signals requested."""

    asked: str = ""
    """Name of the first signal; empty without one."""
    heard: bool = False
    """The exchange knows about it, and is restoring values."""

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; InterruptedTwice if it is the second one."""
        del frame
        if self.asked:
            raise InterruptedTwice(signal.Signals(number).name)
        self.asked = signal.Signals(number).name
        say(
            f"{self.asked}: the step ends after this command and puts the previous values back;"
            " a second signal ends it at once"
        )


@contextmanager
def stop_on_signals() -> Generator[Stop]:
    """Record signals while the block runs; this works only in the main thread."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.ask) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Session(Protocol):
    """An open command line."""

    @property
    def where(self) -> str:
        """The device and its address."""
        ...

    def run(self, command: str) -> str:
        """Send one line, and return its output."""
        ...


class Timed(Session, Protocol):
    """A session with a deadline."""

    def left_s(self) -> float:
        """Seconds to the deadline, which may grow with each command."""
        ...

    def renew(self) -> None:
        """Restart the deadline."""
        ...


def say(text: str) -> None:
    """Print a line on stderr, which Pulumi stores with the step's output."""
    sys.stderr.write(f"{plain_text(text)}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class WatchedSession:
    """A session that can be stopped, and that reports once when half of its time is used."""

    session: Timed
    stop: Stop
    say: Callable[[str], None] = say
    clock: Callable[[], float] = time.monotonic
    planned: int = 0
    """Lines that the exchange will send; 0 while it only reads."""
    sent: int = 0
    _begun_s: float = field(init=False)
    _told: bool = False

    def __post_init__(self) -> None:
        """Start the clock."""
        self._begun_s = self.clock()

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.session.where

    def plan(self, lines: int) -> None:
        """Announce the number of lines to send."""
        self.planned, self.sent = lines, 0

    def run(self, command: str) -> str:
        """Send one command; Interrupted if a signal came before: restoring has its deadline."""
        if self.stop.asked and not self.stop.heard:
            self.stop.heard = True
            self.session.renew()
            raise Interrupted(self.stop.asked)
        answer = self.session.run(command)
        self.sent += 1
        used_s, left_s = self.clock() - self._begun_s, self.session.left_s()
        if not self._told and used_s > left_s:
            self._told = True
            lines = f", {self.sent} of {self.planned} lines sent" if self.planned else ""
            self.say(f"{self.where}: {used_s:.0f} of {used_s + left_s:.0f} s used{lines}")
        return answer
