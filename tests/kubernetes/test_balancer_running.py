"""A real HAProxy with our configuration: what a client sees while a server has just been lost."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from components.kubernetes.planes.balancers import CA_FILE, CHECK, render_haproxy
from components.kubernetes.planes.k3s import k3s_plane
from tests.golden.site import load_example

DEADLINE_S = 120
SERVERS = 3


def listener(place: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
    held = socket.create_server(place)
    held.settimeout(DEADLINE_S)
    return held


def port_of(held: socket.socket) -> int:
    return int(held.getsockname()[1])


@pytest.fixture
def frontend() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The balancer's socket, and that of the only server which is left."""
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    assert haproxy is not None, "haproxy is one of the lab's prerequisites"
    spec = load_example("dgx-roce")
    with ExitStack() as kept:
        front, alive = kept.enter_context(listener()), kept.enter_context(listener())
        lost = [kept.enter_context(socket.socket()) for _ in range(SERVERS - 1)]
        for each in lost:  # a port of its own that nobody listens on
            each.bind(("127.0.0.1", 0))
        hosts = tuple(
            spec.hosts[0].model_copy(update={"name": f"cp-{n}", "node_ip": f"127.0.0.{n + 1}"})
            for n in range(SERVERS)
        )
        balancer = hosts[0].model_copy(update={"role": "balancer", "node_ip": "127.0.0.99"})
        text = render_haproxy(spec.model_copy(update={"hosts": hosts}), balancer, k3s_plane(spec))
        text = text.replace(f"{CHECK} ca-file {CA_FILE}", "verify none")
        text = text.replace(" check\n", "\n")  # as in the seconds before a check finds them
        text = text.replace("bind 127.0.0.99:6443", f"bind fd@{front.fileno()}")
        for number, each in enumerate([*lost, alive]):
            text = text.replace(f"127.0.0.{number + 1}:6443", f"127.0.0.1:{port_of(each)}")
        process = subprocess.Popen(
            [haproxy, "-db", "-f", "/dev/stdin"], stdin=subprocess.PIPE, text=True,
            pass_fds=[front.fileno()],
        )  # fmt: skip
        try:
            assert process.stdin
            process.stdin.write(text)
            process.stdin.close()
            yield front, alive
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def test_a_connection_passes_over_servers_that_are_away(
    frontend: tuple[socket.socket, socket.socket],
) -> None:
    front, alive = frontend
    for _ in range(2 * SERVERS):
        with socket.create_connection(front.getsockname(), DEADLINE_S) as client:
            client.sendall(b"hello")
            server, _ = alive.accept()
            with server:
                assert server.recv(5) == b"hello"
