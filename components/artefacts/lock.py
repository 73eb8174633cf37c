"""`site.lock.yaml`, which records the content of each address when it was pinned; and bundles.

`bundle.json` lists a bundle. `files/` uses host and path of the upstream address, so a web server
can serve it as a mirror. `charts/` has the archives. `images/` is an OCI image layout, which keeps
each blob once, even if several images use it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, cast

import yaml
from pydantic import Field, ValidationError

from components.artefacts.listing import Artefact, Kind, artefacts_of
from components.artefacts.naming import Manifest, digest_of, parse_image
from components.core.errors import SpecError
from components.core.limits import read_text
from components.core.problem import Finding, Place, SpecPath
from components.core.record import field, record
from components.core.templates import fault_text
from components.model.cluster import ClusterSpec
from components.model.units import Frozen, Sha256
from components.reading.yaml_text import parse_yaml

LOCK_RULE: Final = "lock-file"
_HEAD: Final = (
    "# Written by `railyard pin`: the exact files, charts and images of the site next to it.\n"
    "# Commit it with the site; `railyard pin SITE --update NAME` takes what upstream serves now.\n"
)
INDEX: Final = "bundle.json"


class Entry(Frozen):
    """One artefact, as upstream served it on one day."""

    name: str
    kind: Kind
    address: str
    """The upstream address, even if the content came through a mirror."""
    version: str
    sha256: Sha256
    """Digest of the file or chart; for an image, of its manifest or list of platforms."""
    size: int
    """Bytes; for an image, the compressed layers for the site's processors."""
    pinned: date
    """The day."""
    images: dict[str, str] = Field(default_factory=dict)
    """For a chart: path in its values to the image that it names there."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name, which identify it."""
        return self.kind, self.name

    @property
    def digest(self) -> str:
        """The digest of an image as registries write it."""
        return f"sha256:{self.sha256}"


class LockText(Frozen):
    """The whole file."""

    version: Literal[1]
    artefacts: tuple[Entry, ...] = Field(default=())


@record
class Lock:
    """The lock of a site; empty if the site lacks a lock."""

    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    path: Path | None = None
    """The file, whether or not it exists; None if the site does not come from a file."""
    exists: bool = False

    def find(self, artefact: Artefact) -> Entry | None:
        """The entry of an artefact, if address and version match the site's."""
        found = self.entries.get((artefact.kind, artefact.name))
        wanted = artefact.address, artefact.version
        return found if found and (found.address, found.version) == wanted else None

    def digest_of(self, artefact: Artefact) -> str:
        """The SHA-256 that the site or the lock gives; empty without one."""
        entry = self.find(artefact)
        return artefact.checksum or (entry.sha256 if entry else "")

    def of(self, artefact: Artefact) -> Entry | None:
        """The entry with that name, with any address; for an image, also with any tag."""
        found = self.entries.get((artefact.kind, artefact.name))
        if found is not None or artefact.kind != "image":
            return found
        base = parse_image(artefact.address).base
        images = (entry for entry in self.entries.values() if entry.kind == "image")
        return next((entry for entry in images if parse_image(entry.address).base == base), None)


def lock_path(site: Path) -> Path:
    """The lock's path next to a site: `site.yaml` has `site.lock.yaml`."""
    return site.with_name(f"{site.stem}.lock.yaml")


def read_lock(site: Path | None) -> tuple[Lock, tuple[Finding, ...]]:
    """Read the lock of a site; an unreadable file is a problem, a missing one an empty lock."""
    if site is None:
        return Lock(), ()
    path = lock_path(site)
    if not path.is_file():
        return Lock(path=path), ()
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        return Lock(path=path), (_problem(path, f"cannot be read: {error}", 1),)
    return parse_lock(text, path)


def parse_lock(text: str, path: Path) -> tuple[Lock, tuple[Finding, ...]]:
    """Read the text of a lock."""
    parsed = parse_yaml(text, str(path))
    empty = Lock(path=path, exists=True)
    if parsed.problems:
        return empty, parsed.problems
    try:
        found = LockText.model_validate(parsed.value)
    except ValidationError as error:
        problems: list[Finding] = []
        for detail in error.errors():
            place: SpecPath = detail["loc"]
            known = (place[:end] for end in range(len(place), -1, -1))
            line = next((found for part in known if (found := parsed.lines.line_of(part))), 1)
            where = ".".join(map(str, place)) or "the file"
            problems.append(_problem(path, f"is not a lock: {where}: {detail['msg']}", line))
        return empty, tuple(problems)
    return Lock({entry.key: entry for entry in found.artefacts}, path, exists=True), ()


