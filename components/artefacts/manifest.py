"""The manifest of an image, or a list of them by platform: OCI image-spec, and Docker's forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest, or list of manifests, as the registry has it byte for byte."""

    media_type: str
    digest: str
    body: bytes = field(repr=False)

    @property
    def data(self) -> Mapping[str, Any]:
        """What it says."""
        return cast("Mapping[str, Any]", json.loads(self.body))

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests by platform."""
        return self.media_type in INDEXES

    def children(self) -> Iterator[tuple[str, str, str]]:
        """Digest, system and processor of each manifest that it lists; attestations are none."""
        for each in self.data.get("manifests", []):
            platform = each.get("platform", {})
            yield each["digest"], platform.get("os", ""), platform.get("architecture", "")

    def blobs(self) -> Iterator[tuple[str, int]]:
        """Digest and bytes of its configuration and layers."""
        data = self.data
        for each in (data.get("config"), *data.get("layers", [])):
            if each is not None:
                yield each["digest"], int(each["size"])
