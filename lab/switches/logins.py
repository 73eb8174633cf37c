"""Logins of emulated switches, and sessions that take whole lines."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Protocol, cast, runtime_checkable

from components.remote.ssh_library import asyncssh
from lab.switches.emulators import Daemons
from lab.switches.neighbours import Told, tell
from lab.switches.plain_faults import PlainFaults
from lab.switches.ssh_switch import FaultsT, Process, SshSwitch, StoredT, cut_connection
from lab.views import SwitchConfig


class Session(Protocol):
    """One login."""

    open: bool
    changes: int
    """Lines accepted so far that change something."""

    def prompt(self) -> str:
        """The prompt."""
        ...

    def run(self, line: str) -> str:
        """Run one line and return its output."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A login whose command may wait for another login."""

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
    """The output of a line, delayed by the planted fault."""
    if faults.slow_s:
        await asyncio.sleep(faults.slow_s)
    if isinstance(session, Patient):
        await session.wait_for(line)
    return session.run(line)


Show = Callable[[str], Awaitable[None]]
"""Prints an answer in its own way."""


async def serve_lines(
    process: Process,
    session: Session,
    faults: PlainFaults,
    lines: AsyncIterable[str],
    show: Show | None = None,
) -> bool:
    """Answer lines until the user leaves; False: the planted fault has cut the connection."""
    async for line in lines:
        output = await answer(session, faults, line)
        if show is None:
            process.stdout.write(output)
        else:
            await show(output)
        if faults.drop_after is not None and session.changes >= faults.drop_after:
            faults.drop_after = None
            cut_connection(process)
            return False
        if not session.open:
            break
    return True


async def serve_shell(
    process: Process,
    session: Session,
    faults: PlainFaults,
    show: Show | None = None,
    enable_password: str = "",
) -> None:
    """Prompt and answer until the user leaves; `enable` asks for its password, if it has one."""
    lines = _prompted(process, session, enable_password)
    if await serve_lines(process, session, faults, lines, show):
        process.close()


async def _prompted(process: Process, session: Session, enable_password: str) -> AsyncIterator[str]:
    process.stdout.write(session.prompt())
    async for line in process.stdin:
        asks = enable_password and line.strip() == "enable" and session.prompt().rstrip()[-1] == ">"
        if asks and await ask(process, "Password: ") != enable_password:
            process.stdout.write("% Bad secret\n")  # the words are a guess
        else:
            yield line
        process.stdout.write(session.prompt())


async def ask(process: Process, question: str) -> str:
    """Ask for a password without echo."""
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
    """Serve a shell with a greeting, or one command and its exit status."""
    if process.command is None:
        process.stdout.write(greeting)
        await serve_shell(process, session, faults)
    else:
        process.stdout.write(await answer(session, faults, process.command))
        process.exit(session.status)


class PasswordLogin(asyncssh.SSHServer):
    """A password, as OpenSSH of Cumulus and SONiC asks for it; or a key, if the user has one."""

    by_keyboard: ClassVar[bool] = False
    """Whether keyboard-interactive asks for the password."""

    def __init__(self, config: SwitchConfig, banner: str = "") -> None:
        self._config = config
        self._banner = banner
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection, for its banner."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Send the banner; a password is always needed."""
        del username
        if self._connection is not None and self._banner:
            self._connection.send_auth_banner(self._banner)
        return True

    def public_key_auth_supported(self) -> bool:
        """Allow keys if the lab's user has one."""
        return bool(self._config.authorized_key)

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Compare the key with the lab's."""
        offered = key.export_public_key().decode().split()[1]
        own = self._config.authorized_key.split()
        return username == self._config.user and own[1:2] == [offered]

    def password_auth_supported(self) -> bool:
        """Allow passwords unless keyboard-interactive asks for it."""
        return not self.by_keyboard

    def validate_password(self, username: str, password: str) -> bool:
        """Compare the password with the lab's."""
        return (username, password) == (self._config.user, self._config.password)

    def kbdint_auth_supported(self) -> bool:
        """Allow keyboard-interactive if it asks for the password."""
        return self.by_keyboard

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, Sequence[tuple[str, bool]]]:
        """Ask for the password."""
        del username, lang, submethods
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        """Compare the answer with the lab's password."""
        return len(responses) == 1 and self.validate_password(username, responses[0])


class KeyboardLogin(PasswordLogin):
    """Keyboard-interactive: Onyx and MLNX-OS (capture C15), and EOS by default."""

    by_keyboard = True


class LinuxSwitch(SshSwitch[StoredT, FaultsT]):
    """A switch whose logins get bash, and which may run real routing daemons."""

    host_mac: ClassVar[str]
    """MAC address that a host announces as its port, if it runs no real lldpd."""
    frr: Daemons | None = None
    """The real routing daemons, if the lab runs them."""

    def login(self) -> asyncssh.SSHServer:
        """Check the password of the only user."""
        return PasswordLogin(self._config)

    @abstractmethod
    def up(self, port: str) -> bool:
        """Whether a port has link: it is cabled, not shut, and its cable is not pulled."""

    def heard(self) -> Mapping[str, tuple[str, Told]]:
        """Port to the neighbour's (system, announced port) by LLDP, for ports with link."""
        if self.frr is not None:
            return self.frr.heard()
        return {
            port: (system, tell(name, self.host_mac))
            for port, (system, name) in self.plugged.items()
            if self.up(port)
        }
