"""A client for a registry's HTTP API (distribution, spec/api), and the logins of Docker."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, urlencode, urljoin, urlsplit

from components.artefacts import web
from components.artefacts.naming import INDEXES, MANIFESTS, ImageReference, Manifest
from components.core.record import record
from components.model.jobs import DOCKER_HUB

_HUB_LOGIN: Final = "index.docker.io"
_HUB: Final = "registry-1.docker.io"
"""Address of Docker Hub's registry, which differs from the name in its images."""
HELM_CHART: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
_NEXT_PAGE: Final = re.compile(r'<([^>]+)>;\s*rel="?next')


def docker_logins(environ: Mapping[str, str] = os.environ) -> dict[str, web.Login]:
    """Registry to login, from Docker's `config.json` alone: no credential helper starts."""
    folder = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        read = json.loads((folder / "config.json").read_text("utf-8"))
        logins = cast("Mapping[str, Mapping[str, str]]", read.get("auths") or {})
        found: dict[str, web.Login] = {}
        for name, each in logins.items():
            if each:
                # Docker Hub's entry is the address of an older API: `https://index.docker.io/v1/`.
                host = name.removeprefix("https://").removeprefix("http://").partition("/")[0]
                host = _HUB_LOGIN if host.endswith("docker.io") else host
                user, _, password = base64.b64decode(each["auth"]).decode().partition(":")
                found[host] = web.Login(user, password)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, binascii.Error):
        return {}
    return found


def api_of(registry: str, *, insecure: bool) -> str:
    """The address of a registry's API, from its name in image names."""
    scheme = "http" if insecure else "https"
    return f"{scheme}://{_HUB if registry == DOCKER_HUB else registry}/v2"