def _problem(path: Path, what: str, line: int) -> Finding:
    site, place = path.name.replace(".lock.yaml", ".yaml"), Place((), None, str(path), line)
    fix = f"remove it and run `railyard pin {site}` again, or restore the committed version."
    return Finding(f"{path.name} {what}.", (place,), fix, rule=LOCK_RULE)


class _Plain(yaml.SafeDumper):
    """Write the day in full for every entry; YAML would refer to the first one."""

    def ignore_aliases(self, data: object) -> bool:
        """Say that a repeated value is written out each time."""
        del data
        return True


def render_lock(entries: Mapping[tuple[str, str], Entry]) -> str:
    """The text of a lock, with entries in the order of kind and name."""
    ordered = sorted(entries.values(), key=lambda entry: entry.key)
    whole = {"version": 1, "artefacts": [e.model_dump(exclude_defaults=True) for e in ordered]}
    return _HEAD + yaml.dump(whole, Dumper=_Plain, sort_keys=False, width=1000)


def write_lock(path: Path, entries: Mapping[tuple[str, str], Entry]) -> None:
    """Write a lock whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(render_lock(entries), "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@record
class Bundled:
    """One artefact of a bundle."""

    name: str
    kind: str
    address: str
    sha256: str
    file: str
    """Path in the bundle; for an image, the path of its manifest."""


@record
class Bundle:
    """An open bundle."""

    folder: Path
    entries: Mapping[tuple[str, str], Bundled]

    def file_of(self, artefact: Artefact, sha256: str) -> Path:
        """The file of an artefact; SpecError if the bundle lacks it, or its digest differs."""
        found = self.entries.get((artefact.kind, artefact.address))
        if found is None:
            raise SpecError(fault_text(__file__, "lacks", folder=self.folder, name=artefact.name))
        path = self.folder / found.file
        have = digest_of(path) if path.is_file() else "none"
        if have != sha256:
            words = {"folder": self.folder, "name": artefact.name, "have": have, "sha256": sha256}
            raise SpecError(fault_text(__file__, "other-content", **words))
        return path

    def problems(self, wanted: Sequence[tuple[Artefact, str]]) -> Iterator[tuple[Artefact, str]]:
        """The artefacts that it lacks or has with other content, each with a message.

        Files, charts and manifests are hashed. Layers may be many gigabytes, so only their size is
        compared; a registry hashes them when they are pushed.
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
            blob = blob_path(self.folder, digest)
            if not blob.is_file() or blob.stat().st_size != size:
                raise SpecError(f"the bundle {self.folder} lacks {digest} of {name}.")
        for digest, _, _ in manifest.children():
            child = blob_path(self.folder, digest)
            if not child.is_file() or digest_of(child) != child.name:
                raise SpecError(f"the bundle {self.folder} lacks {digest} of {name}.")
            self._whole(child, name)

    def manifest(self, path: Path) -> Manifest:
        """Read a manifest of the image layout."""
        body = path.read_bytes()
        kind = cast("Mapping[str, Any]", json.loads(body)).get("mediaType", "")
        return Manifest(str(kind), f"sha256:{path.name}", body)


def blob_path(folder: Path, digest: str) -> Path:
    """Path of a blob in an image layout."""
    return folder / "images" / "blobs" / "sha256" / digest.removeprefix("sha256:")


def open_bundle(folder: str | Path | None) -> Bundle | None:
    """Open the bundle in a folder; None without a folder."""
    if folder is None:
        return None
    path = Path(folder)
    try:
        read = json.loads((path / INDEX).read_text("utf-8"))
        found = [Bundled(**each) for each in read.get("artefacts", ())]
        if not found:
            raise ValueError("it lists no artefact")  # noqa: TRY301 - handled below like any other fault
    except (OSError, ValueError, TypeError, AttributeError) as error:
        text = fault_text(__file__, "unreadable", path=path / INDEX, error=error)
        raise SpecError(text) from error
    return Bundle(path, {(each.kind, each.address): each for each in found})


def wanted_of(spec: ClusterSpec, lock: Lock) -> list[tuple[Artefact, str]]:
    """Everything that a bundle of a site needs, with its digest; local paths are left out."""
    found: list[tuple[Artefact, str]] = []
    for artefact in artefacts_of(spec):
        digest = lock.digest_of(artefact)
        if digest and not artefact.local and artefact.kind != "repository":
            found.append((artefact, digest))
    known = {each.address for each, _ in found}
    images = (entry for entry in lock.entries.values() if entry.kind == "image")
    for each in (entry for entry in images if entry.address not in known):
        place = each.name, each.kind, each.address, each.version, "cluster", ("operators",)
        found.append((Artefact(*place), each.sha256))
    return found
