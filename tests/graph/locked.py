"""What a real stack has before its first update: its lock, and the charts of that lock."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import chdir, contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest import mock

from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import Entry, Lock, lock_path, write_lock
from components.artefacts.resolve import chart_archive
from components.model.cluster import ClusterSpec
from components.reading.load import load_config_value, load_site
from components.reading.site_path import CONFIG_FILE
from components.testing import Run

DAY: Final = date(2026, 11, 24)


def lock_of(spec: ClusterSpec) -> Lock:
    """A lock of all that a site brings.

    Of a chart the digest is that of the file that `locked` makes; the others are made up.
    """
    found = [_entry(each) for each in artefacts_of(spec) if each.lockable]
    return Lock({each.key: each for each in found}, exists=True)


def put_lock(file: Path, spec: ClusterSpec, *, fetched: bool = True) -> None:
    """Write the lock of a site beside its file or its stack's, and its charts if `fetched`."""
    entries = lock_of(spec).entries
    write_lock(lock_path(file), entries)
    for entry in entries.values():
        if fetched and entry.kind == "chart":
            archive = file.parent / chart_archive(entry)
            archive.parent.mkdir(parents=True, exist_ok=True)
            archive.write_text(entry.address)


def pin_beside(site: Path) -> None:
    """Write the lock of a site file, or of the site of a stack file, beside it."""
    loaded = load_site(site)
    assert loaded.spec is not None
    assert loaded.path is not None
    put_lock(loaded.path, loaded.spec, fetched=False)


@contextmanager
def locked(run: Run, *, fetched: bool = True) -> Generator[None]:
    """Be in a project that has the lock of the site, and has `fetched` its charts before."""
    spec = load_config_value(run.config["cluster"], None).spec
    assert spec is not None
    with TemporaryDirectory() as folder:
        stack = Path(folder) / f"Pulumi.{run.stack}.yaml"
        put_lock(stack, spec, fetched=fetched)
        with chdir(folder), mock.patch.dict(os.environ, {CONFIG_FILE: str(stack)}):
            yield


def _entry(artefact: Artefact) -> Entry:
    return Entry(
        name=artefact.name,
        kind=artefact.kind,
        address=artefact.address,
        version=artefact.version,
        sha256=hashlib.sha256(artefact.address.encode()).hexdigest(),
        size=len(artefact.address),
        pinned=DAY,
    )
