"""A command-line session with a switch: one SSH connection, one deadline, a learned prompt."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.core.errors import DeviceError, UnreachableError
from components.core.limits import ANSWER_BYTES, TooLongError
from components.core.templates import fault_text
from components.remote import switch_channels
from components.remote.session_profile import Prompt, SessionProfile, last_line
from components.remote.ssh import is_question, no_session, printed_last
from components.remote.step import COMMAND_S, Endpoint

CONNECT_S: Final = 10.0
"""Seconds to connect and log in: a running switch answers in about one second."""
TAIL: Final = 2 * switch_channels.CHUNK_BYTES
"""Characters at the end that are searched; else each chunk would search the whole answer."""
QUESTION_S: Final = 1.0
"""Seconds of silence after which a known question is not just part of a banner."""
ECHOED: Final = 60
"""Characters of a command whose echo is awaited: a terminal may break a longer line."""
_STATUS: Final = re.compile(r"\[status (\d+)\]")
_STATUS_AT_END: Final = re.compile(r"\[status (\d+)\]\n?$")
_PASSWORD: Final = r"[Pp]assword: ?\Z"  # noqa: S105 - what a switch asks
_SUDO: Final = "railyard-asks-for-sudo:"
_ASKED: Final = re.compile(rf"{_PASSWORD}|{_SUDO} ?\Z")
_REASON: Final = re.compile(r"try again|incorrect|denied|Bad|%|sudo:")


@dataclass(slots=True)
class CommandLine:
    """Types into a terminal, and reads up to the next prompt."""

    terminal: switch_channels.Terminal
    profile: SessionProfile
    prompt: Prompt
    tail: str = ""
    """The last characters since the last command, without escapes."""
    _stream: switch_channels.PlainStream = field(default_factory=switch_channels.PlainStream)

    def type(self, line: str) -> None:
        """Send one line, and forget earlier output."""
        self.tail = ""
        self.terminal.write(f"{line}\n")

    def ends_after(self, command: str) -> Callable[[str], bool]:
        """Return a test for an answer's end: its status or echo came, so the prompt is its own."""
        echo = re.escape(_first(command))
        mark = _STATUS if self.profile.has_status else re.compile(echo)
        seen = False

        def ends(tail: str) -> bool:
            nonlocal seen
            seen = seen or mark.search(tail) is not None
            return seen and self.prompt.find(tail) is not None

        return ends

    def ask(self, command: str, ends_at_s: float) -> str:
        """Send a command and read to the prompt; raise as `read` does."""
        line = self.profile.line_of(command)
        self.type(line)
        return self.read(self.ends_after(line), ends_at_s)

    def read(self, ends: Callable[[str], bool], ends_at_s: float, *, asks: bool = False) -> str:
        """Read until `ends` accepts the end; with `asks`, stop early at a known question.

        Raises: TimeoutError at the deadline. TooLongError. EOFError: the session ended first.
        """
        pieces, size = list[str](), 0
        while not ends(self.tail):
            left_s = ends_at_s - time.monotonic()
            if left_s <= 0:  # a switch that sends without a pause never lets `read` time out
                raise TimeoutError
            waiting = f"{self.tail}{self._stream.held}"
            if asks and is_question(waiting):
                left_s = min(left_s, QUESTION_S)
            try:
                chunk = self.terminal.read(left_s)
            except TimeoutError:
                self.tail = waiting  # an unfinished title may contain the prompt
                raise
            if not chunk:
                raise EOFError
            size += len(chunk)
            if size > ANSWER_BYTES:
                raise TooLongError(ANSWER_BYTES)
            pieces.append(self._stream.feed(chunk))
            self.tail = (self.tail + pieces[-1])[-TAIL:]
        return "".join(pieces)


@dataclass(slots=True)
class SwitchSession(switch_channels.DeviceSession):
    """An open session at a command line."""

    line: CommandLine
    ends_at_s: float
    deadline_s: float
    sent: int = 0

    def run(self, command: str) -> str:
        """Send one line and return its output, without echo, prompt and escapes.

        Each line extends the deadline a little, since a large switch needs more lines. On systems
        with exit statuses, a status other than 0 is at the end as `[status N]`. UnreachableError:
        the session ended, or the deadline passed, before the prompt.
        """
        self.sent += 1
        self.ends_at_s += self._command_s
        try:
            raw = self.line.ask(command, self.ends_at_s)
        except TooLongError as error:
            raise UnreachableError(f"{self.where}: the answer to `{command}`: {error}") from error
        except TimeoutError as error:
            more = {"limit_s": self.deadline_s, "command_s": self._command_s, "sent": self.sent}
            raise UnreachableError(self._cut("no-prompt", command, **more)) from error
        except (OSError, EOFError) as error:
            raise UnreachableError(self._cut("session-ended", command)) from error
        return _answer(raw, command, self.line)

    def _cut(self, row: str, command: str, **more: float) -> str:
        last = printed_last(self.endpoint, self.line.tail, waits=False)
        return fault_text(__file__, row, where=self.where, command=command, last=last, **more)

    @property
    def _command_s(self) -> float:
        return self.endpoint.command_s or COMMAND_S

    def left_s(self) -> float:
        """Seconds to the deadline."""
        return self.ends_at_s - time.monotonic()

    def renew(self) -> None:
        """Restart the deadline, to restore changed values."""
        self.ends_at_s = time.monotonic() + self.deadline_s

    def close(self) -> None:
        """Close the terminal."""
        self.line.terminal.close()


def _first(typed: str) -> str:
    return typed.partition("\n")[0][:ECHOED]


