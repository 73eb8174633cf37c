"""`k3s agent` of the lab: proves its token, joins, reports its devices, serves its pods' logs."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

from components.errors import DeviceError
from lab.cluster.devices import dump_devices
from lab.cluster.document import Doc, Json, as_doc, text_at
from lab.cluster.https import OK, serve_tls
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_node import (
    ensure_node_password,
    read_devices,
    read_facts,
    read_memlock_kib,
    write_kubelet_config,
)
from lab.cluster.k3s_server import REPORT_S
from lab.cluster.k3s_token import Token, check_ca, parse_token
from lab.cluster.kubelet import PORT as KUBELET_PORT
from lab.cluster.kubelet import make_kubelet
from lab.cluster.pki import KeyPair, write_private
from lab.cluster.supervisor import PORT as SUPERVISOR_PORT
from lab.cluster.supervisor import dump_facts

_RETRY_S = 2.0
_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Upstream:
    """The server an agent talks to, with the CA that its token vouched for."""

    host: str
    token: Token
    ca: Path | None = field(default=None)

    def request(self, method: str, path: str, body: Doc | None = None) -> bytes:
        """Send one request; before the CA is known nothing but the CA may be asked for.

        Raises:
            DeviceError: no answer, or an error status; the text is K3s' own form.
        """
        url = f"https://{self.host}:{SUPERVISOR_PORT}{path.partition('?')[0]}"
        connection = http.client.HTTPSConnection(
            self.host, SUPERVISOR_PORT, timeout=_TIMEOUT_S, context=self._tls()
        )
        headers: dict[str, str] = {}
        if self.ca:
            user = self.token.user or "node"
            plain = f"{user}:{self.token.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(plain).decode()}"
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise DeviceError(f'Get "{url}": {error}') from error
        finally:
            connection.close()
        if response.status != OK:
            reason = data.decode(errors="replace").strip()
            raise DeviceError(f"{url}: {response.status} {reason}")
        return data

    def _tls(self) -> ssl.SSLContext:
        if self.ca:
            context = ssl.create_default_context(cafile=str(self.ca))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            return context
        # The CA is fetched unverified and then held against the token's hash, as K3s does.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


def connect(config: K3sConfig, paths: HostPaths) -> Upstream:
    """Fetch the cluster's CA and check it against the token.

    Raises:
        DeviceError: no server, or the token names another cluster.
    """
    parts = urlsplit(config.server)
    if parts.scheme != "https" or not parts.hostname:
        raise DeviceError(f"only https:// URLs are supported, invalid scheme: {config.server}")
    upstream = Upstream(parts.hostname, parse_token(config.token))
    pem = upstream.request("GET", "/cacerts")
    check_ca(upstream.token, pem)
    file = paths.agent / "server-ca.crt"
    write_private(file, pem)
    upstream.ca = file
    return upstream


def run_agent(
    config: K3sConfig, paths: HostPaths, stop: threading.Event, on_ready: Callable[[], None]
) -> None:
    """Run an agent until `stop` is set; like K3s it tries to join again and again.

    Raises:
        DeviceError: the token cannot be used at all.
    """
    parse_token(config.token)
    facts = read_facts(paths, config)
    password = ensure_node_password(paths)
    memlock_kib = read_memlock_kib(paths, "k3s-agent")
    joined = _join(config, paths, {**dump_facts(facts), "node_password": password}, stop)
    if joined is None:
        return
    upstream, pair = joined

    def read_log(namespace: str, pod: str) -> str:
        query = f"namespace={quote(namespace)}&pod={quote(pod)}"
        return upstream.request("GET", f"/v1-lab/log?{query}").decode()

    write_kubelet_config(paths, config.server, paths.agent / "server-ca.crt", pair)
    address = (config.node_ip, KUBELET_PORT)
    kubelet = serve_tls(address, pair, make_kubelet(read_log), upstream.ca)
    try:
        on_ready()
        while True:
            devices = dump_devices(read_devices(paths, memlock_kib))
            _try_report(upstream, {"name": config.node_name, "devices": devices})
            if stop.wait(REPORT_S):
                return
    finally:
        kubelet.shutdown()
        kubelet.server_close()


def _join(
    config: K3sConfig, paths: HostPaths, body: Doc, stop: threading.Event
) -> tuple[Upstream, KeyPair] | None:
    while not stop.is_set():
        try:
            upstream = connect(config, paths)
            answer = as_doc(
                cast("Json", json.loads(upstream.request("POST", "/v1-lab/join", body)))
            )
        except DeviceError as error:
            print(
                f'level=error msg="Failed to validate connection to cluster at {config.server}: '
                f'{error}"',
                file=sys.stderr,
                flush=True,
            )
            stop.wait(_RETRY_S)
            continue
        pair = KeyPair(paths.agent / "serving-kubelet.crt", paths.agent / "serving-kubelet.key")
        write_private(pair.key, text_at(answer, "key").encode())
        write_private(pair.cert, text_at(answer, "cert").encode())
        return upstream, pair
    return None


def _try_report(upstream: Upstream, body: Doc) -> None:
    try:
        upstream.request("POST", "/v1-lab/report", body)
    except DeviceError as error:
        print(f'level=error msg="Error updating node status: {error}"', file=sys.stderr, flush=True)
