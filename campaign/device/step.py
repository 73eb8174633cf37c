"""One step of an update as the engine runs it: `railyard device …`, its stdin and environment."""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import FrameType, SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from campaign.device.wire import (
    KINDS,
    PATIENCE_S,
    Killed,
    Overrun,
    Time,
    Wire,
    WireTerminal,
)
from components.cli import main as cli
from components.core.record import record
from components.fabric import device, gate
from components.remote import switch_channels, switch_session

INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell reports it."""
KILLED: Final = 137
"""128 + SIGKILL."""


@record
class Ended:
    """How a step ended."""

    exit_code: int
    stdout: str
    stderr: str
    took_s: float
    """Virtual seconds."""
    overrun: str = ""
    """Why it was stopped by the campaign; empty: it ended by itself."""
    killed: bool = False


_CLOCK: Final = itertools.count(1_700_000_000_000)


@dataclass(slots=True)
class Runner:
    """Runs steps over a wire."""

    wire: Wire
    kinds: tuple[str, ...] = KINDS
    """The faults that this way can have."""

    def run(self, verb: str, stdin: str, environ: Mapping[str, str]) -> Ended:
        """Run `railyard device VERB` to its end."""
        time = self.wire.time = Time()
        out, err = io.StringIO(), io.StringIO()
        code, overrun, killed = 0, "", False
        with (
            self._in_place(verb, stdin, environ, time),
            _dying(),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                cli.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except KeyboardInterrupt:
                code = INTERRUPTED
            except Overrun as why:
                code, overrun = 1, str(why)
            except Killed:
                code, killed = KILLED, True
        return Ended(code, out.getvalue(), err.getvalue(), time.now_s, overrun, killed=killed)

    @contextmanager
    def _in_place(
        self,
        verb: str,
        stdin: str,
        environ: Mapping[str, str],
        time: Time,
    ) -> Generator[None]:
        clock = SimpleNamespace(
            time_ns=lambda: next(_CLOCK) * 1_000_000, monotonic=time.monotonic, time=time.monotonic
        )
        with ExitStack() as stack:
            for target, name, value in (
                *self.seams(time),
                (device, "time", clock),
                (gate, "time", time),
                (gate, "Event", time.event),
                (sys, "argv", ["railyard", "device", verb]),
                (sys, "stdin", io.StringIO(stdin)),
            ):
                stack.enter_context(patch.object(target, name, value))
            stack.enter_context(patch.dict(os.environ, environ))
            yield

    def seams(self, time: Time) -> Sequence[tuple[object, str, object]]:
        """What is put in the place of the product's connection: object, name, and stand-in."""
        opened = switch_session.open_session

        def opens(endpoint: Any, profile: Any, secrets: Any, deadline_s: float) -> object:  # noqa: ANN401 - as the product's
            renewed = 2 if hasattr(switch_session.SwitchSession, "renew") else 1
            time.ends_at_s = time.now_s + deadline_s * renewed + PATIENCE_S
            self.wire.dead = False
            terminal = WireTerminal(self.wire, profile)
            with patch.object(switch_channels, "open_terminal", return_value=terminal):
                return opened(endpoint, profile, secrets, deadline_s)

        return ((switch_session, "open_session", opens), (switch_session, "time", time))


@contextmanager
def _dying() -> Generator[None]:
    """SIGTERM ends a process at once, unless the product says otherwise."""

    def die(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise Killed

    before = signal.signal(signal.SIGTERM, die)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)
