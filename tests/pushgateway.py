"""A Pushgateway for tests, over plain HTTP on the loopback."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Gateway(BaseHTTPRequestHandler):
    """It keeps the last push as method, path and metrics, or refuses it."""

    got: tuple[str, str, str] | None = None
    status = 200

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        type(self).got = (self.command, self.path, body)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"text format parsing error in line 1\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        del format, args


@contextmanager
def pushgateway() -> Generator[tuple[type[Gateway], str]]:
    """Serve one gateway; its class holds what it got."""

    class Own(Gateway):
        pass

    server = HTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Own, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
