"""A web server with TLS on 127.0.0.1, which serves a table and can be wrong on purpose."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.artefacts.certificates import ADDRESS, Authority


@dataclass
class Site:
    """What a server serves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """By path."""
    redirects: dict[str, str] = field(default_factory=dict[str, str])
    cut: dict[str, int] = field(default_factory=dict[str, int])
    """Path to the bytes after which the connection is closed."""
    refusal: tuple[int, bytes] | None = None
    """Status and body of every answer."""
    login: str = ""
    """`user:password` that is wanted; empty for none."""
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Path and `Authorization` of each request."""
    address: str = ""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up: that is what a test is about."""


class _Handler(BaseHTTPRequestHandler):
    site = Site()

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization", "")
        self.site.asked.append((self.path, sent))
        wanted = f"Basic {base64.b64encode(self.site.login.encode()).decode()}"
        if self.site.refusal is not None:
            self._answer(*self.site.refusal, {})
        elif self.site.login and sent != wanted:
            self._answer(401, b"", {"WWW-Authenticate": 'Basic realm="test"'})
        elif self.path in self.site.redirects:
            self._answer(302, b"", {"Location": self.site.redirects[self.path]})
        elif self.path not in self.site.files:
            self._answer(404, b"gone", {})
        else:
            self._file(self.site.files[self.path])

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def _file(self, body: bytes) -> None:
        asked = self.headers.get("Range", "")
        if asked:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
            self._answer(206, body[begin:], {"Content-Range": f"bytes {begin}-/{len(body)}"})
            return
        self._answer(200, body, {}, self.site.cut.pop(self.path, None))

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing: a test reads `asked`."""


@contextmanager
def serve(folder: Path, authority: Authority | None, site: Site | None = None) -> Generator[Site]:
    """Serve a site until the block ends; without an authority over plain http."""
    found = site or Site()
    server = _Quiet((ADDRESS, 0), type("Handler", (_Handler,), {"site": found}))
    if authority is not None:
        folder.mkdir(parents=True, exist_ok=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.write(folder))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if authority else "http"
    found.address = f"{scheme}://{ADDRESS}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def proxy(*, refuses: bool = False) -> Generator[tuple[str, list[str]]]:
    """A proxy on 127.0.0.1 that tunnels; its address, and whom it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            if refuses:
                self.send_error(403, "Not in our rules")
                return
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as far:
                self.send_response(200)
                self.end_headers()
                threading.Thread(target=_pump, args=(far, self.connection), daemon=True).start()
                _pump(self.connection, far)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = _Quiet((ADDRESS, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://{ADDRESS}:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    except OSError:
        return
