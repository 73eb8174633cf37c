"""Access to a cluster at the moment of use, and the one place that makes a client of its API.

No step has the kubeconfig as an input: it reads it from a server over SSH, or from the environment
for an existing cluster. So a new certificate changes no step, and no request contains a secret. An
eviction that a disruption budget refuses (429) or a node that does not exist (404) is an answer,
not a failure.

`railyard device leave-cluster` asks the API once, before the first object is deleted. Without it,
`destroy` over a dead API ends with one provider error for each object, without the remedy.

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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.request import getproxies, proxy_bypass

import yaml

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.core.limits import LOG_BYTES, Deadline, end_within, read_all, timed
from components.core.record import record
from components.core.templates import fault_text
from components.core.to_json import to_json
from components.kubernetes.kubeconfig import POD_ACCESS, choose_context, render_kubeconfig
from components.kubernetes.planes.base import ClusterRef, Server
from components.remote.host_session import Run, run_on_hosts
from components.remote.lines import read_request, render_lines
from components.remote.step import OBSERVE_DEADLINE_S, env_name, render_remote_command, secrets_from

if TYPE_CHECKING:
    from urllib3 import PoolManager

_NONE: Final = "none"
_K3S: Final = "/etc/rancher/k3s/k3s.yaml"
"""K3s writes the file at the first start of a server, and its uninstall removes it."""
Body = Mapping[str, Any]
REQUEST_DEADLINE_S: Final = 5.0
"""Seconds for one try of a request."""
TRIES: Final = 4
"""Attempts before the client gives up: the first one, and urllib3's three retries."""
CALLS_AT_ONCE: Final = 16
"""The most requests of one client under way, and its idle connections kept for the next ones:
urllib3 keeps one, and opens another for each further call."""
STEP: Final = "cluster-leave"
KEEP: Final = "device keep-cluster"
LEAVE: Final = "device leave-cluster"
DROP: Final = "PULUMI_K8S_DELETE_UNREACHABLE"
"""With `true` the provider drops objects of a dead API from the state (its documentation)."""
_FILES: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_CREDENTIAL: Final = "ExecCredential"
_PROGRAM_DEADLINE_S: Final = 60.0
"""Deadline of the program that a kubeconfig names for the login; it may ask a person."""
_MALFORMED: Final = (AttributeError, TypeError, ValueError)
_EARLY: Final = timedelta(minutes=1)
"""A token that ends sooner than this is renewed first."""


def read_kubeconfig(
    cluster: ClusterRef, run: Run, secrets: Mapping[str, str], last: str = ""
) -> str | None:
    """The administrator's kubeconfig as it is now, or None if no server has started yet.

    In a pod of `watch` it is that of the pod's service account. `last` is the host to ask last,
    because it is about to leave service. DeviceError: a server does not answer, and no other server
    returns a kubeconfig.
    """
    if own := secrets.get(POD_ACCESS):
        return own
    if name := cluster.kubeconfig_secret:
        if name not in secrets:
            raise UsageError(f"no kubeconfig: set {env_name(name)} in the environment")
        return choose_context(secrets[name], cluster.context, cluster.name)
    silent: list[str] = []
    for server in sorted(cluster.servers, key=lambda each: each.endpoint.device == last):
        try:
            raw = _ask(server, run)
        except UnreachableError as error:
            silent.append(str(error).splitlines()[0])
            continue
        if raw.strip() != _NONE:
            return render_kubeconfig(raw, server.url, cluster.name)
    if silent:
        raise UnreachableError("; ".join(silent))
    return None


def fetch_kubeconfig(cluster: ClusterRef, secrets: Mapping[str, str]) -> str | None:
    """As `read_kubeconfig`, over connections of its own; UsageError if a login lacks a secret."""
    keys = {env_name(name): value for name, value in secrets.items()}
    run = run_on_hosts((each.endpoint for each in cluster.servers), keys)
    return read_kubeconfig(cluster, run, secrets)


