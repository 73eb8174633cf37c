from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lab.cluster.api import Api
from lab.cluster.pki import Authority, KeyPair

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def one_answer_each(
    listener: socket.socket, context: ssl.SSLContext, asked: list[str]
) -> Generator[None]:
    """Answer one request on one connection, then close it without a word, as a server may."""

    def serve() -> None:
        link, _ = listener.accept()
        with context.wrap_socket(link, server_side=True) as tls:
            text = b""
            while b"\r\n\r\n" not in text or (text.startswith(b"POST") and b"{" not in text):
                text += tls.recv(4096)
            asked.append(text.split(b" ", 1)[0].decode())
            tls.sendall(ANSWER)

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield
    finally:
        server.join(10)


def test_a_connection_that_the_server_closed_is_not_used_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    files = KeyPair(tmp_path / "s.crt", tmp_path / "s.key")
    pair = authority.issue(files, "s", sans=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        api = Api(
            f"https://127.0.0.1:{listener.getsockname()[1]}", authority.files.cert, timeout_s=5
        )
        with one_answer_each(listener, context, asked):
            api.request("GET", "/version")
        with one_answer_each(listener, context, asked):
            api.request("POST", "/api/v1/namespaces/default/pods", {"kind": "Pod"})
    assert asked == ["GET", "POST"]