def _answer(raw: str, command: str, line: CommandLine) -> str:
    """Return a command's output: the text between its echo and the prompt.

    A slow terminal echoes a line twice, first alone and then after the prompt (netmiko reports this
    for EOS). A status other than 0 stays.
    """
    typed, prompt = line.profile.line_of(command), line.prompt.find(raw) or ""
    text = raw[: len(raw) - len(prompt)].replace("\r", "")
    _, _, rest = text[max(text.find(_first(typed)), 0) :].partition("\n")
    again, _, body = rest.partition("\n")
    if again.endswith(typed) and line.prompt.find(again[: -len(typed)]):
        rest = body
    if not line.profile.has_status:
        return rest
    found = _STATUS_AT_END.search(rest)
    if found is None:
        return f"{rest}\n[status unknown]\n"
    return rest[: found.start()] if found[1] == "0" else rest


def open_session(
    endpoint: Endpoint, profile: SessionProfile, secrets: Mapping[str, str], deadline_s: float
) -> SwitchSession:
    """Log in within the deadline; errors as of `ssh.login`, and for the passwords of `_rise`."""
    ends_at_s, within_s = time.monotonic() + deadline_s, min(CONNECT_S, deadline_s)
    terminal = switch_channels.open_terminal(endpoint, secrets, within_s)
    try:
        line = CommandLine(terminal, profile, Prompt(profile.prompt))
        _prepare(endpoint, line, secrets, within_s)
    except BaseException:
        terminal.close()
        raise
    return SwitchSession(endpoint, line, ends_at_s, deadline_s)


def open_device(
    endpoint: Endpoint, profile: SessionProfile, secrets: Mapping[str, str], deadline_s: float
) -> SwitchSession | switch_channels.HttpsSession:
    """Open a device by its system's API or command line; see both for arguments and errors."""
    if profile.https:
        return switch_channels.open_https(endpoint, secrets, deadline_s)
    return open_session(endpoint, profile, secrets, deadline_s)


def _prepare(
    endpoint: Endpoint, line: CommandLine, secrets: Mapping[str, str], within_s: float
) -> None:
    """Learn the prompt, get the rights that the file has a password for, and turn the pager off.

    Nothing is typed before a prompt appears, since it could answer a question, such as one for a
    new password.
    """
    ends_at_s = time.monotonic() + within_s
    first, *others = line.profile.prepare or ("",)
    try:
        line.read(lambda tail: line.prompt.find(tail) is not None, ends_at_s, asks=True)
        line.terminal.write(f"{first}\n")
        line.read(lambda tail: line.prompt.learn(tail) is not None, ends_at_s, asks=True)
        line.prompt = line.prompt.learn(line.tail) or line.prompt
        _rise(endpoint, line, secrets, ends_at_s)
        for each in others:
            line.ask(each, ends_at_s)
    except TooLongError as error:
        raise no_session(endpoint, f"{error}", within_s) from error
    except TimeoutError as error:
        why = printed_last(endpoint, line.tail, waits=True)
        within = None if is_question(line.tail) else within_s
        raise no_session(endpoint, why, within) from error
    except (OSError, EOFError) as error:
        why = printed_last(endpoint, line.tail, waits=False)
        raise no_session(endpoint, f"the switch ended it; {why}", within_s) from error


def _rise(
    endpoint: Endpoint, line: CommandLine, secrets: Mapping[str, str], ends_at_s: float
) -> None:
    """Get the rights that the file has a password for: `enable`, or sudo's.

    The sudo credential is valid for this terminal, as long as the switch's sudoers permit (15
    minutes in Debian), and each use restarts that time.
    """
    if endpoint.enable_secret is not None and line.profile.enables:
        said = _give(line, "enable", secrets.get(endpoint.enable_secret, ""), ends_at_s)
        if said.rstrip().endswith(">"):
            raise _refused(endpoint, "enable", endpoint.enable_secret, said)
    if endpoint.sudo_secret is not None and line.profile.has_status:
        password = secrets.get(endpoint.sudo_secret, "")
        said = _give(line, f"sudo -v -p {_SUDO}", password, ends_at_s)
        left = _give(line, "sudo -n true", "", ends_at_s)
        if "sudo:" in left.partition("\n")[2]:
            raise _refused(endpoint, "sudo", endpoint.sudo_secret, said + left)


def _give(line: CommandLine, command: str, password: str, ends_at_s: float) -> str:
    """Send a line, answer a password question once, and end at the prompt."""
    typed = line.profile.line_of(command)
    ends = line.ends_after(typed)
    # A signal would discard input on its way to a shell; sudo also accepts the end of input.
    no_more = "\x04" if line.profile.has_status else "\x03"

    def asks_or_ends(tail: str) -> bool:
        at_end = ends(tail)
        return at_end or _ASKED.search(last_line(tail)) is not None

    line.type(typed)
    said, answer = [line.read(asks_or_ends, ends_at_s)], f"{password}\n"
    while _ASKED.search(last_line(line.tail)):
        line.tail = ""
        line.terminal.write(answer)
        said.append(line.read(asks_or_ends, ends_at_s))
        answer = no_more  # it asks again: try no other password
    return "".join(said[1:] or said)


def _refused(endpoint: Endpoint, what: str, secret: str, heard: str) -> DeviceError:
    lines = filter(None, map(str.strip, heard.splitlines()))
    reasons = [*filter(_REASON.search, lines), "no reason given"]
    words = next((line for line in reasons if "incorrect" in line), reasons[0])
    said = {"endpoint": endpoint, "what": what, "secret": secret, "words": words}
    return DeviceError(fault_text(__file__, "refused-password", **said))
