"""A bundle: all that a site brings, in one folder, for a site without a network.

`bundle.json` lists it. `files/` has host and path as upstream, so that a web server can serve it as
a mirror; `charts/` has the archives; `images/` is an OCI image layout, whose blobs are there once,
however many images have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from components.artefacts.digests import digest_of
from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import Entry, Lock
from components.artefacts.manifest import Manifest
from components.core.errors import SpecError
from components.model.cluster import ClusterSpec

INDEX: Final = "bundle.json"


@dataclass(frozen=True, slots=True)
class Bundled:
    """One artefact of a bundle."""

    name: str
    kind: str
    address: str
    sha256: str
    file: str
    """Path in the bundle; of an image that of its manifest."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """An open bundle."""

    folder: Path
    entries: Mapping[tuple[str, str], Bundled]

    def file_of(self, artefact: Artefact, sha256: str) -> Path:
        """The file of an artefact.

        Raises:
            SpecError: The bundle lacks it, or has another one.
        """
        found = self.entries.get((artefact.kind, artefact.address))
        if found is None:
            raise SpecError(lacks(self.folder, artefact.name))
        path = self.folder / found.file
        have = digest_of(path) if path.is_file() else "none"
        if have != sha256:
            raise SpecError(differs(self.folder, artefact.name, have, sha256))
        return path

    def problems(self, wanted: Sequence[tuple[Artefact, str]]) -> Iterator[tuple[Artefact, str]]:
        """What it lacks of the artefacts, or has otherwise: each with the words for it.

        Files, charts and manifests are hashed; of layers, which may be many gigabytes, the size is
        compared, and a registry hashes them when they are pushed.
        """
        for artefact, sha256 in wanted:
            try:
                path = self.file_of(artefact, sha256)
                if artefact.kind == "image":
                    self._whole(path, artefact.name)
            except SpecError as error:
                yield artefact, str(error).partition("\n")[0]

    def _whole(self, path: Path, name: str) -> None:
        manifest = self.manifest(path)
        for digest, size in manifest.blobs():
            blob = self.blob(digest)
            if not blob.is_file() or blob.stat().st_size != size:
                raise SpecError(f"the bundle {self.folder} lacks {digest} of {name}.")
        for digest, _, _ in manifest.children():
            child = self.blob(digest)
            if not child.is_file() or digest_of(child) != child.name:
                raise SpecError(f"the bundle {self.folder} lacks {digest} of {name}.")
            self._whole(child, name)

    def manifest(self, path: Path) -> Manifest:
        """Read a manifest of the image layout."""
        body = path.read_bytes()
        kind = cast("Mapping[str, Any]", json.loads(body)).get("mediaType", "")
        return Manifest(str(kind), f"sha256:{path.name}", body)

    def blob(self, digest: str) -> Path:
        """Where a blob of the image layout is."""
        return blob_path(self.folder, digest)


def blob_path(folder: Path, digest: str) -> Path:
    """Where an image layout has a blob."""
    return folder / "images" / "blobs" / "sha256" / digest.removeprefix("sha256:")


def lacks(folder: Path, name: str) -> str:
    """The words for an artefact that is not there."""
    return (
        f"the bundle {folder} lacks {name}.\n"
        "  fix    make it again with `railyard bundle SITE DIR` where there is a network"
    )


def differs(folder: Path, name: str, have: str, want: str) -> str:
    """The words for an artefact that is another one."""
    return (
        f"the bundle {folder} has {name} with the checksum {have}, want {want}.\n"
        "  fix    make it again with `railyard bundle SITE DIR`; it was made of another lock, or "
        "was altered"
    )


def open_bundle(folder: str | Path | None) -> Bundle | None:
    """Open the bundle in a folder; None without one.

    Raises:
        SpecError: There is no bundle.
    """
    if folder is None:
        return None
    path = Path(folder)
    try:
        read = json.loads((path / INDEX).read_text("utf-8"))
        found = [Bundled(**each) for each in read.get("artefacts", ())]
        if not found:
            raise ValueError("it lists no artefact")  # noqa: TRY301 - read below as any other fault
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SpecError(
            f"{path / INDEX} cannot be read as a bundle: {error}.\n"
            "  fix    make it with `railyard bundle SITE DIR` where there is a network"
        ) from error
    return Bundle(path, {(each.kind, each.address): each for each in found})


def wanted_of(spec: ClusterSpec, lock: Lock) -> list[tuple[Artefact, str]]:
    """Everything that a bundle of a site has, with its digest; what is a path is none of it."""
    found: list[tuple[Artefact, str]] = []
    for artefact in artefacts_of(spec):
        entry = lock.find(artefact)
        digest = artefact.checksum or (entry.sha256 if entry else "")
        if digest and not artefact.local and artefact.kind != "repository":
            found.append((artefact, digest))
    known = {each.address for each, _ in found}
    images = (entry for entry in lock.entries.values() if entry.kind == "image")
    more = ((_artefact(entry), entry.sha256) for entry in images if entry.address not in known)
    return [*found, *more]


def _artefact(entry: Entry) -> Artefact:
    return Artefact(entry.name, entry.kind, entry.address, entry.version, "cluster", ("operators",))
