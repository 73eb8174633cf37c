"""Check what this machine fetches and sends to hosts, and the store that it writes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.acceptance.report.store import open_signer, open_store
from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import Entry, Lock
from components.artefacts.naming import parse_image, sends_files
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.web import FetchError, length_of, measure
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import has_placeholder
from components.core.problem import Finding, on_device
from components.model.cluster import ClusterSpec
from components.model.sources import EvidenceStore
from components.project.engine import HERE


def fetched_here(reach: Reach) -> tuple[Artefact, ...]:
    """Return a site's charts, and its files if hosts get them over SSH.

    If the update creates all hosts, or they have no login, they cannot be asked what they can
    download, so this machine checks instead. `check` already reports missing parts of a bundle.
    """
    sources, hosts = reach.spec.sources, reach.spec.hosts
    kinds = {"chart", "file"} if sends_files(sources) else {"chart"}
    if hosts and all(host.ssh is None or has_placeholder(host.ssh.address) for host in hosts):
        kinds = {"chart", "file", "image"}
    found = (each for each in artefacts_of(reach.spec) if each.kind in kinds)
    return tuple(each for each in found if _is_asked(each, bundled=sources.bundle is not None))


def _is_asked(found: Artefact, *, bundled: bool) -> bool:
    if found.local:
        return found.kind == "chart"
    return found.kind == "image" or not bundled


def judge_pins(spec: ClusterSpec, lock: Lock, *, lab: bool) -> tuple[Finding, ...]:
    """Report artefacts without a checksum, which an update would refuse."""
    unpinned = refused_unpinned(spec, lock, lab=lab)
    if not unpinned:
        return ()
    names = ", ".join(each.name for each in unpinned.artefacts)
    what = "not everything that the site brings has a checksum, and an update refuses that."
    return (on_device(HERE, "unpinned", what, names, "all pinned", unpinned.fix),)


def look_here(reach: Reach, found: Artefact, lock: Lock, project: Path) -> tuple[Finding, ...]:
    """Check from this machine that a chart or file exists and matches its checksum."""
    if found.local:
        folder = project / found.address
        if folder.exists():
            return ()
        what = f"the project lacks the chart {found.address}."
        fix = "leave chart and repo out for upstream's own, or put the chart there"
        return (_lack(found, what, "absent", str(folder), fix),)
    entry = lock.find(found)
    try:
        digest = _digest(reach, found, entry)
    except FetchError as error:
        what = f"{_named(found)} cannot be fetched from this machine."
        return (_lack(found, what, f"{error.address}: {error.what}", "an answer", error.fix),)
    wanted = found.checksum or (entry.sha256 if entry else digest)
    if digest == wanted:
        return ()
    by = "site" if found.checksum else "lock"
    what = f"upstream serves another {_named(found)} than the {by} names."
    fix = f"see why upstream changed it; `railyard pin SITE --update {found.name}` takes it over"
    if found.checksum:
        fix = (
            "see why upstream changed it; if the change is right, correct the checksum in the site"
        )
    return (_lack(found, what, digest, wanted, fix),)


def _named(found: Artefact) -> str:
    """Return the name with its version, which an image's name already has."""
    return found.name if found.name.endswith(found.version) else f"{found.name} {found.version}"


def _digest(reach: Reach, found: Artefact, entry: Entry | None) -> str:
    """Return the digest of the served artefact; an unpinned file is only checked to exist."""
    if found.kind == "chart":
        return chart_archive_of(reach, found).sha256
    if found.kind == "image":
        return _image_digest(reach, found, entry)
    address = reach.address(found.address)
    if entry is None and not found.checksum:
        length_of(address, reach.web(address))
        return ""
    return measure(address, reach.web(address))[0]


def _image_digest(reach: Reach, found: Artefact, entry: Entry | None) -> str:
    """Return the digest of the image that nodes will pull; a locked one is requested by digest."""
    image = parse_image(reach.image(str(parse_image(found.address))))
    wanted = image.digest or (entry.digest if entry else image.tag)
    manifest = reach.registry(str(image)).manifest(image.repository, wanted)
    return manifest.digest.removeprefix("sha256:")


def _lack(found: Artefact, what: str, actual: str, wanted: str, fix: str) -> Finding:
    if found.kind == "chart":
        cause = f"chart-{found.path[1]}"
    elif found.kind == "image":
        cause = f"image-{found.path[-1] if found.path[-1] != 'image' else found.path[-2]}"
    else:
        cause = f"artefact-{found.name}"
    return on_device(HERE, cause.replace(" ", "-"), what, actual, wanted, fix)


def look_at_store(
    store: EvidenceStore | None, stack: str, secrets: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Check the signing key, and list the store's runs; preflight reports missing secrets apart."""
    if store is None or {store.signing_key.name} - secrets.keys():
        return ()
    try:
        open_signer(store, secrets)
        open_store(store, secrets).runs(stack)
    except RailyardError as error:
        actual, _, fix = str(error).rpartition("\n  fix    ")
        what = "acceptance cannot share its evidence."
        wanted = f"a list of the runs in {store.address}"
        return (on_device(HERE, "evidence-store", what, actual.splitlines()[0], wanted, fix),)
    return ()
