"""Filling a registry by plain requests: images of a few bytes, with true digests.

Nothing of the product is used: what reads the registry is not what fills it.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from components.core.errors import DeviceError

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one registry with TLS."""

    host: str
    """`address:port`."""
    authority: str
    """The certificate that signed the registry's, in PEM form."""
    login: str = field(default="", repr=False)
    """`user:password`; empty where nobody is asked."""

    def call(
        self, method: str, path: str, body: bytes = b"", kind: str = ""
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request by somebody who has the login: status, headers by small letters, body."""
        context = ssl.create_default_context(cadata=self.authority)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        name, _, port = self.host.partition(":")
        connection = http.client.HTTPSConnection(
            name, int(port), context=context, timeout=_TIMEOUT_S
        )
        headers = {"Accept": f"{INDEX}, {MANIFEST}"}
        if self.login:
            encoded = base64.b64encode(self.login.encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        if kind:
            headers["Content-Type"] = kind
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
        finally:
            connection.close()

    def put_image(self, name: str, processors: tuple[str, ...] = ("amd64",), salt: str = "") -> str:
        """An image with a layer for each processor, and the digest of its list.

        Args:
            name: Repository and tag in this registry.
            processors: What the list has parts for.
            salt: Another text makes another image of the same name.

        Raises:
            DeviceError: The registry refuses it.
        """
        repository, _, tag = name.rpartition(":")
        listed: list[Mapping[str, object]] = []
        for cpu in processors:
            layer = f"layer of {name} for {cpu} {salt}".encode() * 100
            config = json.dumps({"architecture": cpu, "os": "linux"}).encode()
            data: dict[str, object] = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": _described(_CONFIG, self.put_blob(repository, config), config),
                "layers": [_described(_LAYER, self.put_blob(repository, layer), layer)],
            }
            body = json.dumps(data).encode()
            digest = _digest(body)
            self._put_manifest(repository, digest, MANIFEST, body)
            platform = {"os": "linux", "architecture": cpu}
            listed.append({**_described(MANIFEST, digest, body), "platform": platform})
        whole = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
        body = json.dumps(whole).encode()
        self._put_manifest(repository, tag, INDEX, body)
        return _digest(body)

    def put_blob(self, repository: str, body: bytes) -> str:
        """Bytes into a repository; their digest.

        Raises:
            DeviceError: The registry refuses them.
        """
        digest = _digest(body)
        status, headers, text = self.call("POST", f"/v2/{repository}/blobs/uploads/")
        if status == HTTPStatus.ACCEPTED:
            place = urlsplit(headers["location"])
            path = f"{place.path}?{place.query}&digest={digest}"
            status, _, text = self.call("PUT", path, body, "application/octet-stream")
        self._demand(status, HTTPStatus.CREATED, repository, text)
        return digest

    def _put_manifest(self, repository: str, reference: str, kind: str, body: bytes) -> None:
        path = f"/v2/{repository}/manifests/{reference}"
        status, _, text = self.call("PUT", path, body, kind)
        self._demand(status, HTTPStatus.CREATED, repository, text)

    def _demand(self, status: int, wanted: int, repository: str, text: bytes) -> None:
        if status != wanted:
            words = text.decode(errors="replace")
            raise DeviceError(f"{self.host}/{repository}: the registry answers {status}: {words}")


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _described(kind: str, digest: str, body: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest, "size": len(body)}