@dataclass(slots=True)
class RegistryClient:
    """One registry, with the tokens that it gave so far."""

    host: str
    access: web.Access
    _tokens: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def base(self) -> str:
        """The address of its API."""
        return api_of(self.host, insecure=self.access.insecure)

    def manifest(self, repository: str, reference: str) -> Manifest:
        """A manifest by tag or digest; its digest is computed and compared."""
        address = f"{self.base}/{repository}/manifests/{quote(reference, safe=':')}"
        accept = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        with self.call(web.Call(address, headers=accept), repository, "pull") as answer:
            body = answer.whole()
            kind = answer.headers.get("content-type", "").partition(";")[0]
            named = answer.headers.get("docker-content-digest", "")
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        wanted = reference if reference.startswith("sha256:") else named
        if wanted and wanted != digest:
            raise web.wrong_checksum(address, digest, wanted)
        if kind not in {*INDEXES, *MANIFESTS}:
            raise web.WrongContentError(
                address, f"{kind or 'the answer'} is not an image manifest", "see what serves it"
            )
        return Manifest(kind, digest, body)

    def blob(self, repository: str, digest: str) -> bytes:
        """A small blob, compared with its digest."""
        address = f"{self.base}/{repository}/blobs/{digest}"
        with self.call(web.Call(address), repository, "pull") as answer:
            body = answer.whole()
        found = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if found != digest:
            raise web.wrong_checksum(address, found, digest)
        return body

    def save_blob(self, repository: str, digest: str, target: Path) -> None:
        """Download a blob to its path, and continue an earlier partial download."""
        address = f"{self.base}/{repository}/blobs/{digest}"
        # The token is for this registry; if it keeps blobs elsewhere, that address has its own.
        with self.call(web.Call(address, "HEAD"), repository, "pull"):
            pass
        token = self._tokens.get(f"{repository}:pull", "")
        web.download(address, self.access, target, digest.removeprefix("sha256:"), token)

    def push_blob(self, repository: str, digest: str, source: Path, mount: str) -> bool:
        """Upload a blob, unless the registry has or can mount it; whether bytes were sent."""
        accept = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        there = web.Call(f"{self.base}/{repository}/blobs/{digest}", "HEAD", accept)
        try:
            with self.call(there, repository, "pull,push"):
                return False
        except web.FetchError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        query = f"?{urlencode({'mount': digest, 'from': mount})}" if mount else ""
        begin = web.Call(f"{self.base}/{repository}/blobs/uploads/{query}", "POST", data=b"")
        with self.call(begin, repository, "pull,push") as answer:
            location = answer.headers.get("location", "")
            if answer.status == HTTPStatus.CREATED:
                return False
        place = urljoin(f"{self.base}/", location)
        joint = "&" if urlsplit(place).query else "?"
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(source.stat().st_size),
        }
        with source.open("rb") as file:
            end = web.Call(f"{place}{joint}{urlencode({'digest': digest})}", "PUT", headers, file)
            end = replace(end, deadline_s=web.FILE_DEADLINE_S)
            with self.call(end, repository, "pull,push"):
                return True

    def push_manifest(self, repository: str, reference: str, manifest: Manifest) -> None:
        """Put a manifest under a tag or its digest."""
        address = f"{self.base}/{repository}/manifests/{reference}"
        headers = {"Content-Type": manifest.media_type}
        with self.call(web.Call(address, "PUT", headers, manifest.body), repository, "pull,push"):
            return

    def tags(self, repository: str) -> list[str]:
        """All tags; none if nothing was pushed yet."""
        found: list[str] = []
        address = f"{self.base}/{repository}/tags/list?n=1000"
        while address:
            try:
                with self.call(web.Call(address), repository, "pull") as answer:
                    found += json.loads(answer.whole()).get("tags") or []
                    after = _NEXT_PAGE.search(answer.headers.get("link", ""))
                    address = urljoin(address, after[1]) if after else ""
            except web.FetchError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return []
            except (ValueError, AttributeError) as error:
                raise web.fetch_error(address, "no-tags") from error
        return found

    @contextmanager
    def call(self, call: web.Call, repository: str, rights: str) -> Generator[web.Answer]:
        """Ask the registry, with a token if it wants one."""
        key = f"{repository}:{rights}"
        had = key in self._tokens
        if not had:
            self._tokens[key] = self._token(repository, rights)
        with ExitStack() as stack:
            try:
                answer = stack.enter_context(web.open_call(self._with(call, key), self.access))
            except web.FetchError as error:
                if error.status != HTTPStatus.UNAUTHORIZED or not had or call.data:
                    raise
                self._tokens[key] = self._token(repository, rights)  # the last one expired
                answer = stack.enter_context(web.open_call(self._with(call, key), self.access))
            yield answer

    def _with(self, call: web.Call, key: str) -> web.Call:
        return replace(call, authorization=self._tokens[key])

    def _token(self, repository: str, rights: str) -> str:
        """The `Authorization` header, asked at `/v2/`: no body is refused half-way."""
        try:
            with web.open_call(
                web.Call(f"{self.base}/"), web.Access(self.access.ca, None, self.access.insecure)
            ):
                return ""
        except web.FetchError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            asked = error.headers.get("www-authenticate", "")
        if asked.lower().startswith("bearer"):
            words: dict[str, str] = dict(_PARAMETER.findall(asked))
            scope = f"repository:{repository}:{rights}"
            query = urlencode({"service": words.get("service", ""), "scope": scope})
            answer = web.fetch(f"{words.get('realm', '')}?{query}", self.access)
            found = cast("Mapping[str, str]", json.loads(answer))
            return f"Bearer {found.get('token') or found.get('access_token') or ''}"
        return self.access.login.header if self.access.login else ""


@record
class FoundImage:
    """An image in a registry: the content behind its name now."""

    manifest: Manifest
    size: int
    """Bytes of the layers for the requested processors."""
    manifests: tuple[Manifest, ...]
    """Manifests for these processors; only the manifest itself if it is not a list."""


def find_image(
    client: RegistryClient, image: ImageReference, processors: tuple[str, ...] | None
) -> FoundImage:
    """Resolve a name for the required `processors`; None takes all parts of a list.

    FetchError: it does not exist, or lacks one. WrongContentError: it differs from its digest.
    """
    top = client.manifest(image.repository, image.digest or image.tag)
    wanted = [digest for digest, _, _ in top.children()]
    is_index = top.media_type in INDEXES
    if is_index and processors is not None:
        children = [(digest, cpu) for digest, system, cpu in top.children() if system == "linux"]
        have = {cpu for _, cpu in children}
        if missing := [cpu for cpu in processors if cpu not in have]:
            words = {"cpu": missing[0], "have": ", ".join(sorted(have)) or "none"}
            raise web.fetch_error(str(image), "no-platform", **words)
        wanted = [digest for digest, cpu in children if cpu in processors]
    parts = tuple(client.manifest(image.repository, each) for each in wanted)
    found = parts if is_index else (top,)
    return FoundImage(top, sum(size for each in found for _, size in each.blobs()), found)
