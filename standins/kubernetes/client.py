"""A small, thread-safe client of the Kubernetes API over HTTPS."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import urllib3

from standins.kubernetes.identity import Gvk
from standins.kubernetes.kubeconfig import Access
from standins.kubernetes.memory_file import memory_file, path_of
from standins.kubernetes.values import (
    JsonMap,
    as_int,
    as_list,
    as_map,
    as_text,
    dig,
    parse_json,
)

POOL_CONNECTIONS = 32  # as many as Pulumi's usual parallel steps
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0  # the API server's own limit for a request
CUT_READS = 10  # client-go rest/request.go: GET again on a reset or an EOF, and no write
CUT_PAUSE_S = 1.0

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

HTTP_ERROR = 400
HTTP_NOT_FOUND = 404


class UnreachableError(Exception):
    """The API server did not answer at all."""


class NoMatchError(Exception):
    """The API server does not serve this kind (yet)."""


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, code: int, status: JsonMap) -> None:
        """Keeps the HTTP code and the server's `Status` object."""
        super().__init__(as_text(status.get("message")) or f"HTTP status {code}")
        self.code = code
        self.reason = as_text(status.get("reason"))
        self.details_kind = as_text(dig(status, "details", "kind"))

    @property
    def is_not_found(self) -> bool:
        """The object, or something in its path, does not exist."""
        return self.code == HTTP_NOT_FOUND

    @property
    def is_missing_namespace(self) -> bool:
        """The object's namespace does not exist."""
        return self.is_not_found and self.details_kind == "namespaces"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """How the API server serves a kind."""

    gvk: Gvk
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Returns the URL path of a collection, or of one object in it."""
        root = f"/apis/{self.gvk.api_version}" if self.gvk.group else f"/api/{self.gvk.version}"
        scope = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{quote(name)}" if name else "")


class Client:
    """Requests to one API server, and what it serves."""

    def __init__(self, access: Access) -> None:
        """Prepares connections; nothing is dialled yet."""
        self._server = access.server
        self._headers = {"Accept": JSON, "User-Agent": "pulumi-kubernetes-lab"}
        if access.token:
            self._headers["Authorization"] = f"Bearer {access.token}"
        self._pool = urllib3.PoolManager(
            num_pools=4,
            maxsize=POOL_CONNECTIONS,
            ssl_context=_ssl_context(access),
            server_hostname=access.server_name or None,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            retries=False,
        )
        self._served: dict[str, dict[str, ServedKind]] = {}
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonMap | list[JsonMap] | None = None,
        content_type: str = JSON,
    ) -> JsonMap:
        """Sends one request and returns the decoded answer.

        Raises:
            ApiError: The server answered with an error status.
            UnreachableError: The server did not answer.
        """
        headers = {**self._headers, "Content-Type": content_type}
        fields = [(key, value) for key, value in (query or {}).items() if value]
        url = self._server + path
        if fields:
            url += "?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in fields)
        sent = None if body is None else json.dumps(body).encode()
        try:
            answer = self._send(method, url, sent, headers)
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"{self._server}: {error}") from error
        parsed = _parse(answer.data)
        if answer.status >= HTTP_ERROR:
            raise ApiError(answer.status, parsed)
        return parsed

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """Sends it; a read whose connection was cut is repeated, as client-go does."""
        for _ in range(CUT_READS if method == "GET" else 0):
            try:
                return self._pool.request(method, url, body=body, headers=headers)
            except urllib3.exceptions.ProtocolError:
                time.sleep(CUT_PAUSE_S)
        return self._pool.request(method, url, body=body, headers=headers)

    def version(self) -> tuple[int, int]:
        """Asks for the server's major and minor version."""
        answer = self.request("GET", "/version")
        minor = "".join(char for char in as_text(answer.get("minor")) if char.isdigit())
        return int(as_text(answer.get("major")) or 0), int(minor or 0)

    def served(self, gvk: Gvk) -> ServedKind:
        """Looks up how a kind is served; a kind that was not there is asked for again.

        Raises:
            NoMatchError: The server does not serve the kind.
            UnreachableError: The server did not answer.
        """
        with self._lock:
            known = self._served.get(gvk.api_version, {}).get(gvk.kind)
        if known is not None:
            return known
        kinds = self._discover(gvk)
        with self._lock:
            self._served[gvk.api_version] = kinds
        if gvk.kind not in kinds:
            raise NoMatchError(f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"')
        return kinds[gvk.kind]

    def forget_kinds(self) -> None:
        """Drops what is known about served kinds, after a CRD came or went."""
        with self._lock:
            self._served.clear()

    def _discover(self, gvk: Gvk) -> dict[str, ServedKind]:
        root = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"
        try:
            answer = self.request("GET", root)
        except ApiError as error:
            if error.is_not_found:
                return {}
            raise
        found: dict[str, ServedKind] = {}
        for entry in as_list(answer.get("resources")):
            plural, kind = as_text(dig(entry, "name")), as_text(dig(entry, "kind"))
            if "/" in plural:
                continue  # a subresource such as pods/log
            one = Gvk(gvk.group, gvk.version, kind)
            found[kind] = ServedKind(one, plural, dig(entry, "namespaced") is True)
        return found


def generation_of(obj: JsonMap) -> int:
    """Returns `metadata.generation`, or 0."""
    return as_int(dig(obj, "metadata", "generation"))


def _parse(data: bytes) -> JsonMap:
    try:
        return as_map(parse_json(data))
    except ValueError:
        return {"message": data.decode(errors="replace").strip()}


def _ssl_context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.ca_pem or None)
    if access.skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_cert_pem:
        with (
            memory_file(access.client_cert_pem) as certificate,
            memory_file(access.client_key_pem) as key,
        ):
            context.load_cert_chain(path_of(certificate), path_of(key))
    return context
