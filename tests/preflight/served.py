"""Servers on loopback that play an artefact's server, a registry and a proxy, for real programs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from components.core.record import record


@record
class Answer:
    """What one path gives."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@record
class Served:
    """A running server."""

    address: str
    """`https://127.0.0.1:PORT`, or http."""
    authority: Path
    """PEM of the CA that signed its certificate."""


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "railyard tests")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    chain, private = folder / "ca.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(Encoding.PEM))
    private.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return chain, private


class _Handler(BaseHTTPRequestHandler):
    """Answers by the table of its server."""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_CONNECT(self) -> None:
        self.send_error(403, "Forbidden by the proxy")

    def _answer(self, *, body: bool) -> None:
        server = cast("_Server", self.server)
        path = self.path.partition("?")[0]
        stranger = self.headers.get("Authorization", "") != f"Bearer {server.token}"
        found = server.answers.get(path, Answer(404))
        if server.basic and self.headers.get("Authorization", "") != f"Basic {server.basic}":
            found = Answer(401, b"", (("WWW-Authenticate", 'Basic realm="site"'),))
        if server.token and path.startswith("/v2/") and stranger:
            realm = f'Bearer realm="{server.where}/token",service="s",scope="repository:x:pull"'
            found = Answer(401, b"", (("WWW-Authenticate", realm),))
        self.send_response(found.status)
        for name, value in found.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        if body:
            self.wfile.write(found.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


class _Server(ThreadingHTTPServer):
    """What its handlers look up."""

    answers: Mapping[str, Answer]
    token: str
    basic: str
    where: str


@contextmanager
def serve(
    answers: Mapping[str, Answer],
    folder: Path,
    *,
    token: str = "",
    basic: str = "",
    tls: bool = True,
) -> Generator[Served]:
    """Serve paths; everything else is 404.

    Args:
        answers: Path to answer.
        folder: Where the certificate goes.
        token: Paths below /v2/ want it as a bearer token, which /token gives to everybody.
        basic: Every path wants this login, as HTTP basic authentication has it.
        tls: Speak TLS; else plain HTTP.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    chain, private = make_certificate(folder)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, private)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    where = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    server.answers, server.token, server.basic, server.where = answers, token, basic, where
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(where, chain)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
