"""What a finished command gives back, and how a failed one is told, alike for both kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SCANNER_LIMIT_BYTES: Final = 64 * 1024
"""bufio.Scanner's token limit: the real plugin hangs for ever on a logged line this long."""

LogLine = Callable[[str], None]
"""Shows one line of a running command as a passing status."""


class CommandError(Exception):
    """A command that failed or could not be started; the text is what the user reads."""


@dataclass(frozen=True, slots=True)
class Previous:
    """Standard output and error of the last run, for the next run's environment."""

    stdout: str
    stderr: str

    def environment(self) -> dict[str, str]:
        """Return the variables that the next run may see; empty output sets none."""
        pairs = {"PULUMI_COMMAND_STDOUT": self.stdout, "PULUMI_COMMAND_STDERR": self.stderr}
        return {key: value for key, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command that succeeded has written, one trailing newline taken off each."""

    stdout: str
    stderr: str


@dataclass(slots=True)
class Recorder:
    """Collects a command's output in order, and shows it line by line where asked to."""

    log: LogLine
    log_stdout: bool
    log_stderr: bool
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    both: bytearray = field(default_factory=bytearray)
    longest_line_bytes: int = 0
    _partial: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes, *, is_stderr: bool) -> None:
        """Take in a piece of output. Call it from one thread at a time."""
        (self.stderr if is_stderr else self.stdout).extend(data)
        self.both.extend(data)
        if self.log_stderr if is_stderr else self.log_stdout:
            self._show(data)

    def outcome(self, command: str, error: str | None) -> Outcome:
        """Return the outcome of a command that ended well.

        Raises:
            CommandError: The command failed with `error`, or wrote a logged line that the real
                plugin cannot handle.

        """
        if self._partial:
            self._show(b"\n")
        if error is not None:
            raise CommandError(f"{error}: running {quote(command)}:\n{_text(self.both)}")
        if self.longest_line_bytes >= SCANNER_LIMIT_BYTES:
            raise CommandError(
                f"running {quote(command)}: it wrote a line of {self.longest_line_bytes} bytes; the"
                " real plugin hangs for ever on a logged line of 64 KiB: set logging to none"
            )
        return Outcome(_trim(_text(self.stdout)), _trim(_text(self.stderr)))

    def _show(self, data: bytes) -> None:
        self._partial.extend(data)
        *lines, rest = bytes(self._partial).split(b"\n")
        self._partial = bytearray(rest)
        self.longest_line_bytes = (
            max(self.longest_line_bytes, len(rest), *(len(line) for line in lines))
            if lines
            else max(self.longest_line_bytes, len(rest))
        )
        for line in lines:
            self.log(line.decode(errors="replace").rstrip("\r"))


def quote(command: str) -> str:
    """Return the command in double quotes with escapes, close to Go's %q."""
    return json.dumps(command, ensure_ascii=False)


def _text(data: bytearray) -> str:
    return bytes(data).decode(errors="replace")


def _trim(text: str) -> str:
    return text.removesuffix("\n")
