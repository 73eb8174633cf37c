"""Sessions that take whole lines: a shell with a prompt, and an exec of bash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast, runtime_checkable

from components.remote.ssh_library import asyncssh
from lab.switches.plain_faults import PlainFaults
from lab.switches.ssh_switch import Process, cut_connection


class Session(Protocol):
    """One login."""

    open: bool
    changes: int
    """Lines accepted so far that change something."""

    def prompt(self) -> str:
        """The prompt."""
        ...

    def run(self, line: str) -> str:
        """Run one line and return what it prints."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A login of which a command may wait for another login."""

    async def wait_for(self, line: str) -> None:
        """Wait as long as this line would."""
        ...


class BashSession(Session, Protocol):
    """One login of bash."""

    @property
    def status(self) -> int:
        """Exit status of the last command."""
        ...


async def answer(session: Session, faults: PlainFaults, line: str) -> str:
    """What a line prints, late if the planted fault says so."""
    if faults.slow_s:
        await asyncio.sleep(faults.slow_s)
    if isinstance(session, Patient):
        await session.wait_for(line)
    return session.run(line)


async def serve_shell(
    process: Process,
    session: Session,
    faults: PlainFaults,
    show: Callable[[str], Awaitable[None]] | None = None,
    enable_password: str = "",
) -> None:
    """Prompt and answer until somebody leaves.

    Args:
        process: The SSH channel.
        session: The login.
        faults: Of the switch.
        show: Prints an answer; default: as it is.
        enable_password: What `enable` asks for; empty where it asks for nothing.
    """
    process.stdout.write(session.prompt())
    async for line in process.stdin:
        asks = enable_password and line.strip() == "enable" and session.prompt().rstrip()[-1] == ">"
        if asks and await ask(process, "Password: ") != enable_password:
            process.stdout.write(f"% Bad secret\n{session.prompt()}")  # the words are a guess
            continue
        output = await answer(session, faults, line)
        if show is None:
            process.stdout.write(output)
        else:
            await show(output)
        if faults.drop_after is not None and session.changes >= faults.drop_after:
            faults.drop_after = None
            cut_connection(process)
            return
        if not session.open:
            break
        process.stdout.write(session.prompt())
    process.close()


async def ask(process: Process, question: str) -> str:
    """Ask for a password, which is not shown while it is typed."""
    channel = cast("asyncssh.SSHLineEditorChannel", process.channel)
    process.stdout.write(question)
    channel.set_echo(False)
    typed = await process.stdin.readline()
    channel.set_echo(True)
    process.stdout.write("\n")
    return typed.rstrip("\r\n")


async def serve_bash(
    process: Process, session: BashSession, faults: PlainFaults, greeting: str
) -> None:
    """A shell that greets, or one command and its exit status."""
    if process.command is None:
        process.stdout.write(greeting)
        await serve_shell(process, session, faults)
    else:
        process.stdout.write(await answer(session, faults, process.command))
        process.exit(session.status)
