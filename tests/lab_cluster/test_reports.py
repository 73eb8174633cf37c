"""When the node agent reads the cluster, and over what the nodes report to it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from lab.cluster.devices import NodeDevices
from lab.cluster.document import docs_at
from lab.cluster.https import OK, Request, Response, serve_tls
from lab.cluster.k3s_config import HostPaths
from lab.cluster.k3s_node import DeviceWatch, Started
from lab.cluster.k3s_token import Token
from lab.cluster.pki import Authority, KeyPair
from lab.cluster.reports import Passes
from lab.cluster.upstream import Upstream
from tests.lab_cluster.conftest import make_gpu_node

ONE, TWO = {"gpu01": NodeDevices()}, {"gpu01": NodeDevices(gpus=8)}


def test_a_pass_is_due_where_anything_was_written_or_a_node_reports_another_thing() -> None:
    passes = Passes()
    assert passes.is_due("7", ONE, 100.0)
    assert not passes.is_due("7", {"gpu01": NodeDevices()}, 100.5)
    assert passes.is_due("8", ONE, 101.0), "somebody wrote"
    assert passes.is_due("8", TWO, 101.5), "a card has gone or come"
    assert passes.is_due("8", {}, 102.0), "a node is silent"
    assert not passes.is_due("8", {}, 106.9)
    assert passes.is_due("8", {}, 107.0), "five seconds after the last one, whatever it sees"


def test_a_pass_is_due_after_one_that_failed_or_waits_for_time_alone() -> None:
    passes = Passes()
    assert passes.is_due("7", ONE, 100.0)
    passes.forget()
    assert passes.is_due("7", ONE, 100.5)
    assert not passes.is_due("7", ONE, 101.0)


def test_a_node_that_stays_the_same_is_looked_at_less_often(tmp_path: Path) -> None:
    make_gpu_node(tmp_path, vfs=2)
    pf = tmp_path / "sys/bus/pci/devices/0000:05:00.0"
    watch = DeviceWatch(HostPaths(tmp_path), Started(None, nvidia_runtime=False))

    def looks(number: int) -> list[int]:
        found: list[int] = []
        for _ in range(number):
            watch.look()
            found.append(len(watch.devices.vfs))
        return found

    assert looks(14) == [4] * 14
    (pf / "virtfn1").unlink()
    assert looks(16) == [3] * 16, "a change is seen at once, for half a minute"
    (pf / "virtfn0").unlink()
    assert looks(3) == [3, 3, 2], "then by every third report"
    assert len(docs_at(watch.dumped, "vfs")) == 2


@contextmanager
def server(folder: Path, port: int, threads: list[threading.Thread]) -> Generator[int]:
    """One that keeps which thread answered: each connection has its own."""
    authority = Authority(folder, "ca")
    pair = KeyPair(folder / "s.crt", folder / "s.key")
    authority.issue(pair, "s", sans=["127.0.0.1"])

    def answer(request: Request) -> Response:
        threads.append(threading.current_thread())
        text = b'{"servers": []}' if request.path == "/v1-lab/report" else b"Unauthorized"
        return Response(OK if text.startswith(b"{") else 401, text)

    running = serve_tls(("127.0.0.1", port), pair, answer)
    try:
        yield int(running.server_address[1])
    finally:
        running.shutdown()
        running.server_close()


def test_a_node_reports_over_one_connection_until_the_server_goes(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []
    with server(tmp_path, 0, threads) as port:
        node = Upstream(f"127.0.0.1:{port}", Token("secret"), "node", tmp_path / "ca.crt")
        for _ in range(3):
            node.report({"name": "gpu01"})
        assert len(threads) == 3
        assert len(set(threads)) == 1
        with pytest.raises(DeviceError, match="/v1-lab/join: 401 Unauthorized"):
            node.request("POST", "/v1-lab/join", {"name": "gpu01"})
        assert len(set(threads)) == 2, "all else has a connection of its own"
        for link in node.links.values():
            assert link.sock is not None
            link.sock.close()
            link.sock = None
        node.report({"name": "gpu01"})
        assert len(set(threads)) == 3
    (link,) = node.links.values()
    link.close()
