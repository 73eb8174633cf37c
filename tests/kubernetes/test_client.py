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
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
import yaml

from components.acceptance.collect.cluster_jobs import KubernetesApi
from components.core.errors import DeviceError, UnreachableError
from components.kubernetes.client import KubernetesCalls
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


class Asked(BaseHTTPRequestHandler):
    """An API without TLS that keeps the headers of what it is asked."""

    seen: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        text = json.dumps(VERSION).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


@pytest.fixture
def plain_api() -> Generator[str]:
    Asked.seen.clear()
    server = HTTPServer(("127.0.0.1", 0), Asked)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def program(folder: Path, script: str, **more: object) -> dict[str, object]:
    """A user whose token comes from a shell script."""
    file = folder / "login.sh"
    file.write_text(script)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "sh", "args": [str(file)], **more}}


def credential(**status: str) -> str:
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    return json.dumps({**kind, "status": status})


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
        ({"client-certificate-data": "", "client-key-data": ""}, ""),
    ],
)
def test_a_user_shows_who_it_is(plain_api: str, user: dict[str, str], shown: str) -> None:
    assert KubernetesCalls(kubeconfig(plain_api, user)).call("GET", "/version").body == VERSION
    assert Asked.seen == [("/version", shown)]


def test_a_token_is_read_from_the_file_that_the_user_names(plain_api: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    KubernetesCalls(kubeconfig(plain_api, {"tokenFile": str(tmp_path / "token")})).call("GET", "/x")
    assert Asked.seen == [("/x", "Bearer from a file")]


def test_a_program_is_asked_again_before_its_token_ends(plain_api: str, tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    count = tmp_path / "count"
    script = f"""echo x >> {count}; n=$(wc -l < {count})
    printf '{credential(token="T", expirationTimestamp=soon)}' | sed "s/\\"T\\"/\\"t$n\\"/"
    """
    calls = KubernetesCalls(kubeconfig(plain_api, program(tmp_path, script)))
    calls.call("GET", "/a")
    calls.call("GET", "/b")
    assert Asked.seen == [("/a", "Bearer t2"), ("/b", "Bearer t3")]


def test_a_program_knows_the_cluster_and_its_variables(plain_api: str, tmp_path: Path) -> None:
    script = f"""printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/info
    printf '{credential(token="T")}' | sed "s/T\\"/$WHO\\"/"
    """
    user = program(tmp_path, script, provideClusterInfo=True, env=[{"name": "WHO", "value": "me"}])
    KubernetesCalls(kubeconfig(plain_api, user)).call("GET", "/a")
    assert Asked.seen == [("/a", "Bearer me")]
    asked = json.loads((tmp_path / "info").read_text())
    assert asked["spec"]["cluster"]["server"] == plain_api


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "the program sh, which fails: exit status 3"),
        ("echo no JSON", "kubeconfig cannot be used"),
        (f"echo '{credential(token='s3cret')}' | sed s/v1/v1alpha1/", "kubeconfig cannot be used"),
    ],
)
def test_a_program_that_fails_is_named(tmp_path: Path, script: str, said: str) -> None:
    user = program(tmp_path, script, installHint="install the login tool")
    with pytest.raises(DeviceError, match=said) as caught:
        KubernetesCalls(kubeconfig("http://127.0.0.1:9", user))
    assert ("install the login tool" in str(caught.value)) == ("exit" in script)
    assert "s3cret" not in str(caught.value)


def test_a_login_that_kubectl_removed_is_refused_with_a_way_out() -> None:
    user = {"auth-provider": {"name": "gcp", "config": {"access-token": "s3cret"}}}
    with pytest.raises(DeviceError, match="make a kubeconfig with `exec`") as caught:
        KubernetesCalls(kubeconfig("http://127.0.0.1:9", user))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("by", ["kubeconfig", "environment"])
def test_a_proxy_is_used(plain_api: str, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    proxy: dict[str, str] = {"proxy-url": plain_api} if by == "kubeconfig" else {}
    if by == "environment":
        monkeypatch.setenv("http_proxy", plain_api)
    text = kubeconfig("http://10.9.8.7:6443", {"token": "t"}, **proxy)
    assert KubernetesCalls(text).call("GET", "/version").body == VERSION
    assert Asked.seen == [("http://10.9.8.7:6443/version", "Bearer t")]


@pytest.mark.parametrize("hosts", ["127.0.0.0/8", "127.0.0.1", "*"])
def test_no_proxy_is_obeyed(plain_api: str, monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", f"example.com,{hosts}")
    text = kubeconfig(plain_api, {"token": "t"})
    assert KubernetesCalls(text).call("GET", "/version").body == VERSION


def test_the_name_in_the_certificate_may_be_another(tmp_path: Path) -> None:
    with mutual_tls(tmp_path) as (url, ca, certificate, key):
        user = with_certificate(certificate, key)
        cluster = {"certificate-authority-data": encoded(ca), "tls-server-name": "elsewhere"}
        with pytest.raises(UnreachableError, match="elsewhere"):
            KubernetesCalls(kubeconfig(url, user, **cluster)).call("GET", "/version")


def test_the_pems_may_be_files(tmp_path: Path) -> None:
    with mutual_tls(tmp_path) as (url, ca, certificate, key):
        for name, text in (("ca", ca), ("chain", certificate), ("private", key)):
            (tmp_path / name).write_text(text)
        user = {
            "client-certificate": str(tmp_path / "chain"),
            "client-key": str(tmp_path / "private"),
        }
        text = kubeconfig(url, user, **{"certificate-authority": str(tmp_path / "ca")})
        assert KubernetesCalls(text).call("GET", "/version").body == VERSION
