"""The wire between the product's session and an emulated switch, in this process.

The product opens its session as it always does. Only the SSH connection below it is this module's:
what the terminal would bring from the socket comes from the emulator, with a fault in one
exchange, and time is virtual: a wait costs nothing and passes as the fault says. A share of the
seeds goes over real SSH (`campaign/device/ssh.py`), so that this stays honest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from components.remote import step
from components.remote.session_profile import SessionProfile
from components.remote.switch_channels import CHUNK_BYTES

COMMAND_S: Final[float] = getattr(step, "COMMAND_S", 0.0)
"""Seconds by which each command moves the deadline of a session."""
ANSWER_S: Final = 0.02
"""Virtual seconds of one answer of a switch in good health."""
FLOOD_S: Final = 2.0
"""Virtual seconds of each chunk of a flood: so few chunks reach any deadline."""
FLOOD: Final = "Ethernet1 flooding line of text\r\n" * 128
DRIP_S: Final = 5.0
PATIENCE_S: Final = 10.0
"""A run may end so long after its deadline."""
MAX_BYTES: Final = 500 * 1024 * 1024
GARBAGE: Final = "\ufffd\x00\x07~|{"
ESCAPES: Final = ("\x1b[2K\x1b[1G", "\x1b[?25l", "\x1b[0m", "\x1b]0;leaf\x07", "\x1b[7m")


class Overrun(BaseException):
    """A run went on after its deadline, or read without limit: it would never have ended."""


class Killed(BaseException):
    """The process was killed: nothing of it runs any more, and the device hears no more of it."""


class Login(Protocol):
    """One login at an emulator."""

    def prompt(self) -> str:
        """The prompt."""
        ...

    def run(self, line: str) -> str:
        """Run a line, and return what it prints."""
        ...


@dataclass(slots=True)
class Time:
    """Virtual seconds since the begin of a run."""

    now_s: float = 0.0
    ends_at_s: float = float("inf")
    """When the longest deadline of this run has passed, with the patience of the campaign."""

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now_s

    def perf_counter(self) -> float:
        """As `time.perf_counter`."""
        return self.now_s

    def event(self) -> Time:
        """In place of a `threading.Event` that nobody sets."""
        return self

    def wait(self, seconds: float) -> bool:
        """As that event's: it only takes time."""
        self.pass_by(seconds)
        return False

    def pass_by(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            Overrun: The run should have ended.
        """
        self.now_s += seconds
        if self.now_s > self.ends_at_s:
            raise Overrun(f"still waiting after {self.now_s:.0f} s")


@dataclass(slots=True)
class Fault:
    """What happens in one exchange of a run."""

    kind: str
    at: int
    """Number of the exchange: a command and its answer, from 0; prepare lines do not count."""
    chance: random.Random
    hook: Callable[[], None] = lambda: None
    """What happens beside the session: a boot, another admin, a signal."""
    met: bool = False
    """The run came so far."""


@dataclass(slots=True)
class Wire:
    """All sessions of one run with one switch."""

    login: Callable[[], Login]
    time: Time
    refusal: str
    fault: Fault | None = None
    exchanges: int = 0
    dead: bool = False
    """No session reaches the switch any more in this run."""
    after: Callable[[], None] = lambda: None
    """Called after each command that the switch ran."""


def cut_short(output: str, chance: random.Random) -> str:
    """The beginning of an answer."""
    return output[: chance.randint(0, max(len(output) - 1, 0))]


def garbled(output: str, chance: random.Random) -> str:
    """An answer in which some characters are others."""
    found = [*output]
    for _ in range(max(len(found) // 40, 1)):
        if found:
            found[chance.randrange(len(found))] = chance.choice(GARBAGE)
    return "".join(found)


class WireTerminal:
    """In place of the product's terminal: bytes of the switch, and the fault."""

    def __init__(self, wire: Wire, profile: SessionProfile) -> None:
        self._wire = wire
        self._profile = profile
        self._login = wire.login()
        self._stream: Iterator[bytes | None] = iter(())
        self._read = b""
        """Of the last piece, what was too long for one read."""
        self._typed = ""
        self._over = False
        self._send(self._login.prompt())

    def _send(self, text: str) -> None:
        """Lines of a terminal end with a carriage return too."""
        data = text.replace("\r\n", "\n").replace("\n", "\r\n").encode()
        self._stream = iter([*self._left(), data])

    def _left(self) -> list[bytes]:
        return [each for each in self._stream if each is not None]

    def read(self, within_s: float) -> bytes:
        """The next bytes; blank at the end of the session.

        Raises:
            TimeoutError: Nothing comes.
        """
        if self._over and self._wire.dead:
            return b""
        data = self._read or next(self._stream, None)
        if data is None:
            if self._over:
                return b""
            self._wire.time.pass_by(max(within_s, 0.001))
            raise TimeoutError
        self._read = data[CHUNK_BYTES:]
        return data[:CHUNK_BYTES]

    def close(self) -> None:
        """End it, and the shell with it: a lock that it holds is free again."""
        self._over = True
        if leave := getattr(self._login, "leave", None):
            leave()

    def write(self, text: str) -> None:
        """What the product types.

        Raises:
            OSError: The session is over.
            Killed: So is the process.
        """
        if self._over or self._wire.dead:
            raise OSError("Socket is closed")
        self._typed += text
        before = self._is_lost()
        while "\n" in self._typed and not self._over:
            line, _, self._typed = self._typed.partition("\n")
            if self._is_lost() and not before:
                self._run(line)  # of the same command: its answer is lost with that of the others
            else:
                self._exchange(line)

    def _is_lost(self) -> bool:
        fault = self._wire.fault
        return fault is not None and fault.met and fault.kind in {"stall", "flood", "drip"}

    def _exchange(self, line: str) -> None:
        wire, command = self._wire, line
        own = line in self._profile.prepare
        number = wire.exchanges
        wire.exchanges += 0 if own else 1
        wire.time.ends_at_s += 0 if own else COMMAND_S
        wire.time.pass_by(ANSWER_S)
        fault = wire.fault
        if own or fault is None or number != fault.at:
            self._answer(command)
            return
        fault.met = True
        _FAULTS[fault.kind](self, command, fault)

    # What a switch in good health does.

    def _run(self, command: str) -> str:
        output = self._login.run(command)
        self._wire.after()
        return output

    def _answer(self, command: str) -> None:
        self._send(self._answered(command, self._run(command)))

    def _answered(self, command: str, output: str) -> str:
        return f"{command}\n{output}{self._login.prompt()}"

    # The faults.

    def refuse(self, command: str, fault: Fault) -> None:
        """The switch refuses the command, and runs nothing."""
        del fault
        refusal = self._wire.refusal
        if self._profile.has_status:
            refusal = f"{refusal}[status 1]\n"
        self._send(self._answered(command, refusal))

    def stall(self, command: str, fault: Fault) -> None:
        """It runs the command and says nothing."""
        del fault
        self._run(command)

    def cut_before(self, command: str, fault: Fault) -> None:
        """The session ends before the switch has the command."""
        del command, fault
        self._stream = iter(())
        self.close()

    def cut_in(self, command: str, fault: Fault) -> None:
        """The session ends in the middle of the answer."""
        text = self._answered(command, self._run(command))
        self._send(text[: fault.chance.randint(0, max(len(text) - 2, 0))])
        self.close()

    def cut_after(self, command: str, fault: Fault) -> None:
        """The session ends after the command, before its answer."""
        del fault
        self._run(command)
        self._stream = iter(())
        self.close()

    def flood(self, command: str, fault: Fault) -> None:
        """The switch prints without end."""
        del fault
        self._run(command)

        def chunks() -> Iterator[bytes]:
            sent = 0
            while True:
                self._wire.time.pass_by(FLOOD_S)
                sent += len(FLOOD)
                if sent > MAX_BYTES:
                    raise Overrun(f"read {sent >> 20} MiB of one answer")
                yield FLOOD.encode()

        self._stream = chunks()

    def drip(self, command: str, fault: Fault) -> None:
        """A byte every few seconds, without end: no read of its own ever times out."""
        del fault
        self._run(command)

        def drops() -> Iterator[bytes]:
            while True:
                self._wire.time.pass_by(DRIP_S)
                yield b"."

        self._stream = drops()

    def slow(self, command: str, fault: Fault) -> None:
        """A right answer that comes in small pieces, late but in time."""
        text = self._answered(command, self._run(command)).replace("\n", "\r\n").encode()
        size = max(len(text) // 8, 1)

        def pieces() -> Iterator[bytes]:
            for start in range(0, len(text), size):
                self._wire.time.pass_by(0.4)
                yield text[start : start + size]

        del fault
        self._stream = pieces()

    def duplicate(self, command: str, fault: Fault) -> None:
        """The answer comes twice."""
        del fault
        text = self._answered(command, self._run(command))
        self._send(text + text)

    def truncate(self, command: str, fault: Fault) -> None:
        """The end of the answer is lost, the prompt is not."""
        self._send(self._answered(command, cut_short(self._run(command), fault.chance)))

    def garble(self, command: str, fault: Fault) -> None:
        """Some characters of the answer are others."""
        self._send(self._answered(command, garbled(self._run(command), fault.chance)))

    def escape(self, command: str, fault: Fault) -> None:
        """The switch moves the cursor about, as a console does: nothing of it is an answer."""
        lines = self._answered(command, self._run(command)).split("\n")
        self._send("\n".join(f"{line}{fault.chance.choice(ESCAPES)}" for line in lines[:-1]))
        self._stream = iter([*self._left(), ("\r\n" + lines[-1]).encode()])

    def beside(self, command: str, fault: Fault) -> None:
        """Something happens before the command arrives, and the session goes on."""
        fault.hook()
        self._answer(command)

    def boot(self, command: str, fault: Fault) -> None:
        """The switch boots in the middle: the session ends, what was not saved is lost."""
        if fault.chance.random() < 0.5:  # noqa: PLR2004 - before or after the command
            self._run(command)
        fault.hook()
        self._stream = iter(())
        self.close()

    def signal(self, command: str, fault: Fault) -> None:
        """The process gets a signal while the command runs."""
        self._answer(command)
        fault.hook()

    def kill(self, command: str, fault: Fault) -> None:
        """The process is killed: the switch may have run the command."""
        if fault.chance.random() < 0.5:  # noqa: PLR2004 - before or after the command
            self._run(command)
        self.close()
        self._wire.dead = True
        raise Killed


_FAULTS: Final = {
    "refuse": WireTerminal.refuse,
    "stall": WireTerminal.stall,
    "cut before": WireTerminal.cut_before,
    "cut in": WireTerminal.cut_in,
    "cut after": WireTerminal.cut_after,
    "flood": WireTerminal.flood,
    "drip": WireTerminal.drip,
    "slow": WireTerminal.slow,
    "duplicate": WireTerminal.duplicate,
    "truncate": WireTerminal.truncate,
    "garble": WireTerminal.garble,
    "escape": WireTerminal.escape,
    "another admin": WireTerminal.beside,
    "boot": WireTerminal.boot,
    "SIGINT": WireTerminal.signal,
    "SIGTERM": WireTerminal.signal,
    "kill": WireTerminal.kill,
}
KINDS: Final = (*_FAULTS,)
