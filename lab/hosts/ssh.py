"""The SSH server of one lab host: public key only, exec requests, no environment from the client.

Like sshd it runs the user's shell with `-c`; a command goes on when its client goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Awaitable, Callable

from components.core.errors import UsageError
from components.core.record import record
from components.remote.ssh_library import asyncssh
from lab.hosts.accounts import Account
from lab.hosts.authorized_keys import find_key
from lab.keys import KeyKind, host_key

CLOSE_DEADLINE_S = 5.0
CHUNK_BYTES = 1 << 16
"""What a pipe takes at once."""
FORCED = "railyard_forced_command"
"""Key under which a connection keeps the forced command of the key that it was let in with."""


@record
class Login:
    """One session to start."""

    account: Account
    command: str | None
    """What the user's shell runs; None for an interactive one."""
    original: str | None
    """What the client asked for where its key has a forced command."""
    peer: str
    """Address of the client."""


SpawnForUser = Callable[[Login], "subprocess.Popen[bytes]"]
"""Starts the user's shell with three pipes."""


class _Server(asyncssh.SSHServer):
    """Lets in a user of the host with a key of their authorized_keys, and no other way."""

    def __init__(
        self,
        live: set[asyncssh.SSHServerConnection],
        account: Callable[[str], Account | None],
        authorized: Callable[[Account], list[str]],
        count: Callable[[], None],
        lets_in: Callable[[], bool],
    ) -> None:
        self._live = live
        self._lets_in = lets_in
        self._count = count
        self._account = account
        self._authorized = authorized
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._live.add(conn)
        if not self._lets_in():
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._connection is not None:
            self._live.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        account = self._account(username)
        if account is None:
            return False
        if self._connection is None:
            return False
        offered = key.export_public_key().decode().split()[1]
        address = str(self._connection.get_extra_info("peername")[0])
        found = find_key(self._authorized(account), offered, address)
        if found is None:
            return False
        self._connection.set_extra_info(**{FORCED: found.command})
        return True

    def auth_completed(self) -> None:
        self._count()


def _refuse_environment() -> None:
    """Make the lab's servers answer an `env` request as sshd does without AcceptEnv: refused.

    asyncssh takes every variable and has no option for it; only this lab process is changed.
    """

    def refuse(_channel: asyncssh.SSHServerChannel[bytes], _packet: object) -> bool:
        return False

    asyncssh.SSHServerChannel._process_env_request = refuse  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] - see the docstring


async def _feed(process: asyncssh.SSHServerProcess[bytes], child: subprocess.Popen[bytes]) -> None:
    """Pass the client's input to the command, to the end or until the command reads no more.

    asyncssh's own way to a pipe (`redirect(stdin=…)`, 2.24) lost the end of what a client sent
    before a slow command began to read it.
    """
    loop = asyncio.get_running_loop()
    if child.stdin is None:
        return
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), child.stdin
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while data := await process.stdin.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


class SshService:
    """The listening sshd of a host, that can be closed and opened again."""

    def __init__(
        self,
        where: tuple[str, int],
        seed: str,
        accounts: Callable[[], list[Account]],
        authorized: Callable[[Account], list[str]],
        spawn: SpawnForUser,
        kind: KeyKind = "ed25519",
    ) -> None:
        """Serve on `where` (address, port) with the host key of `seed`, and no other."""
        self._where = where
        self._key = asyncssh.import_private_key(host_key(seed, kind).private_openssh)
        self._accounts = accounts
        self._authorized = authorized
        self._spawn = spawn
        self._listener: asyncssh.SSHAcceptor | None = None
        self._live: set[asyncssh.SSHServerConnection] = set()
        _refuse_environment()
        self._waiting: set[asyncio.Task[None]] = set()
        self.connections = 0
        """How many were let in since the machine was made."""
        self.lets_in: Callable[[], bool] = lambda: True
        """Whether a firewall in front of the machine passes a connection on."""
        self.sessions = 0
        """How many commands and shells they asked for."""

    @property
    def is_open(self) -> bool:
        """The port is listened on."""
        return self._listener is not None

    async def open(self) -> None:
        """Listen.

        Raises:
            UsageError: The address cannot be had; another lab may play it.
        """
        if self._listener is not None:
            return
        address, port = self._where
        try:
            self._listener = await self._listen(address, port)
        except OSError as error:
            raise UsageError(
                f"nothing can listen on {address}:{port}: {error.strerror}; is another lab with "
                "this address running? `make down` there stops it"
            ) from error

    async def _listen(self, address: str, port: int) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            address,
            port,
            server_host_keys=[self._key],
            server_factory=lambda: _Server(
                self._live, self._account, self._authorized, self._let_in, self.lets_in
            ),
            process_factory=self._run,
            encoding=None,
            allow_pty=False,
            line_editor=False,
            agent_forwarding=False,
            reuse_address=True,
            login_timeout=30,
        )

    async def close(self) -> None:
        """Refuse new connections and cut the ones there are, as a machine that goes down."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        for connection in list(self._live):
            connection.abort()
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await listener.wait_closed()

    def _let_in(self) -> None:
        self.connections += 1

    def _account(self, name: str) -> Account | None:
        return next((a for a in self._accounts() if a.name == name), None)

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self.sessions += 1
        name = process.get_extra_info("username")
        account = self._account(str(name))
        if account is None:
            process.exit(1)
            return
        forced = process.get_extra_info(FORCED)
        original = None if forced is None else process.command or ""
        peer = str(process.get_extra_info("peername")[0])
        child = self._spawn(Login(account, forced or process.command, original, peer))
        ended = asyncio.ensure_future(asyncio.to_thread(child.wait))
        try:
            await process.redirect(stdout=child.stdout, stderr=child.stderr, send_eof=False)
            self._keep(asyncio.ensure_future(_feed(process, child)))
            await process.stdout.drain()
            await process.stderr.drain()
            # Shielded: when the client goes away the script goes on, as under sshd without a tty.
            status = await asyncio.shield(ended)
        except (asyncssh.Error, OSError, asyncio.CancelledError):
            self._keep(ended)
            raise
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
        else:
            process.exit(status)
        await process.wait_closed()

    def _keep(self, ended: Awaitable[object]) -> None:
        async def wait() -> None:
            with contextlib.suppress(asyncssh.Error, OSError):
                await ended

        task = asyncio.ensure_future(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
