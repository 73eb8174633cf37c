"""Names of images, manifests and checksums, and addresses in the site's mirror and registry.

No other module builds such names, and a finished name is never rewritten again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from components.core.record import field, record
from components.model.jobs import DOCKER_HUB, registry_of
from components.model.sources import Mirror, Registry, Sources

_OFFICIAL: Final = "library"
"""Docker Hub keeps images without a user here (distribution/reference, normalize.go)."""
INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
HOST_FILES: Final = "/var/lib/railyard/files"
"""Folder on a host for the files that this machine sends, each in a folder named by its SHA-256."""
LOCAL_FILES: Final = Path(".railyard") / "files"
"""Folder next to the program for files to send, each named by its SHA-256."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@record
class ImageReference:
    """`registry/repository:tag@digest`, with the parts that a short name leaves out."""

    registry: str
    repository: str
    tag: str
    """Empty if the name has no tag: `latest` is not assumed."""
    digest: str
    """`sha256:…`, or empty."""

    @property
    def base(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def version(self) -> str:
        """The digest if there is one, else the tag."""
        return self.digest or self.tag

    def __str__(self) -> str:
        """The whole name."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.base}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse_image(name: str) -> ImageReference:
    """Split a name into its parts; `mpioperator/x` is `docker.io/mpioperator/x`."""
    registry = registry_of(name)
    rest = name.removeprefix(f"{registry}/")
    whole, _, digest = rest.partition("@")
    repository, colon, tag = whole.rpartition(":")
    repository, tag = (repository, tag) if colon else (whole, "")
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"{_OFFICIAL}/{repository}"
    return ImageReference(registry, repository, tag, digest)


@record
class Manifest:
    """One manifest, or list of manifests, byte for byte as the registry serves it."""

    media_type: str
    digest: str
    body: bytes = field(repr=False)

    @property
    def data(self) -> Mapping[str, Any]:
        """The parsed content."""
        return cast("Mapping[str, Any]", json.loads(self.body))

    def children(self) -> Iterator[tuple[str, str, str]]:
        """Digest, system and processor of each listed manifest, attestations included."""
        for each in self.data.get("manifests", []):
            platform = each.get("platform", {})
            yield each["digest"], platform.get("os", ""), platform.get("architecture", "")

    def blobs(self) -> Iterator[tuple[str, int]]:
        """Digest and size in bytes of its configuration and layers."""
        data = self.data
        for each in (data.get("config"), *data.get("layers", [])):
            if each is not None:
                yield each["digest"], int(each["size"])


def mirrored(address: str, mirror: Mirror | None) -> str:
    """An https address in the mirror: the mirror's url, then upstream's host and path."""
    if mirror is None or not address.startswith("https://"):
        return address
    base = mirror.url.rstrip("/")
    if address == base or address.startswith(f"{base}/"):
        return address
    return f"{base}/{address.removeprefix('https://')}"


def in_registry(image: str, registry: Registry | None) -> str:
    """The name of an image in the site's registry; a name that is already there stays."""
    found = parse_image(image)
    if registry is None or found.registry == registry_host(registry):
        return image
    # A path must not contain a colon, so the registry's port gets an underscore; a tag stays.
    below = found.registry.replace(":", "_")
    return f"{registry.address}/{below}{str(found).removeprefix(found.registry)}"


def registry_host(registry: Registry) -> str:
    """The registry itself, without the path to its images."""
    return registry.address.partition("/")[0]


def registry_path(registry: Registry) -> str:
    """The path below which images are, with its slash; empty without one."""
    path = registry.address.partition("/")[2]
    return f"{path}/" if path else ""


def host_file(sha256: str, address: str) -> str:
    """The path on a host for a file from this machine; the file keeps its name and suffix."""
    return f"{HOST_FILES}/{sha256}/{address.rpartition('/')[2].replace('%2B', '+')}"


def sent_digest(path: str) -> str | None:
    """The digest in the path of a file from this machine; None for any other path."""
    match = re.fullmatch(rf"{HOST_FILES}/([0-9a-f]{{64}})/[^/]+", path)
    return match[1] if match else None


def sends_files(sources: Sources) -> bool:
    """Whether hosts get files over SSH instead of downloading them.

    A bundle always needs this. If a mirror has a CA or a login of its own, a download would put
    both onto every host, so this machine fetches from the mirror.
    """
    mirror = sources.mirror
    return sources.bundle is not None or (
        mirror is not None and (mirror.ca is not None or mirror.login is not None)
    )


def file_in_mirror(address: str) -> str:
    """Path of an address in a mirror's folder: host and path, the layout of a bundle."""
    parts = urlsplit(address)
    return f"{parts.netloc}{parts.path}"
