"""The client of Kubernetes: it shows its certificate, and no file of its key is ever left."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from components.acceptance.collect.cluster_jobs import KubernetesApi
from components.core.errors import UnreachableError
from components.kubernetes.client import KubernetesCalls
from components.preflight.cluster import read_version
from tests.artefacts.certificates import Authority

_FIELDS: Final = ("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform")
VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3"} | dict.fromkeys(_FIELDS, "")
PROGRAM: Final = """
import os, signal, ssl, sys
import components.kubernetes.client as room
from components.kubernetes.client import KubernetesCalls

def die():
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    signal.pause()

if sys.argv[1] == "while it is loaded":
    ssl.SSLContext.load_cert_chain = lambda *_, **__: die()
calls = KubernetesCalls(sys.stdin.read())
if sys.argv[1] == "when it is open":
    die()
calls.call("GET", "/version")
if sys.argv[1] == "after a call":
    die()
"""


@contextmanager
def mutual_tls(folder: Path) -> Generator[tuple[str, str, str, str]]:
    """A server that answers whoever shows a certificate of its CA: its URL, and three PEMs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(VERSION).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            del format, args

    authority = Authority("kubernetes")
    certificate, key = authority.write(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        yield url, authority.pem, certificate.read_text(), key.read_text()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(url: str, user: Mapping[str, Any], **cluster: object) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": url, **cluster}}],
            "users": [{"name": "a", "user": dict(user)}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
    )


def with_certificate(certificate: str, key: str) -> dict[str, str]:
    return {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}


def with_program(folder: Path, certificate: str, key: str) -> dict[str, object]:
    """A user whose certificate a program prints, as Teleport's does."""
    version = "client.authentication.k8s.io/v1"
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    answer = folder / "answer.json"
    answer.write_text(
        json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    )
    words = {"command": "cat", "args": [str(answer)], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": version, **words}}


@pytest.mark.parametrize("by_program", [False, True])
def test_the_certificate_is_shown_and_no_key_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_program: bool
) -> None:
    empty = tmp_path / "temporary"
    empty.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(empty))
    with mutual_tls(tmp_path) as (url, ca, certificate, key):
        shown = with_certificate(certificate, key)
        user = with_program(tmp_path, certificate, key) if by_program else shown
        text = kubeconfig(url, user, **{"certificate-authority-data": encoded(ca)})
        assert KubernetesCalls(text).call("GET", "/version").body == VERSION
        assert KubernetesApi(text).get("/version") == VERSION
        assert read_version(text) == "v1.36.3"
    assert [*empty.iterdir()] == []


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_only_the_ca_of_the_kubeconfig_is_trusted(tmp_path: Path) -> None:
    other = encoded(Authority("another").pem)
    with mutual_tls(tmp_path) as (url, _, certificate, key):
        user = with_certificate(certificate, key)
        text = kubeconfig(url, user, **{"certificate-authority-data": other})
        with pytest.raises(UnreachableError, match=r"(?i)certificate.verify.failed"):
            KubernetesCalls(text).call("GET", "/version")
        text = kubeconfig(url, user, **{"insecure-skip-tls-verify": True})
        assert KubernetesCalls(text).call("GET", "/version").status == 200


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("point", ["while it is loaded", "when it is open", "after a call"])
def test_a_killed_process_leaves_no_key(tmp_path: Path, point: str, name: str) -> None:
    with mutual_tls(tmp_path) as (url, ca, certificate, key):
        user = with_certificate(certificate, key)
        text = kubeconfig(url, user, **{"certificate-authority-data": encoded(ca)})
        left = killed(tmp_path, text, point, name, key)
    assert left == []


def test_a_process_that_is_killed_in_a_call_leaves_no_key(tmp_path: Path) -> None:
    certificate, key = Authority("kubernetes").write(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        text = kubeconfig(url, with_certificate(certificate.read_text(), key.read_text()))
        running = started(tmp_path, "never", "SIGKILL")
        assert running.stdin is not None
        running.stdin.write(text)
        running.stdin.close()
        silent.settimeout(60)
        silent.accept()[0].close()
        running.kill()
        running.wait(60)
    assert with_key(tmp_path, key.read_text()) == []


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    home = folder / "home"
    home.mkdir()
    root = Path(__file__).parents[2]
    places = {"TMPDIR": str(home), "HOME": str(home), "PYTHONPATH": str(root)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=home,
        env={**os.environ, **places},
        stdin=subprocess.PIPE,
        text=True,
    )


def killed(folder: Path, text: str, point: str, name: str, key: str) -> list[Path]:
    running = started(folder, point, name)
    running.communicate(text, timeout=60)
    assert running.returncode == -getattr(signal, name)
    return with_key(folder, key)


def with_key(folder: Path, key: str) -> list[Path]:
    """The files with this key in all places where the process could have written one."""
    body = key.splitlines()[1].encode()
    places = (folder / "home", Path("/dev/shm"))
    files = (each for place in places for each in place.rglob("*") if each.is_file())
    return [each for each in files if body in each.read_bytes()]
