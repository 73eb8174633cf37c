"""Run `command:remote:Command` programs over SSH, one connection a command.

Two differences from pulumi-command 1.2.1, both on purpose: the connection is closed when the
command ends (the real plugin keeps it until `pulumi up` ends),
and the time limit of a dial covers the SSH handshake too, not only the TCP connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from components.remote.ssh_library import asyncssh
from standins.command.inputs import CommandInputs, Connection
from standins.command.outcome import CommandError, LogLine, Outcome, Previous, Recorder, quote

_T = TypeVar("_T")
KnownHosts: TypeAlias = tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]

# sdk/go/common/util/retry: what the real plugin waits between two dials.
FIRST_DELAY_S: Final = 0.1
BACKOFF: Final = 1.5
MAX_DELAY_S: Final = 5.0
NO_LIMIT: Final = -1
WINDOW_BYTES: Final = 2 * 1024 * 1024
PACKET_BYTES: Final = 32768
SET_ENV_ADVICE: Final = (
    "Unable to set '{}'. This only works if your SSH server is configured to accept"
    " these variables via AcceptEnv. Alternatively, if a Bash-like shell runs the command on the"
    " remote host, you could prefix the command itself with the variables in the form"
    " 'VAR=value command'"
)


class RemoteRunner:
    """Runs remote commands on one event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = threading.Event()
        threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True).start()

    def run(
        self,
        command: str,
        inputs: CommandInputs,
        previous: Previous,
        log: LogLine,
        warn: LogLine,
    ) -> Outcome:
        """Run one command to its end on the host of its connection.

        Raises:
            CommandError: No connection, a refused host key or login, or the command failed.

        """
        if inputs.connection is None:
            raise CommandError("the command has no connection")
        return self._wait(self._run(inputs.connection, command, inputs, previous, (log, warn)))

    def stop(self) -> None:
        """Stop waiting between dials. A running command goes on, as in the real plugin."""
        self._stopping.set()

    def _wait(self, coroutine: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _run(
        self,
        connection: Connection,
        command: str,
        inputs: CommandInputs,
        previous: Previous,
        logs: tuple[LogLine, LogLine],
    ) -> Outcome:
        log, warn = logs
        recorder = Recorder(log, inputs.log_stdout, inputs.log_stderr)
        async with contextlib.AsyncExitStack() as stack:
            client = await self._dial(connection, log, stack)
            optional = previous.environment() if inputs.add_previous_output else {}
            channel = RunChannel(client, inputs.environment, optional, warn)
            error = await channel.run(command, inputs.stdin, recorder)
        return recorder.outcome(command, error)

    async def _dial(
        self, target: Connection, log: LogLine, stack: contextlib.AsyncExitStack
    ) -> asyncssh.SSHClientConnection:
        if target.proxy is None:
            return await self._retry(target, "Dial", log, stack, lambda: connect(target, None))
        try:
            proxy = await self._dial(target.proxy, log, stack)
            return await self._retry(
                target, "Dial from proxy", log, stack, lambda: connect(target, proxy)
            )
        except CommandError as error:
            raise CommandError(f"proxy: {error}") from None

    async def _retry(
        self,
        target: Connection,
        what: str,
        log: LogLine,
        stack: contextlib.AsyncExitStack,
        dial: Callable[[], Awaitable[asyncssh.SSHClientConnection]],
    ) -> asyncssh.SSHClientConnection:
        delay_s, failed = FIRST_DELAY_S, 0
        limit = "inf" if target.dial_error_limit == NO_LIMIT else str(target.dial_error_limit)
        while True:
            try:
                return await stack.enter_async_context(await dial())
            except (OSError, asyncssh.Error, TimeoutError) as error:
                reason = describe(error, target)
            failed += 1
            if target.dial_error_limit > NO_LIMIT and failed > target.dial_error_limit:
                raise CommandError(f"after {failed - 1} failed attempts: {reason}")
            log(f"{what} {failed}/{limit} failed: retrying")
            await asyncio.sleep(delay_s)
            if self._stopping.is_set():
                raise CommandError("context canceled")
            delay_s = min(delay_s * BACKOFF, MAX_DELAY_S)


class RunChannel(asyncssh.SSHClientChannel[bytes]):
    """A session that asks for each environment variable before it runs the command.

    asyncssh sends the requests without waiting for the answer; the real plugin waits, and fails
    before anything runs when sshd refuses one.
    """

    def __init__(
        self,
        client: asyncssh.SSHClientConnection,
        required: dict[str, str],
        optional: dict[str, str],
        warn: LogLine,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(client, loop, "replace", None, "strict", WINDOW_BYTES, PACKET_BYTES)
        self._required = required
        self._optional = optional
        self._warn = warn

    async def run(self, command: str, stdin: str, recorder: Recorder) -> str | None:
        """Run the command; return None when it exits 0, else how it ended."""
        session = RunSession(recorder)
        try:
            await self.create(
                lambda: session,
                command,
                subsystem=None,
                env={},
                request_pty=False,
                term_type=None,
                term_size=None,
                term_modes={},
                x11_forwarding=False,
                x11_display=None,
                x11_auth_path=None,
                x11_single_connection=False,
                agent_forwarding=False,
            )
        except asyncssh.Error as error:
            raise CommandError(f"ssh: command {command} failed: {error.reason}") from None
        with contextlib.suppress(OSError):  # the command may end before it has read its input
            if stdin:
                self.write(stdin.encode())  # pyright: ignore[reportUnknownMemberType] - AnyStr
            self.write_eof()
        await self.wait_closed()
        return self._ending()

    async def _make_request(self, request: bytes, *args: bytes) -> bool | None:
        if request == b"exec":
            for key, value in self._required.items():
                if not await self._ask(key, value):
                    self.close()
                    raise CommandError(
                        f"could not set environment variable {quote(key)}: ssh: setenv failed."
                        f" {SET_ENV_ADVICE.format(key)}"
                    )
            for key, value in self._optional.items():
                if not await self._ask(key, value):
                    self._warn(SET_ENV_ADVICE.format(key))
        return await super()._make_request(request, *args)

    async def _ask(self, key: str, value: str) -> bool:
        return bool(await super()._make_request(b"env", _string(key), _string(value)))

    def _ending(self) -> str | None:
        ended = self.get_exit_signal()
        if ended is not None:
            name, _core, message, _language = ended
            reason = f". Reason was: {message}" if message else ""
            return f"Process exited with status 128 from signal {name}{reason}"
        status = self.get_exit_status()
        if status is None:
            return "wait: remote command exited without exit status or exit signal"
        return None if status == 0 else f"Process exited with status {status}"


class RunSession(asyncssh.SSHClientSession[bytes]):
    """Hands the output of a command to its recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Take in a piece of output."""
        self._recorder.add(data, is_stderr=datatype is not None)


class Answers(asyncssh.SSHClient):
    """Answers every keyboard-interactive question with the password."""

    def __init__(self, password: str | None) -> None:
        self._password = password

    def kbdint_auth_requested(self) -> str | None:
        """Offer the method only with a password at hand."""
        return None if self._password is None else ""

    def kbdint_challenge_received(
        self,
        name: str,
        instructions: str,
        lang: str,
        prompts: Any,  # noqa: ANN401 - asyncssh's type
    ) -> list[str] | None:
        """Give the password to each question."""
        del name, instructions, lang
        return None if self._password is None else [self._password] * len(prompts)


async def connect(
    target: Connection, proxy: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    """Dial once, as pulumi-command 1.2.1 would: the pinned key type only, no ssh_config.

    Raises:
        CommandError: The host key or private key of the program cannot be read.

    """
    known, algorithms = _host_key(target.host_key)
    async with contextlib.AsyncExitStack() as stack:
        keys = _client_keys(target)
        path = _agent(target)
        if path is not None:
            # With a path alone, asyncssh would try the keys of ~/.ssh after those of the agent.
            agent = await stack.enter_async_context(await asyncssh.connect_agent(path))
            keys = list(await agent.get_keys())
        return await _connect(target, proxy, keys or None, (known, algorithms))


async def _connect(
    target: Connection,
    proxy: asyncssh.SSHClientConnection | None,
    keys: Sequence[asyncssh.SSHKey] | Sequence[asyncssh.SSHKeyPair] | None,
    host_key: tuple[KnownHosts | None, str | tuple[()]],
) -> asyncssh.SSHClientConnection:
    known, algorithms = host_key
    return await asyncssh.connect(
        target.host,
        target.port,
        tunnel=proxy or (),
        username=target.user,
        known_hosts=known,
        server_host_key_algs=algorithms,
        client_keys=keys,
        password=target.password,
        agent_path=None,
        client_factory=lambda: Answers(target.password),
        config=None,
        connect_timeout=target.per_dial_timeout_s or None,
        preferred_auth="publickey,password,keyboard-interactive",
        gss_host=None,
        encoding=None,
    )


def describe(error: Exception, target: Connection) -> str:
    """Return a dial's failure in the words of the real plugin where it has them."""
    endpoint = f"{target.host}:{target.port}"
    match error:
        case asyncssh.HostKeyNotVerifiable():
            return "ssh: handshake failed: ssh: host key mismatch"
        case asyncssh.PermissionDenied():
            return "ssh: handshake failed: ssh: unable to authenticate, no methods remain"
        case asyncssh.Error():
            return f"ssh: handshake failed: {error.reason}"
        case ConnectionRefusedError():
            return f"dial tcp {endpoint}: connect: connection refused"
        case TimeoutError():
            return f"dial tcp {endpoint}: i/o timeout"
        case _:
            return f"dial tcp {endpoint}: {error}"


def _host_key(line: str | None) -> tuple[KnownHosts | None, str | tuple[()]]:
    if line is None:
        return None, ()
    try:
        key = asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError) as error:
        raise CommandError(f"failed to parse host key: {error}") from None
    return ([key], [], []), key.algorithm.decode()


def _client_keys(target: Connection) -> list[asyncssh.SSHKey] | None:
    if target.private_key is None:
        return None
    try:
        return [asyncssh.import_private_key(target.private_key, target.private_key_password)]
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError) as error:
        raise CommandError(f"ssh: cannot read the private key: {error}") from None


def _agent(target: Connection) -> str | None:
    """Return the agent's socket; like the real plugin, fail when it cannot be opened at all."""
    path = target.agent_socket_path or os.environ.get("SSH_AUTH_SOCK") or None
    if path is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
    except OSError as error:
        raise CommandError(f"dial unix {path}: connect: {error.strerror}") from None
    # With a private key x/crypto/ssh offers that key only.
    return None if target.private_key is not None else path


def _string(text: str) -> bytes:
    """A `string` of RFC 4251, section 5."""
    data = text.encode()
    return len(data).to_bytes(4, "big") + data
