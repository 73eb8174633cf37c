"""K3s' supervisor: where agents fetch the CA, prove their token, join and report.

It shares its port with the API (`mux.py`); behind that it has the port that RKE2 gives it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.api import CONFLICT, Api, ApiError
from lab.cluster.devices import parse_devices
from lab.cluster.document import Doc, Json, as_doc, at, docs_at, pairs_at, text_at, texts_at
from lab.cluster.etcd_members import EtcdMembers, admit
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.https import OK, Request, Response
from lab.cluster.join import dump_shared
from lab.cluster.k3s_token import Passwords, hash_password
from lab.cluster.pki import Authority, KeyPair
from lab.cluster.pod_logs import PodLogs
from lab.cluster.reports import Reports

_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_UNAVAILABLE = 503
_SECRETS = "/api/v1/namespaces/kube-system/secrets"


class NodePasswordError(Exception):
    """Another machine with this name joined before."""


@dataclass(slots=True)
class ClusterSide:
    """What a joining server needs of the one it asks."""

    members: EtcdMembers
    tls: Path
    api_port: int
    disable: tuple[str, ...]
    """What the cluster was started without; all servers must agree."""
    known: list[Json] = field(default_factory=list[Json])
    """What `servers` gave last: this server asks as often as a node reports."""

    def servers(self) -> list[Json]:
        """Where the cluster's servers are, as `host:port`; empty while etcd cannot say."""
        try:
            members = self.members.list()
        except DeviceError:
            members = []
        self.known = [f"{member.address}:{self.api_port}" for member in members if member.name]
        return self.known


@record
class Supervisor:
    """The join side of a server."""

    api: Api
    ca: Authority
    passwords: Passwords
    """The password parts of its tokens."""
    reports: Reports
    logs: PodLogs
    folder: Path
    cluster: ClusterSide

    def answer(self, request: Request) -> Response:
        """Answer one request; all but the CA and the ping need the token."""
        if request.path == "/ping":
            return Response(OK, b"pong")
        if request.path == "/cacerts":
            return Response(OK, self.ca.files.cert.read_bytes())
        user = self._user(request.headers.get("authorization", ""))
        routes: dict[str, Callable[[Request], Response]] = {
            "/v1-lab/join": self._join,
            "/v1-lab/report": self._report,
            "/v1-lab/log": self._log,
        }
        for_servers: dict[str, Callable[[Request], Response]] = {
            "/v1-lab/server-bootstrap": self._bootstrap,
            "/v1-lab/etcd-member": self._admit,
            "/v1-lab/etcd-promote": self._promote,
        }
        if not user or (request.path in for_servers and user != "server"):
            return Response(_UNAUTHORIZED, b"Unauthorized\n")
        route = (routes | for_servers).get(request.path)
        return route(request) if route else Response(_NOT_FOUND, b"not found\n")

    def _user(self, header: str) -> str:
        """`node` or `server`, proven by the token; empty for anybody else."""
        scheme, _, encoded = header.partition(" ")
        if scheme != "Basic":
            return ""
        user, _, password = base64.b64decode(encoded).decode(errors="replace").partition(":")
        known = {"node": self.passwords.node, "server": self.passwords.server}
        right = hmac.compare_digest(password.encode(), known.get(user, "").encode())
        return user if right and user in known else ""

    def _bootstrap(self, request: Request) -> Response:
        del request
        return _json({"files": dump_shared(self.cluster.tls)})

    def _admit(self, request: Request) -> Response:
        body = as_doc(cast("Json", json.loads(request.body)))
        if sorted(texts_at(body, "disable")) != sorted(self.cluster.disable):
            text = b"failed to validate server configuration: critical configuration value mismatch"
            return Response(_BAD_REQUEST, text + b" between servers: disable\n")
        if text_at(body, "agent_token") != hash_password(self.passwords.node):
            text = b"failed to validate server configuration: critical configuration value mismatch"
            return Response(_BAD_REQUEST, text + b" between servers: agent-token\n")
        try:
            name, peer = text_at(body, "name"), text_at(body, "peer")
            cluster = admit(self.cluster.members, name, peer)
        except DeviceError as error:
            return Response(_UNAVAILABLE, f"{error}\n".encode())
        return _json({"initial_cluster": cluster})

    def _promote(self, request: Request) -> Response:
        body = as_doc(cast("Json", json.loads(request.body)))
        try:
            self.cluster.members.promote(text_at(body, "id"))
        except DeviceError as error:
            return Response(_UNAVAILABLE, f"{error}\n".encode())
        return _json({})

    def _join(self, request: Request) -> Response:
        body = as_doc(cast("Json", json.loads(request.body)))
        try:
            pair = self.join(parse_facts(body), text_at(body, "node_password"))
        except NodePasswordError as error:
            return Response(_FORBIDDEN, f"{error}\n".encode())
        return _json(
            {
                "cert": pair.cert.read_text(),
                "key": pair.key.read_text(),
                "servers": self.cluster.servers(),
            }
        )

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
        return _json({"servers": self.cluster.known})

    def _log(self, request: Request) -> Response:
        text = self.logs.read(request.query.get("namespace", ""), request.query.get("pod", ""))
        return Response(OK, text.encode())


def _json(body: Doc) -> Response:
    return Response(OK, json.dumps(body).encode(), "application/json")


def dump_facts(facts: NodeFacts) -> Doc:
    """The JSON form of a node's facts, as an agent sends them."""
    labels: dict[str, Json] = dict(facts.labels)
    annotations: dict[str, Json] = dict(facts.annotations)
    return {
        "name": facts.name,
        "address": facts.address,
        "boot_id": facts.boot_id,
        "kernel": facts.kernel,
        "release": facts.release,
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
        release=text_at(body, "release"),
        labels=pairs_at(body, "labels"),
        annotations=pairs_at(body, "annotations"),
        taints=tuple(docs_at(body, "taints")),
    )
