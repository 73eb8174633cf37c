"""`railyard bundle`: fetch everything of a site into a folder, and push its images from there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from components.artefacts.bundle import INDEX, Bundle, Bundled, blob_path, wanted_of
from components.artefacts.digests import digest_of, wrong_checksum
from components.artefacts.listing import Artefact
from components.artefacts.lock import Lock
from components.artefacts.naming import file_in_mirror
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.reference import ImageReference, parse_image
from components.artefacts.registry import FoundImage, RegistryClient, find_image
from components.artefacts.web import FetchError, WrongContentError, download
from components.core.errors import RailyardError

_LAYOUT: Final = {"imageLayoutVersion": "1.0.0"}
_NAME: Final = "org.opencontainers.image.ref.name"


def gather(
    reach: Reach, lock: Lock, folder: Path, tell: Callable[[str], None]
) -> list[RailyardError]:
    """Fetch everything into a bundle; what is there whole is not fetched again.

    Returns:
        What could not be had. `bundle.json` is written only when that is nothing.
    """
    failed: list[RailyardError] = []
    done: list[Bundled] = []
    for artefact, digest in wanted_of(reach.spec, lock):
        try:
            done.append(_GATHER[artefact.kind](reach, artefact, digest, folder))
            tell(f"{artefact.kind:<6} {artefact.name}")
        except FetchError as error:
            failed.append(error)
    if not failed:
        _write_layout(folder, done)
        whole = {"version": 1, "site": reach.spec.name, "artefacts": [asdict(e) for e in done]}
        write_json(folder / INDEX, whole)
    return failed


def _file(reach: Reach, artefact: Artefact, digest: str, folder: Path) -> Bundled:
    place = f"files/{file_in_mirror(artefact.address)}"
    target = folder / place
    if not (target.is_file() and digest_of(target) == digest):
        address = reach.address(artefact.address)
        download(address, reach.web(address), target, digest)
    return Bundled(artefact.name, "file", artefact.address, digest, place)


def _chart(reach: Reach, artefact: Artefact, digest: str, folder: Path) -> Bundled:
    place = f"charts/{artefact.name}-{artefact.version}.tgz"
    target = folder / place
    if not (target.is_file() and digest_of(target) == digest):
        archive = chart_archive_of(reach, artefact)
        if archive.sha256 != digest:
            raise WrongContentError(artefact.address, *wrong_checksum(archive.sha256, digest))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(archive.body)
    return Bundled(artefact.name, "chart", artefact.address, digest, place)


def _image(reach: Reach, artefact: Artefact, digest: str, folder: Path) -> Bundled:
    image = parse_image(reach.image(str(parse_image(artefact.address).pinned(f"sha256:{digest}"))))
    client = reach.registry(str(image))
    # All of a list: a registry takes none whose parts it lacks, and the lock has the list's digest.
    found = find_image(client, image, None)
    save_image(client, image, found, folder)
    place = blob_path(folder, found.manifest.digest).relative_to(folder)
    return Bundled(artefact.name, "image", artefact.address, digest, str(place))


_GATHER: Final[Mapping[str, Callable[[Reach, Artefact, str, Path], Bundled]]] = {
    "file": _file,
    "chart": _chart,
    "image": _image,
}


def save_image(
    client: RegistryClient, image: ImageReference, found: FoundImage, folder: Path
) -> None:
    """Put an image into the layout: layers first, so that a manifest never lacks one."""
    for manifest in found.manifests:
        for digest, size in manifest.blobs():
            target = blob_path(folder, digest)
            if not (target.is_file() and target.stat().st_size == size):
                client.save_blob(image.repository, digest, target)
    for manifest in (*found.manifests, found.manifest):
        target = blob_path(folder, manifest.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(manifest.body)


def _write_layout(folder: Path, done: Sequence[Bundled]) -> None:
    listed: list[dict[str, object]] = []
    for each in done:
        if each.kind == "image":
            body = (folder / each.file).read_bytes()
            kind = cast("Mapping[str, Any]", json.loads(body)).get("mediaType", "")
            listed.append(
                {
                    "mediaType": kind,
                    "digest": f"sha256:{each.sha256}",
                    "size": len(body),
                    "annotations": {_NAME: each.address},
                }
            )
    write_json(folder / "images" / "oci-layout", _LAYOUT)
    write_json(folder / "images" / "index.json", {"schemaVersion": 2, "manifests": listed})


def write_json(path: Path, value: object) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    draft.replace(path)


def push_bundle(
    bundle: Bundle,
    client: RegistryClient,
    name_of: Callable[[str], str],
    tell: Callable[[str], None],
) -> int:
    """Bring the images of a bundle into a registry; what is there already is not sent.

    Args:
        bundle: The bundle.
        client: The registry.
        name_of: From the address of an image to its name in the registry.
        tell: Gets a line for each image.

    Returns:
        Blobs whose bytes were sent.

    Raises:
        FetchError: The registry refuses; what was pushed is kept.
    """
    sent, first = 0, dict[str, str]()
    for each in bundle.entries.values():
        if each.kind != "image":
            continue
        image = parse_image(name_of(each.address))
        top = bundle.manifest(bundle.folder / each.file)
        parts = [bundle.manifest(bundle.blob(digest)) for digest, _, _ in top.children()]
        push = partial(client.push_blob, image.repository)
        for digest in dict.fromkeys(d for part in (*parts, top) for d, _ in part.blobs()):
            from_there = first.setdefault(digest, image.repository)
            mount = "" if from_there == image.repository else from_there
            sent += push(digest, bundle.blob(digest), mount)
        for part in parts:
            client.push_manifest(image.repository, part.digest, part)
        client.push_manifest(image.repository, image.tag or top.digest, top)
        tell(f"image  {image}")
    return sent
