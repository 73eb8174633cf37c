"""K3s' supervisor: where agents fetch the CA, prove their token, join and report.

Real K3s multiplexes this with the API on one port; the lab gives it the port that RKE2 uses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lab.cluster.api import CONFLICT, Api, ApiError
from lab.cluster.devices import parse_devices
from lab.cluster.document import Doc, Json, as_doc, at, docs_at, pairs_at, text_at
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.https import OK, Request, Response
from lab.cluster.node_agent import Reports
from lab.cluster.pki import Authority, KeyPair
from lab.cluster.pod_logs import PodLogs

PORT = 9345
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_SECRETS = "/api/v1/namespaces/kube-system/secrets"


class NodePasswordError(Exception):
    """Another machine with this name joined before."""


@dataclass(frozen=True, slots=True)
class Supervisor:
    """The join side of a server."""

    api: Api
    ca: Authority
    password: str
    """The password part of the server's token."""
    reports: Reports
    logs: PodLogs
    folder: Path

    def answer(self, request: Request) -> Response:
        """Answer one request; all but the CA and the ping need the token."""
        if request.path == "/ping":
            return Response(OK, b"pong")
        if request.path == "/cacerts":
            return Response(OK, self.ca.files.cert.read_bytes())
        if not self._authorized(request.headers.get("authorization", "")):
            return Response(_UNAUTHORIZED, b"Unauthorized\n")
        routes: dict[str, Callable[[Request], Response]] = {
            "/v1-lab/join": self._join,
            "/v1-lab/report": self._report,
            "/v1-lab/log": self._log,
        }
        route = routes.get(request.path)
        return route(request) if route else Response(_NOT_FOUND, b"not found\n")

    def _authorized(self, header: str) -> bool:
        scheme, _, encoded = header.partition(" ")
        if scheme != "Basic":
            return False
        user, _, password = base64.b64decode(encoded).decode(errors="replace").partition(":")
        right = hmac.compare_digest(password.encode(), self.password.encode())
        return right and user in {"node", "server"}

    def _join(self, request: Request) -> Response:
        body = as_doc(cast("Json", json.loads(request.body)))
        try:
            pair = self.join(parse_facts(body), text_at(body, "node_password"))
        except NodePasswordError as error:
            return Response(_FORBIDDEN, f"{error}\n".encode())
        answer = {"cert": pair.cert.read_text(), "key": pair.key.read_text()}
        return Response(OK, json.dumps(answer).encode(), "application/json")

    def join(self, facts: NodeFacts, node_password: str) -> KeyPair:
        """Register a node and issue the certificate of its kubelet.

        Raises:
            NodePasswordError: the node's password is not that of its first join.
        """
        self._check_node_password(facts.name, node_password)
        register_node(self.api, facts)
        files = KeyPair(self.folder / f"{facts.name}.crt", self.folder / f"{facts.name}.key")
        names = (facts.address, facts.name)
        return self.ca.issue(files, f"system:node:{facts.name}", "system:nodes", names)

    def _check_node_password(self, node: str, password: str) -> None:
        name = f"{node}.node-password.k3s"
        digest = hashlib.sha256(password.encode()).hexdigest()
        encoded = base64.b64encode(digest.encode()).decode()
        existing = self.api.find(f"{_SECRETS}/{name}")
        if existing is None:
            secret: Doc = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name},
                "type": "Opaque",
                "data": {"hash": encoded},
            }
            self._create(secret)
        elif pairs_at(existing, "data").get("hash") != encoded:
            raise NodePasswordError(
                "Node password rejected, duplicate hostname or contents of "
                "'/etc/rancher/node/password' may not match server node-passwd entry, try "
                "enabling a unique node name with the --with-node-id flag"
            )

    def _create(self, secret: Doc) -> None:
        try:
            self.api.request("POST", _SECRETS, secret)
        except ApiError as error:
            if error.status != CONFLICT:
                raise

    def _report(self, request: Request) -> Response:
        body = as_doc(cast("Json", json.loads(request.body)))
        self.reports.put(text_at(body, "name"), parse_devices(at(body, "devices")))
        return Response(OK)

    def _log(self, request: Request) -> Response:
        text = self.logs.read(request.query.get("namespace", ""), request.query.get("pod", ""))
        return Response(OK, text.encode())


def dump_facts(facts: NodeFacts) -> Doc:
    """The JSON form of a node's facts, as an agent sends them."""
    labels: dict[str, Json] = dict(facts.labels)
    annotations: dict[str, Json] = dict(facts.annotations)
    return {
        "name": facts.name,
        "address": facts.address,
        "boot_id": facts.boot_id,
        "kernel": facts.kernel,
        "labels": labels,
        "annotations": annotations,
        "taints": list(facts.taints),
    }


def parse_facts(body: Doc) -> NodeFacts:
    """Read a node's facts from their JSON form."""
    return NodeFacts(
        name=text_at(body, "name"),
        address=text_at(body, "address"),
        boot_id=text_at(body, "boot_id"),
        kernel=text_at(body, "kernel"),
        labels=pairs_at(body, "labels"),
        annotations=pairs_at(body, "annotations"),
        taints=tuple(docs_at(body, "taints")),
    )
