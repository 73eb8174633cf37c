"""The name of an image, taken apart as Docker does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from components.model.containers import DOCKER_HUB, registry_of

_OFFICIAL: Final = "library"
"""Docker Hub's images without a user are there (distribution/reference, normalize.go)."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """`registry/repository:tag@digest`, with what a short name leaves out."""

    registry: str
    repository: str
    tag: str
    """Empty where the name has none: `latest` is not assumed."""
    digest: str
    """`sha256:…`, or empty."""

    @property
    def base(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def version(self) -> str:
        """What tells it from others of its repository: the digest, if there is one."""
        return self.digest or self.tag

    def __str__(self) -> str:
        """The whole name."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.base}{tag}{f'@{self.digest}' if self.digest else ''}"

    def pinned(self, digest: str) -> ImageReference:
        """The same at one digest; the tag stays for people to read."""
        return replace(self, digest=digest)


def parse_image(name: str) -> ImageReference:
    """Take a name apart; `mpioperator/x` is `docker.io/mpioperator/x`."""
    registry = registry_of(name)
    rest = name.removeprefix(f"{registry}/")
    whole, _, digest = rest.partition("@")
    repository, colon, tag = whole.rpartition(":")
    repository, tag = (repository, tag) if colon else (whole, "")
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"{_OFFICIAL}/{repository}"
    return ImageReference(registry, repository, tag, digest)
