"""A session of a step: it says how far it is, and ends between two commands on a signal.

An exception in the middle of an answer would leave the rest of it for the next command. So the
first SIGINT or SIGTERM is only noted: the exchange ends before its next command, and puts back what
it changed. A second one ends the step at once.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Protocol

from components.core.plain_text import plain_text

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal asked for an end; its text is the name of the signal."""


class InterruptedTwice(KeyboardInterrupt):
    """A second signal: nothing more is sent."""


@dataclass(slots=True)
class Stop:
    """What signals have asked for."""

    asked: str = ""
    """Name of the first signal; empty: there was none."""
    heard: bool = False
    """The exchange knows of it, and is putting back."""

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises:
            InterruptedTwice: It is the second one.
        """
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
    """Note signals while the block runs; only the main thread can."""
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
        """Send one line; returns what it printed."""
        ...


class Timed(Session, Protocol):
    """The same with a deadline."""

    def left_s(self) -> float:
        """Seconds to the deadline, which may grow with each command."""
        ...

    def renew(self) -> None:
        """Begin the deadline again."""
        ...


def say(text: str) -> None:
    """A line on stderr, which Pulumi keeps with the output of the step."""
    sys.stderr.write(f"{plain_text(text)}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class WatchedSession:
    """A session that can be stopped, and that says once when half of its time is used."""

    session: Timed
    stop: Stop
    say: Callable[[str], None] = say
    clock: Callable[[], float] = time.monotonic
    planned: int = 0
    """Lines that the exchange has to send; 0 while it only reads."""
    sent: int = 0
    _begun_s: float = field(init=False)
    _told: bool = False

    def __post_init__(self) -> None:
        """The time begins now."""
        self._begun_s = self.clock()

    @property
    def where(self) -> str:
        """The device and its address, as errors name them."""
        return self.session.where

    def plan(self, lines: int) -> None:
        """So many lines are about to be sent."""
        self.planned, self.sent = lines, 0

    def run(self, command: str) -> str:
        """Send one command.

        Raises:
            Interrupted: A signal came since the last command; this one was not sent. What is put
                back gets a deadline of its own.
        """
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
