"""A verb that downloads goes through the proxy of its words: real curl, a listening proxy."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from components.hosts.scripts import through_proxy
from components.model.sources import Proxy
from components.remote.tools import ToolCall, assemble
from tests.plan.test_text import SPEC

TOOL = assemble("host", (), {"fetch": 'curl -s -m 10 "$url"\n', "show": "env | grep -i proxy\n"})


@dataclass
class Listening:
    """A proxy that answers the first line of each request with 403."""

    port: int
    asked: list[str] = field(default_factory=list[str])


@pytest.fixture
def proxy() -> Iterator[Listening]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Listening(server.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    found.asked.append(client.recv(4096).decode().partition("\r\n")[0])
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield found
        server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=10)


def _run(call: ToolCall, *more: str) -> str:
    """As a host runs it: the text by its shell, the digest as $0, then the verb and its words."""
    assert shutil.which("curl"), "curl is what the scripts download with"
    words = ["sh", "-c", call.tool.text, call.tool.digest, call.verb, *call.arguments, *more]
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=60, check=False
    ).stdout


def _told(proxy: Listening, verb: str) -> ToolCall:
    asked = Proxy(http=f"http://127.0.0.1:{proxy.port}", no_proxy=(".example.com",))
    return through_proxy(SPEC.model_copy(update={"proxy": asked}), ToolCall(TOOL, verb))


def test_curl_asks_the_proxy_for_what_is_outside(proxy: Listening) -> None:
    _run(_told(proxy, "fetch"), "url=http://get.k3s.test/install.sh")
    _run(_told(proxy, "fetch"), "url=https://github.test/k3s")
    assert proxy.asked == [
        "GET http://get.k3s.test/install.sh HTTP/1.1",
        "CONNECT github.test:443 HTTP/1.1",
    ]


@pytest.mark.parametrize(
    "url", ["http://mirror.example.com/k3s", "http://localhost:1/k3s", "http://x.svc/k3s"]
)
def test_curl_asks_it_for_nothing_of_the_site(proxy: Listening, url: str) -> None:
    _run(_told(proxy, "fetch"), f"url={url}")
    assert proxy.asked == []


def test_without_a_proxy_the_environment_of_a_verb_has_none() -> None:
    assert _run(through_proxy(SPEC, ToolCall(TOOL, "show"))) == ""
