"""Filling a registry by plain requests: images of a few bytes, with true digests.

Nothing of the product is used: what reads the registry is not what fills it.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import ssl
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from components.core.errors import DeviceError
from components.core.record import field, record

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_TIMEOUT_S: Final = 30.0
Answer = tuple[int, Mapping[str, str], bytes]


@record
class Images:
    """The images of one registry with TLS."""

    host: str
    """`address:port`."""
    authority: str
    """The certificate that signed the registry's, in PEM form."""
    login: str = field(default="", repr=False)
    """`user:password`; empty where nobody is asked."""

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Answer:
        """One request by somebody who has the login: status, headers by small letters, body."""
        with self._open() as opened:
            return opened.call(method, path, body, kind)

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
        with self._open() as opened:
            for cpu in processors:
                layer = f"layer of {name} for {cpu} {salt}".encode() * 100
                part = opened.put_part(repository, cpu, layer)
                listed.append({**part, "platform": {"os": "linux", "architecture": cpu}})
            whole = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
            body = json.dumps(whole).encode()
            opened.put_manifest(repository, tag, INDEX, body)
        return _digest(body)

    @contextmanager
    def _open(self) -> Generator[_Opened]:
        context = ssl.create_default_context(cadata=self.authority)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        name, _, port = self.host.partition(":")
        connection = http.client.HTTPSConnection(
            name, int(port), context=context, timeout=_TIMEOUT_S
        )
        with closing(connection):
            yield _Opened(self, connection)


@record
class _Opened:
    """A connection to a registry for several requests: an image takes up to eleven."""

    images: Images
    connection: http.client.HTTPSConnection

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Answer:
        headers = {"Accept": f"{INDEX}, {MANIFEST}"}
        if self.images.login:
            encoded = base64.b64encode(self.images.login.encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        if kind:
            headers["Content-Type"] = kind
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()

    def put_part(self, repository: str, cpu: str, layer: bytes) -> dict[str, object]:
        """An image of one layer for one processor, as a list of images names it."""
        config = json.dumps({"architecture": cpu, "os": "linux"}).encode()
        data: dict[str, object] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _described(_CONFIG, self.put_blob(repository, config), config),
            "layers": [_described(_LAYER, self.put_blob(repository, layer), layer)],
        }
        body = json.dumps(data).encode()
        digest = _digest(body)
        self.put_manifest(repository, digest, MANIFEST, body)
        return _described(MANIFEST, digest, body)

    def put_blob(self, repository: str, body: bytes) -> str:
        """Bytes into a repository; their digest."""
        digest = _digest(body)
        status, headers, text = self.call("POST", f"/v2/{repository}/blobs/uploads/")
        if status == HTTPStatus.ACCEPTED:
            place = urlsplit(headers["location"])
            path = f"{place.path}?{place.query}&digest={digest}"
            status, _, text = self.call("PUT", path, body, "application/octet-stream")
        self._demand(status, HTTPStatus.CREATED, repository, text)
        return digest

    def put_manifest(self, repository: str, reference: str, kind: str, body: bytes) -> None:
        path = f"/v2/{repository}/manifests/{reference}"
        status, _, text = self.call("PUT", path, body, kind)
        self._demand(status, HTTPStatus.CREATED, repository, text)

    def _demand(self, status: int, wanted: int, repository: str, text: bytes) -> None:
        if status != wanted:
            words = text.decode(errors="replace")
            raise DeviceError(
                f"{self.images.host}/{repository}: the registry answers {status}: {words}"
            )


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _described(kind: str, digest: str, body: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest, "size": len(body)}
