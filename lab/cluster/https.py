"""Small TLS servers of the lab: one handler object answers, threads serve."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import parse_qsl, urlsplit

from components.core.record import record
from lab.cluster.pki import KeyPair

OK = 200


@record
class Request:
    """One request: path, query, headers (lower case), body, and the client's certificate name."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    client: str


@record
class Response:
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain"


Answer = Callable[[Request], Response]


class _Peer(Protocol):
    def getpeercert(self) -> dict[str, tuple[tuple[tuple[str, str], ...], ...]] | None: ...


def _common_name(connection: object) -> str:
    certificate = cast("_Peer", connection).getpeercert() or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return value
    return ""


def _make_handler(answer: Answer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # a node reports over one connection
        timeout = 30

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(
                method=self.command,
                path=parts.path,
                query=dict(parse_qsl(parts.query)),
                headers={key.lower(): value for key, value in self.headers.items()},
                body=self.rfile.read(length),
                client=_common_name(self.connection),
            )
            response = answer(request)
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)

        do_GET = do_HEAD = do_POST = _serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
            del format, args

    return Handler


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    tls: ssl.SSLContext

    def finish_request(self, request: object, client_address: object) -> None:
        # The handshake happens in the request's own thread: a silent client blocks nobody else.
        try:
            super().finish_request(request, client_address)  # type: ignore[arg-type]
        except (ssl.SSLError, OSError):
            return


def serve_tls(
    address: tuple[str, int], pair: KeyPair, answer: Answer, client_ca: Path | None = None
) -> _Server:
    """Serve HTTPS on one loopback address in background threads; `shutdown()` ends it.

    Args:
        address: where to listen.
        pair: the server's certificate.
        answer: makes the response to a request.
        client_ca: with it, a client certificate of this authority is demanded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    server = _Server(address, _make_handler(answer))
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    return server
