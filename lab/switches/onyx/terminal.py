"""The three kinds of SSH session: a shell with a terminal, a shell without one, and an exec.

Output of each: lab/sources.md#onyx and sources.md#onyx-sessions.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from lab.switches.logins import serve_lines
from lab.switches.ssh_switch import Process

if TYPE_CHECKING:
    from lab.switches.onyx.cli import Faults, Session

# Capture C12: what an exec request gets that does not start with `cli`.
EXEC_REFUSAL = "UNIX shell commands cannot be executed using this account."
GREETING = (
    "Last login: Mon Mar 31 08:47:01 2025 from 192.168.1.100 on pts/0\n"
    "Number of total successful connections since last 1 days: 1\n"
    "\n"
    "Mellanox Switch\n"
    "\n"
)
"""oxidized's capture of a login on 3.9.2504; the clock does not move."""
DEFAULT_HEIGHT = 24
TYPED_AT_ONCE = 4096
"""Most keys to read and echo at once: one packet for each would slow the session down."""


async def serve(process: Process, session: Session, faults: Faults) -> None:
    """Serve one SSH channel to its end; without a terminal only results are printed (C8, C14)."""
    if process.command is not None:
        lines = _given(_lines_of(process))
        stays = await serve_lines(process, session, faults, lines)
        if stays and faults.exit_status is not None:
            process.exit(faults.exit_status)
            return
    elif process.get_terminal_type() is None:
        stays = await serve_lines(process, session, faults, process.stdin)
    else:
        terminal = _Terminal(process, session)
        stays = await serve_lines(process, session, faults, terminal.lines(), terminal.page)
    if stays:
        process.close()


def _lines_of(process: Process) -> list[str]:
    """The lines of an exec; `-h` takes one argument, the quoted list (capture C13)."""
    words = shlex.split(process.command or "")
    lines = words[1:]
    if words[:1] != ["cli"]:
        process.stdout.write(f"{EXEC_REFUSAL}\n")
        return []
    return shlex.split(" ".join(lines[1:])) if lines[:1] == ["-h"] else lines


async def _given(lines: Iterable[str]) -> AsyncIterator[str]:
    for line in lines:
        yield line


class _Terminal:
    """A shell with a terminal: banner, prompt, echo, pager."""

    def __init__(self, process: Process, session: Session) -> None:
        self._process = process
        self._session = session
        self._after_return = False
        self._typed = ""

    async def lines(self) -> AsyncIterator[str]:
        """The typed lines, until the client disconnects."""
        self._write(GREETING + self._session.prompt())
        while (line := await self._read_line()) is not None:
            yield line
            self._write(self._session.prompt())

    def _write(self, text: str) -> None:
        self._process.stdout.write(text.replace("\n", "\r\n"))

    async def _read_key(self) -> str:
        if not self._typed:
            self._typed = await self._process.stdin.read(TYPED_AT_ONCE)
        key, self._typed = self._typed[:1], self._typed[1:]
        return key

    async def _read_line(self) -> str | None:
        line = echo = ""
        while True:
            if echo and not self._typed:
                self._process.stdout.write(echo)
                echo = ""
            key = await self._read_key()
            if key == "":
                return None
            if key == "\n" and self._after_return:
                self._after_return = False
                continue
            self._after_return = key == "\r"
            if key in "\r\n":
                self._process.stdout.write(f"{echo}\r\n")
                return line
            if key in "\x7f\b":
                line = line[:-1]
                echo += "\b \b"
            elif key >= " ":
                line += key
                echo += key

    async def page(self, output: str) -> None:
        """Print through `less` while paging is on (oxidized's capture of 3.9.2504)."""
        if not self._session.paging or not output:
            self._write(output)
            return
        lines = output.splitlines()
        height = (self._process.get_terminal_size()[1] or DEFAULT_HEIGHT) - 1
        self._process.stdout.write("\x1b[?1h\x1b=\r")
        for start in range(0, len(lines), height):
            chunk = lines[start : start + height]
            self._write("".join(f"{line}\n" for line in chunk))
            end = start + len(chunk)
            if len(lines) <= height:
                break
            last = f"/{len(lines)} (END)" if end == len(lines) else ""
            self._process.stdout.write(f"\x1b[7mlines {start + 1}-{end}{last} ")
            if await self._read_key() in {"q", ""}:
                break
            self._process.stdout.write("\x1b[m\x1b[K\r\x1b[K")
        self._process.stdout.write("\r\x1b[K\x1b[?1l\x1b>\r")