def _ask(server: Server, run: Run) -> str:
    read = f"cat {server.kubeconfig or _K3S} 2>/dev/null || echo {_NONE}\n"
    command = render_remote_command(read, OBSERVE_DEADLINE_S)
    answer = run(server.endpoint, command, "", OBSERVE_DEADLINE_S)
    if answer.exit_status:
        raise DeviceError(f"{server.endpoint.where}: {answer.stderr.strip()}")
    return answer.stdout


@record
class Answer:
    """An answer of the API."""

    status: int
    text: str

    @property
    def body(self) -> Body:
        """The object; empty if the answer is not a JSON object."""
        try:
            document: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast("Body", document) if isinstance(document, dict) else {}

    @property
    def words(self) -> str:
        """The reason, in the API's words."""
        return str(self.body.get("message") or self.text.strip()[:200] or f"status {self.status}")


class Calls(Protocol):
    """A cluster that answers requests."""

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request; UnreachableError if no answer came."""
        ...


class KubernetesCalls:
    """`Calls` over HTTP, as the user of a kubeconfig's current context."""

    def __init__(self, kubeconfig: str, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        """Read the kubeconfig without a connection; DeviceError if it or its login is unusable."""
        self._deadline_s = deadline_s
        try:
            document = yaml.safe_load(kubeconfig)
            context = _named(document, "context", document["current-context"])
            user = _named(document, "user", context["user"])
            cluster = _named(document, "cluster", context["cluster"])
            self._url: str = cluster["server"].rstrip("/")
            self._login = _Login(cluster, user)
            self._pool = _pool(cluster, self._url, self._login)
        except (yaml.YAMLError, OSError, LookupError, StopIteration, *_MALFORMED) as error:
            # The text of a malformed kubeconfig may contain a token or a key.
            cause = error.__cause__ if isinstance(error, _MALFORMED) else error
            raise DeviceError("the cluster's kubeconfig cannot be used") from cause

    def call(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Send one request; a PATCH is a JSON merge patch."""
        from urllib3 import Timeout  # noqa: PLC0415 - most runs on a host never need it
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the same

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        said = {"Accept": "application/json, */*", "Content-Type": kind, "User-Agent": "railyard"}
        try:
            with end_within(Deadline(TRIES * self._deadline_s)):
                answer = self._pool.request(
                    method,
                    f"{self._url}{path}",
                    body=None if body is None else json.dumps(body),
                    headers=said | self._login.headers(),
                    timeout=Timeout(total=self._deadline_s),
                    preload_content=False,
                )
                # A timeout of urllib3 restarts with each byte, and its `read` is unlimited.
                data = read_all(answer.read1, Deadline(self._deadline_s), LOG_BYTES)
        except (HTTPError, OSError) as error:
            words = f"{method} {path}: {str(error).strip().splitlines()[-1]}"
            raise UnreachableError(f"the cluster did not answer {words}") from error
        return Answer(int(answer.status), data.decode(errors="replace"))


@record
class LeaveRequest:
    """The request on stdin."""

    cluster: ClusterRef
    stack: str

    def render(self) -> str:
        """The request, one value a line."""
        return render_lines(to_json(self))


def run_keep_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Do nothing: the step matters only when it is deleted."""
    del text, environ
    return "{}"


def run_leave_cluster(text: str, environ: Mapping[str, str]) -> str:
    """Allow the deletion of objects if their API answers, or if the user drops them."""
    request = read_request(LeaveRequest, text, "request to leave a cluster")
    if environ.get(DROP) == "true":
        return "{}"
    try:
        kubeconfig = fetch_kubeconfig(request.cluster, secrets_from(environ))
        if kubeconfig is None:
            raise UnreachableError("no server has a kubeconfig")
        KubernetesCalls(kubeconfig).call("GET", "/version")
    except DeviceError as error:
        words = {"name": request.cluster.name, "stack": request.stack, "drop": DROP}
        row = "dead-existing-api" if request.cluster.kubeconfig_secret else "dead-api"
        raise DeviceError(fault_text(__file__, row, error=error, **words)) from error
    return "{}"


def _named(document: Body, kind: str, name: str) -> Body:
    return next(each[kind] for each in document[f"{kind}s"] if each["name"] == name)


def _pem(part: Body, key: str) -> bytes:
    """A certificate or key, from the text in the kubeconfig or from the file that it names."""
    if data := part.get(f"{key}-data"):
        return base64.b64decode(data)
    return Path(part[key]).read_bytes() if part.get(key) else b""


class _Login:
    """How a user shows who it is: a certificate, a token, a password, or a program that knows."""

    def __init__(self, cluster: Body, user: Body) -> None:
        if "auth-provider" in user:
            raise DeviceError(fault_text(__file__, "auth-provider"))
        self.certificate, self.key = _pem(user, "client-certificate"), _pem(user, "client-key")
        self._token: str = user.get("token") or ""
        if not self._token and user.get("tokenFile"):
            self._token = Path(user["tokenFile"]).read_text().strip()
        self._password = f"{user['username']}:{user['password']}" if "username" in user else ""
        self._program: Body = {} if self._token else user.get("exec") or {}
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
        shown = base64.b64encode(self._password.encode()).decode()
        return {"Authorization": f"Basic {shown}"} if shown else {}

    def _ask(self) -> None:
        """Run the program of `exec`, as client-go does: its answer is an ExecCredential."""
        program, spec = self._program, dict[str, object](interactive=sys.stdin.isatty())
        if program.get("provideClusterInfo"):
            known = {it["name"]: it["extension"] for it in self._cluster.get("extensions") or ()}
            own = known.get("client.authentication.k8s.io/exec")
            spec["cluster"] = {**self._cluster, "config": own}
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
            code = getattr(error, "returncode", None)
            why = type(error).__name__ if code is None else f"exit status {code}"
            fix = program.get("installHint") or "run it by hand, and log in there"
            text = fault_text(__file__, "login-program", program=words[0], why=why, fix=fix)
            raise DeviceError(text) from None
        answer = json.loads(done.stdout)
        if answer["apiVersion"] != program["apiVersion"] or answer["kind"] != _CREDENTIAL:
            raise ValueError(_CREDENTIAL)
        status: Body = answer["status"]
        self._token = status.get("token") or ""
        if status.get("clientKeyData"):
            self.certificate = status["clientCertificateData"].encode()
            self.key = status["clientKeyData"].encode()
        ends = status.get("expirationTimestamp")
        self._ends: datetime | None = datetime.fromisoformat(ends) if ends and self._token else None


def _pool(cluster: Body, url: str, login: _Login) -> PoolManager:
    from urllib3 import PoolManager, ProxyManager, make_headers  # noqa: PLC0415 - see above
    from urllib3.util import parse_url  # noqa: PLC0415 - see above

    authority = _pem(cluster, "certificate-authority")
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    timed(context)
    context.pems = (authority, login.certificate, login.key)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif not authority:
        context.load_default_certs()
    options: dict[str, Any] = {"ssl_context": context, "maxsize": CALLS_AT_ONCE}
    if cluster.get("tls-server-name"):
        options["server_hostname"] = cluster["tls-server-name"]
    api = parse_url(url)
    proxy = cluster.get("proxy-url") or getproxies().get(api.scheme or "")
    # NO_PROXY may have networks, which Python does not read.
    host = (api.host or "").strip("[]")
    entries = [entry.strip() for entry in getproxies().get("no", "").split(",")]
    direct = proxy_bypass(host) or "*" in entries
    for entry in entries:
        with suppress(ValueError):  # a name, not an address
            direct = direct or ip_address(host) in ip_network(entry, strict=False)
    if not proxy or ("proxy-url" not in cluster and direct):
        return PoolManager(**options)
    account = parse_url(proxy).auth
    headers = make_headers(proxy_basic_auth=account) if account else None
    return ProxyManager(proxy, proxy_headers=headers, **options)


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


@contextmanager
def _nameless(content: bytes) -> Generator[str]:
    """The path of a file in memory; off Linux, of a file that is named only while it is empty."""
    is_linux = sys.platform == "linux"
    with os.fdopen(os.memfd_create("railyard"), "w+b") if is_linux else TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"{_FILES}/{file.fileno()}"
