"""The servers of a cluster, as a node talks to them: proven by the token, tried one after another.

A K3s node keeps its own list of servers once it has joined, and no longer needs the balancer.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from components.core.errors import DeviceError
from lab.cluster.api import is_closed
from lab.cluster.document import Doc, Json, as_doc, texts_at
from lab.cluster.https import OK
from lab.cluster.k3s_config import HostPaths, K3sConfig
from lab.cluster.k3s_token import Token, check_ca, parse_token
from lab.cluster.mux import ALPN
from lab.cluster.pki import write_private

_REPORT = "/v1-lab/report"
TIMEOUT_S = 10.0
REPORT_TIMEOUT_S = 2.0
"""A server that hangs must not keep a node from telling the others that it lives."""


class NoAnswerError(DeviceError):
    """Nobody answered at that address."""


@dataclass(slots=True)
class Upstream:
    """The address a node was given, the servers it learnt of, and the CA its token vouched for."""

    address: str
    """`host:port` of the configuration."""
    token: Token
    user: str
    """`node` for an agent, `server` for a server that joins."""
    ca: Path | None = field(default=None)
    servers: tuple[str, ...] = ()
    """`host:port` of every server of the cluster, once it said so."""
    links: dict[str, http.client.HTTPSConnection] = field(
        default_factory=dict[str, http.client.HTTPSConnection]
    )
    """What the last report left open: a handshake costs both sides more than the report does."""

    def request(
        self, method: str, path: str, body: Doc | None = None, timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """Ask the configured address, then the other servers; the first one that answers counts.

        Raises:
            DeviceError: No answer, or an error status; the text is K3s' own form.
        """
        failures: list[NoAnswerError] = []
        for address in dict.fromkeys((self.address, *self.servers)):
            try:
                return self.ask(address, method, path, body, timeout_s)
            except NoAnswerError as error:
                failures.append(error)
        raise failures[0]

    def report(self, body: Doc) -> None:
        """Tell every server; whoever acts for the cluster must know. Learn of new servers.

        Raises:
            DeviceError: No server took it.
        """
        failures: list[DeviceError] = []
        addresses = self.servers or (self.address,)
        for address in addresses:
            try:
                self.learn(self.tell(address, body))
            except DeviceError as error:
                failures.append(error)
        if len(failures) == len(addresses):
            # All that it knows may have been replaced: the configured address leads to the rest.
            self.learn(self.tell(self.address, body))

    def tell(self, address: str, body: Doc) -> bytes:
        """Report to one server, over the connection of the report before where it is still open.

        One thread alone reports.

        Raises:
            NoAnswerError: Nobody answered there.
            DeviceError: It answered with an error status.
        """
        link = self.links.pop(address, None)
        if link is not None and is_closed(link):
            link.close()
            link = None
        link = link or self._connect(address, REPORT_TIMEOUT_S)
        try:
            answer = self._exchange(link, "POST", _REPORT, body)
        except DeviceError:
            link.close()
            raise
        self.links[address] = link
        return answer

    def learn(self, answer: bytes) -> None:
        """Take over the list of servers in an answer, if it has one."""
        servers = texts_at(as_doc(cast("Json", json.loads(answer or b"{}"))), "servers")
        self.servers = servers or self.servers

    def read_log(self, target: str) -> str:
        """Find a pod's log: it lies with the server that acted when the pod ended.

        Raises:
            DeviceError: No server answers.
        """
        failures: list[DeviceError] = []
        addresses = self.servers or (self.address,)
        for address in addresses:
            try:
                text = self.ask(address, "GET", target).decode()
            except DeviceError as error:
                failures.append(error)
                continue
            if text:
                return text
        if len(failures) == len(addresses):
            raise failures[0]
        return ""

    def ask(
        self,
        address: str,
        method: str,
        path: str,
        body: Doc | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> bytes:
        """Send one request to one address; before the CA is known only the CA is asked for.

        Raises:
            NoAnswerError: Nobody answered there.
            DeviceError: It answered with an error status.
        """
        connection = self._connect(address, timeout_s)
        try:
            return self._exchange(connection, method, path, body)
        finally:
            connection.close()

    def _connect(self, address: str, timeout_s: float) -> http.client.HTTPSConnection:
        host, _, port = address.partition(":")
        return http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=self._tls())

    def _exchange(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: Doc | None
    ) -> bytes:
        url = f"https://{connection.host}:{connection.port}{path.partition('?')[0]}"
        headers: dict[str, str] = {}
        if self.ca:
            plain = f"{self.token.user or self.user}:{self.token.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(plain).decode()}"
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f'Get "{url}": {error}') from error
        if response.status != OK:
            reason = data.decode(errors="replace").strip()
            raise DeviceError(f"{url}: {response.status} {reason}")
        return data

    def _tls(self) -> ssl.SSLContext:
        if self.ca:
            context = ssl.create_default_context(cafile=str(self.ca))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        else:
            # The CA is fetched unverified and then held against the token's hash, as K3s does.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols([ALPN])
        return context


def connect(config: K3sConfig, paths: HostPaths) -> Upstream:
    """Fetch the cluster's CA and check it against the token.

    Raises:
        DeviceError: No server, or the token names another cluster.
    """
    parts = urlsplit(config.server)
    if parts.scheme != "https" or not parts.hostname:
        raise DeviceError(f"only https:// URLs are supported, invalid scheme: {config.server}")
    user = "server" if config.role == "server" else "node"
    address = f"{parts.hostname}:{parts.port or 6443}"
    upstream = Upstream(address, parse_token(config.token), user)
    pem = upstream.request("GET", "/cacerts")
    check_ca(upstream.token, pem)
    file = paths.agent / "server-ca.crt"
    write_private(file, pem)
    upstream.ca = file
    return upstream
