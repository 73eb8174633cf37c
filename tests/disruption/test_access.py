"""How the cluster of a host is found at the moment of use."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.disruption.node import open_cluster
from components.kubernetes.client import Answer, Calls, KubernetesCalls
from components.kubernetes.planes.base import ClusterRef, Server
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from tests.disruption.played import request_of
from tests.golden.site import load_example
from tests.graph.dev_site import kubeconfig

REQUEST = request_of(load_example("dgx-roce"), "gpu01")


class Noted:
    """Keeps the kubeconfigs of which a client was made."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> Calls:
        self.texts.append(text)
        return self

    def call(self, method: str, path: str, body: object = None) -> Answer:
        del method, path, body
        return Answer(200, "{}")


def servers(*names: str) -> ClusterRef:
    def server(name: str) -> Server:
        endpoint = replace(REQUEST.endpoint, device=name)
        return Server(endpoint, f"https://{name}:6443")

    return ClusterRef("site", tuple(server(name) for name in names))


def opened(
    cluster: ClusterRef, host: str, answers: dict[str, str], noted: Noted | None = None
) -> Calls | None:
    def run(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        assert "cat /etc/rancher/k3s/k3s.yaml" in command
        assert (stdin, deadline_s) == ("", 60.0)
        text = answers[endpoint.device]
        if text == "silent":
            raise UnreachableError(f"{endpoint.where} is not reachable")
        if text == "refused":
            return HostAnswer("", "sudo: a password is required", 1)
        return HostAnswer(text, "", 0)

    return open_cluster(cluster, host, run, {}, noted or Noted())


def test_no_server_has_started_so_there_is_no_cluster() -> None:
    assert opened(servers("a", "b"), "gpu01", {"a": "none\n", "b": "none\n"}) is None


def test_a_server_that_leaves_is_asked_last_and_another_api_is_used() -> None:
    noted = Noted()
    assert opened(servers("a", "b"), "a", {"a": "unused", "b": kubeconfig()}, noted) is noted
    assert yaml.safe_load(noted.texts[0])["clusters"][0]["cluster"]["server"] == "https://b:6443"


def test_a_silent_server_among_others_is_passed_over() -> None:
    assert opened(servers("a", "b"), "gpu01", {"a": "silent", "b": kubeconfig()}) is not None


def test_a_silent_server_leaves_it_open_whether_there_is_a_cluster() -> None:
    with pytest.raises(DeviceError, match=r"cannot find out whether gpu01 must be drained: a"):
        opened(servers("a", "b"), "gpu01", {"a": "silent", "b": "none\n"})


def test_a_server_that_refuses_is_named() -> None:
    with pytest.raises(DeviceError, match=r"a .*sudo: a password is required"):
        opened(servers("a"), "gpu01", {"a": "refused"})


def test_the_kubeconfig_of_somebody_elses_cluster_comes_from_the_environment() -> None:
    reference = ClusterRef("site", kubeconfig_secret="kubeconfig")
    noted = Noted()
    environ = {"RAILYARD_SECRET_KUBECONFIG": kubeconfig()}

    def never(*_: object) -> HostAnswer:
        raise AssertionError("no host is asked")

    assert open_cluster(reference, "gpu01", never, environ, noted) is noted
    with pytest.raises(UsageError, match="set RAILYARD_SECRET_KUBECONFIG in the environment"):
        open_cluster(reference, "gpu01", never, {}, noted)


@contextmanager
def api(status: int, body: object) -> Generator[tuple[str, list[tuple[str, str, str, bytes]]]]:
    """An HTTP server on loopback that answers all alike, and what it was asked."""
    asked: list[tuple[str, str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            kind = self.headers.get("Content-Type") or ""
            asked.append((self.command, self.path, kind, self.rfile.read(length)))
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_POST = answer  # noqa: N815 - the names of the standard library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the same
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client(url: str) -> KubernetesCalls:
    return KubernetesCalls(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "a", "cluster": {"server": url}}],
                "users": [{"name": "a", "user": {"token": "t"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a",
            }
        )
    )


def test_a_refused_eviction_is_an_answer() -> None:
    with api(429, {"message": "it would violate the budget"}) as (url, asked):
        answer = client(url).call("POST", "/api/v1/namespaces/a/pods/b/eviction", {"kind": "Evic"})
    assert (answer.status, answer.words) == (429, "it would violate the budget")
    assert asked[0][:3] == ("POST", "/api/v1/namespaces/a/pods/b/eviction", "application/json")


def test_a_patch_is_a_merge_patch_and_keeps_its_nulls() -> None:
    with api(200, {"kind": "Node"}) as (url, asked):
        assert client(url).call("PATCH", "/api/v1/nodes/a", {"spec": {"x": None}}).status == 200
    assert asked[0][2] == "application/merge-patch+json"
    assert json.loads(asked[0][3]) == {"spec": {"x": None}}


def test_a_list_keeps_its_selector() -> None:
    with api(200, {"items": []}) as (url, asked):
        client(url).call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da")
    assert asked[0][1] == "/api/v1/pods?fieldSelector=spec.nodeName%3Da"


def test_nobody_there_is_unreachable() -> None:
    with api(200, {}) as (url, _):
        pass
    with pytest.raises(UnreachableError, match="the cluster did not answer GET /readyz"):
        client(url).call("GET", "/readyz?verbose")


def test_a_kubeconfig_that_cannot_be_used_shows_no_secret() -> None:
    with pytest.raises(DeviceError, match="kubeconfig cannot be used") as caught:
        KubernetesCalls("clusters: []\nusers: [{user: {token: s3cret}}]\n")
    assert "s3cret" not in str(caught.value)
