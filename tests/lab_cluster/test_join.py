"""How a server asks to join while etcd is busy with another member."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from components.core.errors import DeviceError
from lab.cluster import pki
from lab.cluster.https import OK, Request, Response, serve_tls
from lab.cluster.join import dump_shared, join
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.pki import Authority, KeyPair
from tests.lab_cluster.conftest import TOKEN

BUSY = "POST /v3/cluster/member/add: 503 etcdserver: unhealthy cluster"
LEARNER = "POST /v3/cluster/member/add: 400 etcdserver: too many learner members in cluster"
SILENT = "no answer from https://127.0.0.1:2379: The read operation timed out"
HUNG_UP = "the server ended before it answered"
TAKEN = "etcd cluster join failed: duplicate node name found, please use a unique name"


@contextmanager
def first_server(folder: Path, refusals: list[str]) -> Generator[K3sConfig]:
    """The server that is asked: it refuses with these words, one for each time, then agrees."""
    tls = folder / "first"
    files = dump_shared(tls)
    authority = Authority(tls, "server-ca")
    pair = authority.issue(
        KeyPair(tls / "first.crt", tls / "first.key"), "first", sans=["127.0.0.1"]
    )

    def answer(request: Request) -> Response:
        if request.path == "/cacerts":
            return Response(OK, authority.files.cert.read_bytes())
        if request.path == "/v1-lab/server-bootstrap":
            return Response(OK, json.dumps({"files": files}).encode())
        if refusals and refusals[0] == HUNG_UP:
            refusals.pop(0)
            raise ConnectionAbortedError(HUNG_UP)
        if refusals:
            return Response(503, f"{refusals.pop(0)}\n".encode())
        return Response(OK, b'{"initial_cluster": "cp-0=a,cp-1=b"}')

    server = serve_tls(("127.0.0.1", 0), pair, answer)
    try:
        address = f"https://127.0.0.1:{server.server_address[1]}"
        yield K3sConfig("server", "cp-1", "127.0.0.1", TOKEN, address)
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_waits_while_etcd_takes_in_another_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return False

    with first_server(tmp_path, [LEARNER, BUSY, BUSY]) as config:
        assert join(config, HostPaths(tmp_path / "host"), "cp-1", wait) == "cp-0=a,cp-1=b"
    assert waited == [1.0, 1.0, 1.0]
    told = "Waiting for other members to finish joining etcd cluster"
    assert capfd.readouterr().err.count(told) == 3


@pytest.mark.parametrize("failure", [SILENT, HUNG_UP, "etcdserver: request timed out"])
def test_a_server_asks_again_where_etcd_has_no_majority_yet(tmp_path: Path, failure: str) -> None:
    with first_server(tmp_path, [failure] * 2) as config:
        joined = join(config, HostPaths(tmp_path / "host"), "cp-1", lambda _seconds: False)
    assert joined == "cp-0=a,cp-1=b"


def test_a_server_that_shall_end_waits_no_longer(tmp_path: Path) -> None:
    with (
        first_server(tmp_path, [BUSY] * 9) as config,
        pytest.raises(DeviceError, match=r"ended while it waited .* unhealthy cluster"),
    ):
        join(config, HostPaths(tmp_path / "host"), "cp-1", lambda _seconds: True)


def test_a_server_that_is_refused_for_good_does_not_wait(tmp_path: Path) -> None:
    with (
        first_server(tmp_path, [TAKEN] * 2) as config,
        pytest.raises(DeviceError, match="duplicate node name"),
    ):
        join(config, HostPaths(tmp_path / "host"), "cp-1", lambda _seconds: pytest.fail("waited"))


def test_nodes_that_join_at_once_get_one_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = KeyPair(tmp_path / "proxy.crt", tmp_path / "proxy.key")
    found: list[bytes] = []

    def issue() -> None:
        Authority(tmp_path, "server-ca").issue(files, "system:kube-proxy")
        found.append(files.cert.read_bytes() + files.key.read_bytes())

    Authority(tmp_path, "server-ca")
    second, write = Thread(target=issue), pki.write_private

    def write_in_turn(path: Path, data: bytes) -> None:
        if second.ident is None:
            second.start()
            second.join(0.2)  # it would be done by then, did it not wait for its turn
        write(path, data)

    monkeypatch.setattr(pki, "write_private", write_in_turn)
    issue()
    second.join()
    assert len(set(found)) == 1
