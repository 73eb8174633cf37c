"""Reading a host over SSH: against a server in this process, on a port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncssh
import asyncssh.connection
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint


def _new_key() -> asyncssh.SSHKey:
    text = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    return asyncssh.import_private_key(text)


HOST_KEY, CLIENT_KEY, OTHER_KEY = _new_key(), _new_key(), _new_key()


def _public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key("openssh").decode().strip()


def _private(key: asyncssh.SSHKey) -> str:
    return key.export_private_key("openssh").decode()


SECRETS = {"ssh_private_key": _private(CLIENT_KEY)}


def _endpoint(port: int) -> Endpoint:
    return Endpoint(
        device="gpu01",
        kind="host",
        address="127.0.0.1",
        port=port,
        user="nvidia",
        host_key=_public(HOST_KEY),
        private_key_secret="ssh_private_key",
    )


def _answer(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write("ok")
    process.exit(0)


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncssh.SSHServerProcess[str]], None], ciphers: Sequence[str] = ()
) -> AsyncGenerator[Endpoint]:
    """A host that does `serve` with each command."""
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[HOST_KEY],
        authorized_client_keys=asyncssh.import_authorized_keys(_public(CLIENT_KEY)),
        process_factory=serve,
        encryption_algs=ciphers,
    )
    try:
        yield _endpoint(server.get_port())
    finally:
        server.close()
        await server.wait_closed()


async def _ask(
    monkeypatch: pytest.MonkeyPatch, host_key: str = "", *, default_port: bool = False
) -> HostAnswer:
    async with _listening(_answer) as endpoint:
        if default_port:
            # Only root may listen on 22, so this port becomes the one that known_hosts leaves out.
            monkeypatch.setattr(asyncssh.connection, "DEFAULT_PORT", endpoint.port)
        end = replace(endpoint, host_key=host_key or endpoint.host_key)
        return await run_on_host(end, SECRETS, "true", deadline_s=10)


@pytest.mark.parametrize("default_port", [False, True])
def test_pinned_key_is_found_on_every_port(
    monkeypatch: pytest.MonkeyPatch,
    default_port: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    answer = asyncio.run(_ask(monkeypatch, default_port=default_port))
    assert (answer.stdout, answer.exit_status) == ("ok", 0)


@pytest.mark.parametrize("comment", ["", " root@gpu01"])
def test_another_host_key_is_refused_and_named(
    monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    with pytest.raises(HostKeyError) as refused:
        asyncio.run(_ask(monkeypatch, _public(OTHER_KEY) + comment))
    assert _public(HOST_KEY) in str(refused.value)


def test_pin_that_is_no_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostKeyError, match="is not a public key"):
        asyncio.run(_ask(monkeypatch, "ssh-ed25519 nonsense"))


def test_secret_that_is_no_key_is_a_device_error() -> None:
    secrets = {"ssh_private_key": "not a key"}
    with pytest.raises(DeviceError, match="secret ssh_private_key is not a private key"):
        asyncio.run(run_on_host(_endpoint(1), secrets, "true", deadline_s=1))


def test_a_host_that_is_down_and_one_that_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(UnreachableError, match="is not reachable within 1 s: "):
            asyncio.run(run_on_host(_endpoint(port), SECRETS, "true", deadline_s=1))
        silent.listen()
        with pytest.raises(UnreachableError, match="is not reachable within 1 s: no answer"):
            asyncio.run(run_on_host(_endpoint(port), SECRETS, "true", deadline_s=1))


async def _ask_host_that(
    serve: Callable[[asyncssh.SSHServerProcess[str]], None],
    deadline_s: float,
    ciphers: Sequence[str] = (),
    stdin: str = "",
) -> HostAnswer:
    async with _listening(serve, ciphers) as end:
        return await run_on_host(end, SECRETS, "true", stdin=stdin, deadline_s=deadline_s)


@pytest.mark.parametrize("how", ["slow", "lost"])
def test_a_host_that_lets_us_in_and_does_not_answer(how: str) -> None:
    def serve(process: asyncssh.SSHServerProcess[str]) -> None:
        if how == "lost":
            process.channel.get_connection().abort()

    words = {
        "slow": "accepted the login, but did not finish within 1.5 s",
        "lost": "accepted the login, but the connection was lost",
    }
    with pytest.raises(UnreachableError, match=words[how]):
        asyncio.run(_ask_host_that(serve, 1.5))


def test_a_command_that_ends_before_it_reads_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its tool is missing it ends at once: what is written to it then goes nowhere."""
    begin = asyncssh.SSHClientConnection.create_process

    async def ended(
        self: asyncssh.SSHClientConnection, command: str
    ) -> asyncssh.SSHClientProcess[str]:
        process = await begin(self, command)
        await process.wait_closed()
        return process

    monkeypatch.setattr(asyncssh.SSHClientConnection, "create_process", ended)
    answer = asyncio.run(_ask_host_that(_answer, 10, stdin="a=1\n" * 9999))
    assert (answer.stdout, answer.exit_status) == ("ok", 0)


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (None, "aes256-gcm@openssh.com"),
        (["chacha20-poly1305@openssh.com"], "chacha20-poly1305@openssh.com"),
        (["aes128-ctr"], "aes128-ctr"),
    ],
)
def test_the_cheapest_cipher_is_asked_for_first(offered: list[str] | None, taken: str) -> None:
    ciphers: list[object] = []

    def serve(process: asyncssh.SSHServerProcess[str]) -> None:
        ciphers.append(process.get_extra_info("send_cipher"))
        _answer(process)

    assert asyncio.run(_ask_host_that(serve, 10, offered or ())).stdout == "ok"
    assert ciphers == [taken]
