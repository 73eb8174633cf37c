"""The three ways in over SSH: a shell with a terminal, a shell without one, and an exec.

What is printed in each: docs/explanation/sources.md#onyx and sources.md#onyx-sessions.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

from lab.switches.ssh_switch import Process, cut_connection

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
"""oxidized's capture of a login on 3.9.2504; the clock stands still."""
DEFAULT_HEIGHT = 24
TYPED_AT_ONCE = 4096
"""So many keys are taken, and echoed, at once: a packet for each would be most of a session."""


class Dropped(Exception):  # noqa: N818 - an event, no error of anyone
    """The fault that cuts a session in the middle."""


async def serve(process: Process, session: Session, faults: Faults) -> None:
    """Serve one SSH channel to its end."""
    try:
        if process.command is not None:
            await _serve_exec(process, session, faults)
        elif process.get_terminal_type() is None:
            await _serve_lines(process, session, faults)
        else:
            await _Terminal(process, session, faults).serve()
    except Dropped:
        cut_connection(process)


async def _answer(session: Session, faults: Faults, line: str) -> str:
    if faults.slow_s:
        await asyncio.sleep(faults.slow_s)
    output = session.run(line)
    if faults.drop_after is not None and session.changes >= faults.drop_after:
        faults.drop_after = None
        raise Dropped
    return output


async def _serve_exec(process: Process, session: Session, faults: Faults) -> None:
    words = shlex.split(process.command or "")
    if not words or words[0] != "cli":
        process.stdout.write(f"{EXEC_REFUSAL}\n")
    else:
        lines = words[1:]
        if lines[:1] == ["-h"]:  # one argument that holds the quoted list (capture C13)
            lines = shlex.split(" ".join(lines[1:]))
        for line in lines:
            process.stdout.write(await _answer(session, faults, line))
            if not session.open:
                break
    if faults.exit_status is None:
        process.close()
    else:
        process.exit(faults.exit_status)


async def _serve_lines(process: Process, session: Session, faults: Faults) -> None:
    """Read lines to the end of input and print only results (captures C8, C14)."""
    async for line in process.stdin:
        process.stdout.write(await _answer(session, faults, line))
        if not session.open:
            break
    process.close()


class _Terminal:
    """A shell with a terminal: banner, prompt, echo, pager."""

    def __init__(self, process: Process, session: Session, faults: Faults) -> None:
        self._process = process
        self._session = session
        self._faults = faults
        self._after_return = False
        self._typed = ""

    async def serve(self) -> None:
        """Talk until the session is closed or the client goes away."""
        self._write(GREETING)
        while self._session.open:
            self._write(self._session.prompt())
            line = await self._read_line()
            if line is None:
                break
            output = await _answer(self._session, self._faults, line)
            await self._page(output)
        self._process.close()

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

    async def _page(self, output: str) -> None:
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
            last = end >= len(lines)
            if len(lines) <= height:
                break
            mark = f"lines {start + 1}-{end}{f'/{len(lines)} (END)' if last else ''} "
            self._process.stdout.write(f"\x1b[7m{mark}")
            if await self._read_key() in {"q", ""}:
                break
            self._process.stdout.write("\x1b[m\x1b[K\r\x1b[K")
        self._process.stdout.write("\r\x1b[K\x1b[?1l\x1b>\r")
