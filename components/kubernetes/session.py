"""HTTP to the API of a cluster, from the text of a kubeconfig: TLS, login and proxy.

A kubeconfig contains certificates and keys as text. Python's TLS can only load a key from a path,
so the key goes through a file without a name, which the kernel removes however the process ends.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.request import getproxies, proxy_bypass

import yaml

from components.core.errors import DeviceError
from components.core.limits import timed

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

Part = Mapping[str, Any]
_FILES: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_CREDENTIAL: Final = "ExecCredential"
_PROGRAM_DEADLINE_S: Final = 60.0
"""Deadline of the program that a kubeconfig names for the login; it may ask a person."""
_EARLY: Final = timedelta(minutes=1)
"""A token that ends sooner than this is renewed first."""


def open_session(kubeconfig: str) -> Session:
    """Read the current context of a kubeconfig; nothing is connected yet."""
    try:
        document = yaml.safe_load(kubeconfig)
        context = _named(document, "context", document["current-context"])
        user = _named(document, "user", context["user"])
        return Session(_named(document, "cluster", context["cluster"]), user)
    except (yaml.YAMLError, OSError, LookupError, StopIteration) as error:
        raise _unusable() from error
    except (AttributeError, TypeError, ValueError) as error:
        # A malformed kubeconfig; the error's text may contain a token or a key.
        raise _unusable() from error.__cause__


def _unusable() -> DeviceError:
    return DeviceError("the cluster's kubeconfig cannot be used")


def _named(document: Part, kind: str, name: str) -> Part:
    return next(each[kind] for each in document[f"{kind}s"] if each["name"] == name)


def _pem(part: Part, key: str) -> bytes:
    """A certificate or key, from the text in the kubeconfig or from the file that it names."""
    if data := part.get(f"{key}-data"):
        return base64.b64decode(data)
    return Path(part[key]).read_bytes() if part.get(key) else b""


class Session:
    """Sends requests as one user of one cluster."""

    def __init__(self, cluster: Part, user: Part) -> None:
        """Take the parts of a kubeconfig; DeviceError if the user logs in by an unknown way."""
        self._url: str = cluster["server"].rstrip("/")
        self._login = _Login(cluster, user)
        authority = _pem(cluster, "certificate-authority")
        context = _Context(ssl.PROTOCOL_TLS_CLIENT)
        timed(context)
        context.pems = (authority, self._login.certificate, self._login.key)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif not authority:
            context.load_default_certs()
        self._pool = _pool(cluster, self._url, context)

    def request(
        self, method: str, path: str, body: Part | None, within_s: float
    ) -> BaseHTTPResponse:
        """Send one request; a PATCH is a JSON merge patch. The body is not read yet."""
        from urllib3 import Timeout  # noqa: PLC0415 - most runs on a host never need it

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        said = {"Accept": "application/json, */*", "Content-Type": kind, "User-Agent": "railyard"}
        return self._pool.request(
            method,
            f"{self._url}{path}",
            body=None if body is None else json.dumps(body),
            headers=said | self._login.headers(),
            timeout=Timeout(total=within_s),
            preload_content=False,
        )


class _Login:
    """How a user shows who it is: a certificate, a token, a password, or a program that knows."""

    def __init__(self, cluster: Part, user: Part) -> None:
        if "auth-provider" in user:
            raise DeviceError(
                "the kubeconfig logs in with `auth-provider`, which kubectl 1.26 removed.\n"
                "  fix    make a kubeconfig with `exec`, a token or a certificate"
            )
        self.certificate, self.key = _pem(user, "client-certificate"), _pem(user, "client-key")
        self._token: str = user.get("token") or ""
        if not self._token and user.get("tokenFile"):
            self._token = Path(user["tokenFile"]).read_text().strip()
        self._password = f"{user['username']}:{user['password']}" if "username" in user else ""
        self._program: Part = {} if self._token else user.get("exec") or {}
        self._cluster, self._ends, self._asking = cluster, None, Lock()
        if self._program:
            self._ask()

    def headers(self) -> dict[str, str]:
        """The header of a request; a program is asked again before its token ends."""
        with self._asking:
            if self._ends is not None and datetime.now(UTC) > self._ends - _EARLY:
                self._ask()
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        if self._password:
            shown = base64.b64encode(self._password.encode()).decode()
            return {"Authorization": f"Basic {shown}"}
        return {}

    def _ask(self) -> None:
        status = _ask_program(self._program, self._cluster)
        self._token = status.get("token") or ""
        if status.get("clientKeyData"):
            self.certificate = status["clientCertificateData"].encode()
            self.key = status["clientKeyData"].encode()
        ends = status.get("expirationTimestamp")
        self._ends: datetime | None = datetime.fromisoformat(ends) if ends and self._token else None


def _ask_program(program: Part, cluster: Part) -> Part:
    """Run the program of `exec`, as client-go does: its answer is an ExecCredential."""
    spec: dict[str, object] = {"interactive": sys.stdin.isatty()}
    if program.get("provideClusterInfo"):
        known = {item["name"]: item["extension"] for item in cluster.get("extensions") or ()}
        spec["cluster"] = {**cluster, "config": known.get("client.authentication.k8s.io/exec")}
    asked = {"apiVersion": program["apiVersion"], "kind": _CREDENTIAL, "spec": spec}
    added = {each["name"]: each["value"] for each in program.get("env") or ()}
    words = [program["command"], *(program.get("args") or ())]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            stdin=None if spec["interactive"] else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_PROGRAM_DEADLINE_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = (
            f"exit status {error.returncode}"
            if isinstance(error, subprocess.CalledProcessError)
            else type(error).__name__
        )
        raise DeviceError(
            f"the kubeconfig logs in with the program {words[0]}, which fails: {why}.\n"
            f"  fix    {program.get('installHint') or 'run it by hand, and log in there'}"
        ) from None
    answer = json.loads(done.stdout)
    if answer["apiVersion"] != program["apiVersion"] or answer["kind"] != _CREDENTIAL:
        raise ValueError(_CREDENTIAL)
    return answer["status"]


def _pool(cluster: Part, url: str, context: ssl.SSLContext) -> PoolManager:
    from urllib3 import PoolManager, ProxyManager, make_headers  # noqa: PLC0415 - see above
    from urllib3.util import parse_url  # noqa: PLC0415 - see above

    options: dict[str, Any] = {"ssl_context": context}
    if cluster.get("tls-server-name"):
        options["server_hostname"] = cluster["tls-server-name"]
    api = parse_url(url)
    proxy = cluster.get("proxy-url") or getproxies().get(api.scheme or "")
    if not proxy or ("proxy-url" not in cluster and _without_proxy((api.host or "").strip("[]"))):
        return PoolManager(**options)
    login = parse_url(proxy).auth
    return ProxyManager(
        proxy, proxy_headers=make_headers(proxy_basic_auth=login) if login else None, **options
    )


def _without_proxy(host: str) -> bool:
    """Whether NO_PROXY names this host; it may have networks, which Python does not read."""
    entries = [entry.strip() for entry in getproxies().get("no", "").split(",")]
    if proxy_bypass(host) or "*" in entries:
        return True
    for entry in entries:
        try:
            if ip_address(host) in ip_network(entry, strict=False):
                return True
        except ValueError:  # a name, not an address
            continue
    return False


class _Context(ssl.SSLContext):
    """TLS that loads the CA, the certificate and the key at the first handshake.

    So a broken one is a connection error. Several threads read a cluster with one session, and
    OpenSSL ends the process if one thread uses a context that another still loads.
    """

    pems: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    loading: Lock = Lock()

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:  # noqa: ANN401 - as it is there
        with self.loading:
            authority, certificate, key = self.pems
            if authority:
                self.load_verify_locations(cadata=authority.decode())
            if certificate and key:
                with _nameless(certificate) as chain, _nameless(key) as private:
                    self.load_cert_chain(chain, private)
            self.pems = (b"", b"", b"")
        return super().wrap_socket(*args, **options)


def _unnamed_file() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("railyard"), "w+b")
    return TemporaryFile()


@contextmanager
def _nameless(content: bytes) -> Generator[str]:
    """The path of a file in memory; off Linux, of a file that is named only while it is empty."""
    with _unnamed_file() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"{_FILES}/{file.fileno()}"
