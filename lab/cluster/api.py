"""A small typed client of the Kubernetes API, enough for the lab's own controllers."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias, cast
from urllib.parse import urlencode, urlsplit

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.document import Doc, Json, as_doc, docs_at, pairs_at, text_at
from lab.cluster.pki import KeyPair

NOT_FOUND = 404
CONFLICT = 409
_BAD_REQUEST = 400
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


_Connections: TypeAlias = "dict[tuple[str, KeyPair | None], http.client.HTTPSConnection]"


class _Kept(threading.local):
    """Open connections of one thread: a TLS handshake for every request costs more than it."""

    def __init__(self) -> None:
        self.connections: _Connections = {}


_KEPT = _Kept()


def _connections() -> _Connections:
    return _KEPT.connections


def is_closed(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server closed a kept connection: between two answers it says nothing else."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


class ApiError(DeviceError):
    """The API answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the HTTP status beside the message."""
        super().__init__(message)
        self.status = status


@record
class Api:
    """Where an API server is, and as whom to talk to it."""

    server: str
    ca: Path
    client: KeyPair | None = None
    token: str = ""
    timeout_s: float = 10.0

    def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Doc:
        """Send one request and read the answer.

        Raises:
            ApiError: the server answered with a status of 400 or more.
            DeviceError: there was no answer.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        status, text = self.raw(method, target, json.dumps(body) if body else None, content_type)
        try:
            answer = as_doc(cast("Json", json.loads(text))) if text.startswith("{") else {}
        except json.JSONDecodeError as error:
            raise DeviceError(f"{self.server}{path} answered no JSON: {text[:200]!r}") from error
        if status >= _BAD_REQUEST:
            reason = text_at(answer, "message") or text[:300]
            raise ApiError(status, f"{method} {path}: {status} {reason}")
        return answer

    def raw(self, method: str, target: str, body: str | None, content_type: str) -> tuple[int, str]:
        """Send one request; returns the HTTP status and the text of the answer."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        fresh = (self.server, self.client) not in _connections()
        try:
            return self._exchange(method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            # A kept connection may have been closed by the server in the meantime: try once more.
            if fresh or method not in {"GET", "PATCH"}:
                raise DeviceError(f"no answer from {self.server}: {error}") from error
        return self.raw(method, target, body, content_type)

    def _exchange(
        self, method: str, target: str, body: str | None, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        key = (self.server, self.client)
        connection = _connections().get(key)
        if connection is None or is_closed(connection):
            self._forget()
            parts = urlsplit(self.server)
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port or 443, timeout=self.timeout_s, context=self._tls()
            )
            _connections()[key] = connection
        connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.read().decode()

    def _forget(self) -> None:
        connection = _connections().pop((self.server, self.client), None)
        if connection:
            connection.close()

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        # The authority's certificates carry no key usage that VERIFY_X509_STRICT wants.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.client:
            context.load_cert_chain(self.client.cert, self.client.key)
        return context

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Doc]:
        """List the objects under a path; an empty list where the kind does not exist (yet)."""
        try:
            return docs_at(self.request("GET", path, query=query), "items")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return []
            raise

    def find(self, path: str) -> Doc | None:
        """Read one object; None where it does not exist."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def config_map(self, namespace: str, name: str) -> dict[str, str]:
        """The texts of a ConfigMap; none where it does not exist."""
        return pairs_at(self.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}"), "data")

    def apply(self, path: str, body: Doc, manager: str = "railyard-lab") -> Doc:
        """Write one object with server-side apply."""
        query = {"fieldManager": manager, "force": "true"}
        return self.request("PATCH", path, body, APPLY_PATCH, query)

    def merge(self, path: str, body: Doc) -> Doc:
        """Change one object with a JSON merge patch."""
        return self.request("PATCH", path, body, MERGE_PATCH)

    def answers(self, path: str) -> bool:
        """Whether a GET on the path answers with success."""
        try:
            status, _ = self.raw("GET", path, None, "application/json")
        except DeviceError:
            return False
        return status < _BAD_REQUEST
