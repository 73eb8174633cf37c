"""A real SSH server on loopback whose commands run /bin/sh; it refuses SetEnv, as sshd does."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, Final, cast

import asyncssh
from asyncssh.constants import EXTENDED_DATA_STDERR

USER: Final = "nvidia"
PASSWORD: Final = "open sesame"
START_TIMEOUT_S: Final = 10


@dataclass(frozen=True)
class SshHost:
    """Where the server listens and what it accepts."""

    port: int
    host_key: str
    private_key: str
    logins: list[str]


def make_key(algorithm: str) -> asyncssh.SSHKey:
    """Return a fresh key pair."""
    return asyncssh.generate_private_key(algorithm)  # pyright: ignore[reportUnknownMemberType] - its kwargs


class _Server(asyncssh.SSHServer):
    def __init__(self, authorized: asyncssh.SSHKey, logins: list[str], *, kbdint: bool) -> None:
        self._authorized = authorized
        self._logins = logins
        self._kbdint = kbdint

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._logins.append("publickey")
        return username == USER and key == self._authorized

    def password_auth_supported(self) -> bool:
        return not self._kbdint

    def validate_password(self, username: str, password: str) -> bool:
        self._logins.append("password")
        return (username, password) == (USER, PASSWORD)

    def kbdint_auth_supported(self) -> bool:
        return self._kbdint

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        del username, lang, submethods
        return "", "", "", [("Answer: ", False)]

    def validate_kbdint_response(self, username: str, responses: Any) -> bool:  # noqa: ANN401
        self._logins.append("keyboard-interactive")
        return username == USER and list(responses) == [PASSWORD]


class _Session(asyncssh.SSHServerSession[bytes]):
    """Runs the command of an exec request; environment requests are refused by the channel."""

    def __init__(self) -> None:
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._early = bytearray()
        self._eof = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan
        refuse: Any = chan

        def refuse_env(packet: object) -> bool:
            cast("Any", packet).get_remaining_payload()
            return False

        refuse._process_env_request = refuse_env

    def exec_requested(self, command: str) -> bool:
        self._task = asyncio.get_running_loop().create_task(self._run(command))
        return True

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        del datatype
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(data)
        else:
            self._early.extend(data)

    def eof_received(self) -> bool:
        self._eof = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return True

    async def _run(self, command: str) -> None:
        channel: Any = self._channel
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        stdin.write(bytes(self._early))
        if self._eof:
            stdin.close()

        async def pump(stream: asyncio.StreamReader, datatype: int | None) -> None:
            while data := await stream.read(65536):
                channel.write(data, datatype)

        await asyncio.gather(pump(stdout, None), pump(stderr, EXTENDED_DATA_STDERR))
        status = await self._process.wait()
        if status < 0:
            channel.exit_with_signal("KILL")
        else:
            channel.exit(status)


class SshServerThread:
    """Runs the server on an event loop in a thread of its own."""

    def __init__(self, *, kbdint: bool = False) -> None:
        self._kbdint = kbdint
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        host_key = make_key("ssh-ed25519")
        client_key = make_key("ssh-ed25519")
        self._logins: list[str] = []
        listening = asyncio.run_coroutine_threadsafe(self._listen(host_key, client_key), self._loop)
        self._acceptor = listening.result(START_TIMEOUT_S)
        self.host = SshHost(
            port=self._acceptor.get_port(),
            host_key=host_key.export_public_key().decode().strip(),
            private_key=client_key.export_private_key().decode(),
            logins=self._logins,
        )

    def stop(self) -> None:
        async def close() -> None:
            self._acceptor.close()
            await self._acceptor.wait_closed()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)

    async def _listen(
        self, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey
    ) -> asyncssh.SSHAcceptor:
        authorized = client_key.convert_to_public()
        return await asyncssh.create_server(
            lambda: _server(authorized, self._logins, kbdint=self._kbdint),
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            encoding=None,
            line_editor=False,
        )


def _server(authorized: asyncssh.SSHKey, logins: list[str], *, kbdint: bool) -> asyncssh.SSHServer:
    class Server(_Server):
        def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
            return _Session()

    return Server(authorized, logins, kbdint=kbdint)
