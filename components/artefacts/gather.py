"""Fetch artefacts onto this machine: for an update, or all of a site's into a bundle."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from components.artefacts import lock as locks
from components.artefacts import naming
from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.registry import FoundImage, RegistryClient, find_image
from components.artefacts.resolve import chart_archive
from components.artefacts.web import FetchError, download, wrong_checksum
from components.core.errors import RailyardError, SpecError, UnreachableError
from components.model.cluster import ClusterSpec

_NAME: Final = "org.opencontainers.image.ref.name"


def fetch_ahead(reach: Reach, lock: locks.Lock) -> None:
    """Fetch the lock's charts, and the files that this machine sends to hosts.

    Complete files stay. All failures are reported at once, before any device is changed.
    """
    bundle, failed = locks.open_bundle(reach.spec.sources.bundle), list[RailyardError]()
    for artefact, digest, target in _lacking(reach, lock):
        try:
            if bundle is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                draft = target.with_name(f".{target.name}.{os.getpid()}")
                shutil.copyfile(bundle.file_of(artefact, digest), draft)
                draft.replace(target)
            else:
                _put(reach, artefact, digest, target)
        except RailyardError as error:
            failed.append(error)
        except OSError as error:
            what = f"{target}: {error.strerror}.\n  fix    make the folder writable"
            failed.append(SpecError(what))
    if failed:
        text = "\n".join([*map(str, failed), "Nothing was touched."])
        raise UnreachableError(text) if any(e.exit_code != 1 for e in failed) else SpecError(text)


def charts_away(spec: ClusterSpec, lock: locks.Lock) -> dict[str, str]:
    """Path to name and version, for each chart of the lock that this machine lacks."""
    found = (entry for each in artefacts_of(spec) if (entry := lock.find(each)))
    places = ((chart_archive(each), each) for each in found if each.kind == "chart")
    away = {path: each for path, each in places if not _is_here(Path(path), each.sha256)}
    return {path: f"{each.name} {each.version}" for path, each in away.items()}


def _is_here(target: Path, digest: str) -> bool:
    return target.is_file() and naming.digest_of(target) == digest


def _lacking(reach: Reach, lock: locks.Lock) -> Iterator[tuple[Artefact, str, Path]]:
    """Each artefact that this machine needs and lacks, with its digest and its path."""
    sends = naming.sends_files(reach.spec.sources)
    for artefact in artefacts_of(reach.spec):
        entry, digest = lock.find(artefact), lock.digest_of(artefact)
        if artefact.kind == "chart" and entry is not None:
            digest, target = entry.sha256, Path(chart_archive(entry))
        elif artefact.kind == "file" and sends and digest and not artefact.local:
            target = naming.LOCAL_FILES / digest
        else:
            continue
        if not _is_here(target, digest):
            yield artefact, digest, target


def _put(reach: Reach, artefact: Artefact, digest: str, target: Path) -> None:
    if artefact.kind != "chart":
        address = reach.address(artefact.address)
        download(address, reach.web(address), target, digest)
        return
    body, found = chart_archive_of(reach, artefact)
    if found != digest:
        raise wrong_checksum(artefact.address, found, digest)
    _write_whole(target, body)


def gather(
    reach: Reach, lock: locks.Lock, folder: Path, tell: Callable[[str], None]
) -> list[RailyardError]:
    """Fetch what a bundle lacks, and return the errors; `bundle.json` is written without any."""
    failed: list[RailyardError] = []
    done: list[locks.Bundled] = []
    for artefact, digest in locks.wanted_of(reach.spec, lock):
        try:
            if artefact.kind == "image":
                name = replace(naming.parse_image(artefact.address), digest=f"sha256:{digest}")
                image = reach.image(str(name))
                client = reach.registry(str(image))
                # Every part: a registry refuses an incomplete list, and the lock has its digest.
                found = find_image(client, image, None)
                save_image(client, image, found, folder)
                place = str(locks.blob_path(folder, found.manifest.digest).relative_to(folder))
            else:
                place = f"files/{naming.file_in_mirror(artefact.address)}"
                if artefact.kind == "chart":
                    place = f"charts/{artefact.name}-{artefact.version}.tgz"
                if not _is_here(folder / place, digest):
                    _put(reach, artefact, digest, folder / place)
            done.append(
                locks.Bundled(artefact.name, artefact.kind, artefact.address, digest, place)
            )
            tell(f"{artefact.kind:<6} {artefact.name}")
        except FetchError as error:
            failed.append(error)
    if not failed:
        listed: list[dict[str, object]] = []
        for each in (each for each in done if each.kind == "image"):
            body = (folder / each.file).read_bytes()
            kind = cast("Mapping[str, Any]", json.loads(body)).get("mediaType", "")
            about = {"mediaType": kind, "digest": f"sha256:{each.sha256}", "size": len(body)}
            listed.append({**about, "annotations": {_NAME: each.address}})
        _write_json(folder / "images" / "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _write_json(folder / "images" / "index.json", {"schemaVersion": 2, "manifests": listed})
        whole = {"version": 1, "site": reach.spec.name, "artefacts": [asdict(e) for e in done]}
        _write_json(folder / locks.INDEX, whole)
    return failed


def save_image(
    client: RegistryClient, image: naming.ImageReference, found: FoundImage, folder: Path
) -> None:
    """Put an image into the layout: layers first, so a manifest never lacks one."""
    for manifest in found.manifests:
        for digest, size in manifest.blobs():
            target = locks.blob_path(folder, digest)
            if not (target.is_file() and target.stat().st_size == size):
                client.save_blob(image.repository, digest, target)
    for manifest in (*found.manifests, found.manifest):
        target = locks.blob_path(folder, manifest.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(manifest.body)


def _write_json(path: Path, value: object) -> None:
    _write_whole(path, (json.dumps(value, indent=1) + "\n").encode())


def _write_whole(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(body)
    draft.replace(path)


def push_bundle(
    bundle: locks.Bundle,
    client: RegistryClient,
    name_of: Callable[[str], str],
    tell: Callable[[str], None],
) -> int:
    """Push the images of a bundle into a registry; blobs that it has are not sent again.

    `name_of` turns the address of an image into its name in the registry. Returns the number of
    blobs whose bytes were sent; images that were pushed before a failure stay there.
    """
    sent, first = 0, dict[str, str]()
    for each in bundle.entries.values():
        if each.kind != "image":
            continue
        image = naming.parse_image(name_of(each.address))
        top = bundle.manifest(bundle.folder / each.file)
        blob_of = partial(locks.blob_path, bundle.folder)
        parts = [bundle.manifest(blob_of(digest)) for digest, _, _ in top.children()]
        for digest in dict.fromkeys(d for part in (*parts, top) for d, _ in part.blobs()):
            from_there = first.setdefault(digest, image.repository)
            mount = "" if from_there == image.repository else from_there
            sent += client.push_blob(image.repository, digest, blob_of(digest), mount)
        for part in parts:
            client.push_manifest(image.repository, part.digest, part)
        client.push_manifest(image.repository, image.tag or top.digest, top)
        tell(f"image  {image}")
    return sent
