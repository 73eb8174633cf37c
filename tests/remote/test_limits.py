"""Peers that flood, drip or stall: every read ends, and what is held has a limit."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from time import monotonic

import asyncssh
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from components.core import limits
from components.core.errors import UnreachableError, UsageError
from components.core.limits import ANSWER_BYTES, Deadline, Held, TooLongError, read_all
from components.fabric.systems import system_of
from components.kubernetes import client
from components.remote.host_session import run_on_host
from components.remote.step import Endpoint
from components.remote.switch_channels import open_https
from components.remote.switch_session import open_session
from tests.over_ssh.real_sshd import new_key

KEY, CLIENT_KEY = new_key(), new_key()
SECRETS = {"pw": "x", "key": CLIENT_KEY.export_private_key().decode()}
GENEROUS_S = 60.0
"""Far above each deadline here, for a busy machine; without an end it would be for ever."""
PROMPT = "\r\nleaf-01 [standalone: master] > "
Handler = Callable[[asyncssh.SSHServerProcess[str]], object]


def test_what_is_held_has_a_limit() -> None:
    held = Held(limit=10)
    held.add(b"12345")
    with pytest.raises(TooLongError):
        held.add(b"678901")
    assert held.text() == "12345"


def test_a_read_ends_at_its_deadline_though_each_piece_comes_in_time() -> None:
    clock = count(0.0, 0.5)
    read = list[int]()

    def drip(size: int) -> bytes:
        read.append(size)
        return b"x"

    with pytest.raises(TimeoutError, match="3 s"):
        read_all(drip, Deadline(3.0, lambda: next(clock)), 1 << 30)
    assert len(read) < 10


def test_a_read_without_end_stops_at_the_limit() -> None:
    pieces = list[int]()

    def flood(size: int) -> bytes:
        pieces.append(size)
        return bytes(size)

    with pytest.raises(TooLongError):
        read_all(flood, Deadline(GENEROUS_S), 1 << 20)
    assert sum(pieces) <= (1 << 20) + limits.PIECE_BYTES


@contextmanager
def _listening(handler: Handler) -> Generator[int]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            del username
            return False

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[KEY], server_factory=Server, process_factory=handler
        )

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(GENEROUS_S)
    try:
        yield server.get_port()
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(GENEROUS_S)


def _endpoint(kind: str, port: int) -> Endpoint:
    return Endpoint(
        "leaf-01",
        "switch" if kind == "switch" else "host",
        "127.0.0.1",
        port,
        "admin",
        KEY.export_public_key().decode().strip(),
        password_secret="pw" if kind == "switch" else None,
        private_key_secret=None if kind == "switch" else "key",
    )


async def _flood(process: asyncssh.SSHServerProcess[str]) -> None:
    with suppress(OSError, asyncssh.Error):
        while True:
            process.stdout.write("eth1/1 a line of text without end\r\n" * 1000)
            await process.stdout.drain()


async def _flood_after_login(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write(PROMPT)
    profile = system_of("onyx").session
    async for line in process.stdin:
        if line.strip() not in profile.prepare:
            await _flood(process)
        process.stdout.write(f"{line}{PROMPT}")


async def _stall(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write(PROMPT)
    profile = system_of("onyx").session
    async for line in process.stdin:
        if line.strip() in profile.prepare:
            process.stdout.write(f"{line}{PROMPT}")


@pytest.mark.parametrize(
    ("handler", "deadline_s", "words"),
    [(_flood_after_login, GENEROUS_S, "more than 8 MiB"), (_stall, 3.0, "no prompt after")],
)
def test_a_switch_that_floods_or_stalls_ends_the_read(
    handler: Handler, deadline_s: float, words: str
) -> None:
    began = monotonic()
    with _listening(handler) as port:
        profile = system_of("onyx").session
        with (
            open_session(_endpoint("switch", port), profile, SECRETS, deadline_s) as session,
            pytest.raises(UnreachableError, match=words) as caught,
        ):
            session.run("show interfaces")
    assert "show interfaces" in str(caught.value)
    assert monotonic() - began < GENEROUS_S


def test_a_host_that_floods_is_cut_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    class Counted(Held):
        def add(self, piece: bytes) -> None:
            try:
                super().add(piece)
            finally:
                sizes.append(sum(map(len, self.pieces)))

    monkeypatch.setattr("components.remote.host_session.Held", Counted)
    with (
        _listening(_flood) as port,
        pytest.raises(UnreachableError, match="more than 8 MiB"),
    ):
        asyncio.run(run_on_host(_endpoint("host", port), SECRETS, "x", deadline_s=GENEROUS_S))
    assert 0 < max(sizes) <= ANSWER_BYTES


def _certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ufm")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "ufm.pem"
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(text + made.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, hashlib.sha256(made.public_bytes(Encoding.DER)).hexdigest()


@contextmanager
def _dripping(context: ssl.SSLContext, begin: bytes) -> Generator[int]:
    """The port of a server that sends a byte now and then, to everyone who connects."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not over.is_set():
                with suppress(OSError), server.accept()[0] as plain:
                    drip(plain)

        def drip(plain: socket.socket) -> None:
            with context.wrap_socket(plain, server_side=True) as peer:
                peer.recv(4096)
                peer.sendall(begin)
                while not over.wait(0.05):
                    peer.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
            assert not over.is_set()
        finally:
            over.set()
            with suppress(OSError):
                socket.create_connection(server.getsockname(), 1).close()
            thread.join(GENEROUS_S)


_BEGINS = pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b""], ids=["body", "headers"]
)


@_BEGINS
def test_an_api_that_drips_ends_at_the_deadline(tmp_path: Path, begin: bytes) -> None:
    context, digest = _certificate(tmp_path)
    with _dripping(context, begin) as port:
        ufm = Endpoint("ufm", "switch", "127.0.0.1", port, "admin", digest, password_secret="pw")
        with pytest.raises(UnreachableError, match=r"no answer within 0\.5 s"):
            open_https(ufm, SECRETS, 0.5).run("GET /x")


@_BEGINS
def test_a_cluster_that_drips_ends_at_the_deadline(tmp_path: Path, begin: bytes) -> None:
    context, _ = _certificate(tmp_path)
    with _dripping(context, begin) as port:
        authority = base64.b64encode((tmp_path / "ufm.pem").read_bytes()).decode()
        cluster = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority-data": authority,
        }
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        with pytest.raises(UnreachableError, match="the cluster did not answer GET /version"):
            client.KubernetesCalls(json.dumps(document), 0.1).call("GET", "/version")


def test_a_file_of_the_user_has_a_limit_and_is_a_file(tmp_path: Path) -> None:
    pipe, long, good = (tmp_path / name for name in ("pipe", "long", "good"))
    os.mkfifo(pipe)
    long.write_bytes(bytes(11))
    good.write_bytes(b"a\r\nb\n")
    for path, words in ((Path("/dev/zero"), "not a regular file"), (pipe, "not a regular file")):
        with pytest.raises(UsageError, match=words):
            limits.read_file(path)
    with pytest.raises(UsageError, match="limit of a file"):
        limits.read_file(long, limit=10)
    with pytest.raises(IsADirectoryError):
        limits.read_file(tmp_path)
    assert limits.read_text(good) == "a\nb\n"
