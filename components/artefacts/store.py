"""What an update needs on this machine before it begins: charts and files of the lock."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from components.artefacts.bundle import Bundle, open_bundle
from components.artefacts.digests import digest_of, wrong_checksum
from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import Lock
from components.artefacts.naming import LOCAL_FILES, sends_files
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.resolve import chart_archive
from components.artefacts.web import (
    WrongContentError,
    download,
)
from components.core.errors import RailyardError, SpecError, UnreachableError
from components.model.cluster import ClusterSpec


def fetch_ahead(reach: Reach, lock: Lock) -> None:
    """Bring the charts of the lock here, and the files that are sent to hosts.

    What lies here whole is left alone. All failures are reported at once; nothing was touched.

    Raises:
        UnreachableError: Something cannot be had.
        SpecError: Something is not what the lock says.
    """
    bundle = open_bundle(reach.spec.sources.bundle)
    failed = [
        error
        for each, entry in _wanted(reach, lock)
        if (error := _bring(each, entry, bundle, reach))
    ]
    if not failed:
        return
    text = "\n".join([*map(str, failed), "Nothing was touched."])
    raise UnreachableError(text) if any(e.exit_code != 1 for e in failed) else SpecError(text)


def charts_away(spec: ClusterSpec, lock: Lock) -> dict[str, str]:
    """Chart and version of each archive of the lock that is not on this machine, by its path."""
    found = [entry for each in artefacts_of(spec) if (entry := lock.find(each))]
    places = [(each, chart_archive(each)) for each in found if each.kind == "chart"]
    return {
        path: f"{each.name} {each.version}"
        for each, path in places
        if not _is_here(Path(path), each.sha256)
    }


def _is_here(target: Path, digest: str) -> bool:
    return target.is_file() and digest_of(target) == digest


def _wanted(reach: Reach, lock: Lock) -> Iterator[tuple[Artefact, tuple[str, Path]]]:
    """Each artefact that has to be here, with its digest and its place."""
    sends = sends_files(reach.spec.sources)
    for artefact in artefacts_of(reach.spec):
        entry = lock.find(artefact)
        if artefact.kind == "chart" and entry is not None:
            yield artefact, (entry.sha256, Path(chart_archive(entry)))
        digest = artefact.checksum or (entry.sha256 if entry else "")
        if artefact.kind == "file" and sends and digest and not artefact.local:
            yield artefact, (digest, LOCAL_FILES / digest)


def _bring(
    artefact: Artefact, wanted: tuple[str, Path], bundle: Bundle | None, reach: Reach
) -> RailyardError | None:
    digest, target = wanted
    if _is_here(target, digest):
        return None
    try:
        if bundle is not None:
            _copy(bundle.file_of(artefact, digest), target)
        elif artefact.kind == "chart":
            _write_chart(reach, artefact, digest, target)
        else:
            address = reach.address(artefact.address)
            download(address, reach.web(address), target, digest)
    except RailyardError as error:
        return error
    except OSError as error:
        return SpecError(f"{target}: {error.strerror}.\n  fix    make the folder writable")
    return None


def _write_chart(reach: Reach, artefact: Artefact, digest: str, target: Path) -> None:
    archive = chart_archive_of(reach, artefact)
    if archive.sha256 != digest:
        raise WrongContentError(artefact.address, *wrong_checksum(archive.sha256, digest))
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_bytes(archive.body)
    draft.replace(target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, draft)
    draft.replace(target)
