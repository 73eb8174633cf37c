"""Rules on what lies beside the site: its lock, its charts, its bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from components.artefacts.bundle import INDEX, open_bundle, wanted_of
from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import Entry, Lock
from components.checks.rule import Finding, Findings, at, places
from components.core.errors import SpecError
from components.core.problem import Place
from components.model.cluster import ClusterSpec

MENDED_BY_FETCHING: Final = frozenset({"lock-entry", "lock-file", "bundle", "project-path"})
"""What `pin` and `bundle` are for, or do without."""
_NAMED: Final = 6
"""Names in one sentence; the rest is a number."""


def check_project_path(spec: ClusterSpec, project: Path) -> Findings:
    """A chart or bundle of the project is there.

    The path is relative to the folder of `Pulumi.yaml`, from which the engine reads it.
    """
    for artefact in artefacts_of(spec):
        if artefact.kind == "chart" and artefact.local and not _is_chart(project, artefact):
            yield Finding(
                f"the chart {artefact.address} is not in the project.",
                (at(artefact.path, artefact.address),),
                "correct the path, or leave chart and repo out: the default is upstream's own.",
            )
    bundle = spec.sources.bundle
    if bundle is not None and not (project / bundle / INDEX).is_file():
        yield Finding(
            f"the bundle {bundle} is not there: it has no bundle.json.",
            places(spec, "sources.bundle"),
            "make it with `railyard bundle SITE DIR` where there is a network, and copy it here.",
        )


def check_bundle(spec: ClusterSpec, lock: Lock, project: Path) -> Findings:
    """The bundle has everything that the site brings, each as the lock says.

    It is copied by hand, of another day perhaps; what it lacks would be missed in the middle of an
    update, where there is no network to fetch it from.
    """
    folder = spec.sources.bundle
    if folder is None or not (project / folder / INDEX).is_file():
        return  # `project-path` says so
    place = at(("sources", "bundle"), folder)
    try:
        bundle = open_bundle(project / folder)
    except SpecError as error:
        words = _below(project, str(error).partition("\n")[0])
        yield Finding(words, (place,), "make it with `railyard bundle`.")
        return
    for artefact, words in bundle.problems(wanted_of(spec, lock)) if bundle else ():
        yield Finding(
            _below(project, words),
            (place, at(artefact.path, artefact.address)),
            "make it again with `railyard bundle SITE DIR` where there is a network.",
        )


def _below(project: Path, words: str) -> str:
    """With paths as the site has them: relative to the project."""
    return words.replace(f"{project}/", "")


def _is_chart(project: Path, artefact: Artefact) -> bool:
    path = project / artefact.address
    return path.is_file() if path.suffix == ".tgz" else (path / "Chart.yaml").is_file()


@dataclass(frozen=True, slots=True)
class Unpinned:
    """What of a site neither its file nor its lock pins: a note of `check`, a refusal of `up`.

    An address with a version says what is meant, and not what is served there tomorrow. A plan can
    be read without, so `check` and `plan` go on; the lab has files of the repository.
    """

    artefacts: tuple[Artefact, ...]
    site: str
    """The file, as the fix names it."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.artefacts)

    def __str__(self) -> str:
        """The words of every report."""
        one = len(self.artefacts) == 1
        return (
            f"not pinned: {_names(self.artefacts)} {'has' if one else 'have'} no checksum in the "
            f"site or its lock, so what is served there may change.\n  fix    {self.fix}"
        )

    @property
    def fix(self) -> str:
        """What to do about it."""
        return (
            f"run `railyard pin {self.site}` where there is a network, and commit the lock"
            "  (docs/howto/sources.md)"
        )


def find_unpinned(spec: ClusterSpec, lock: Lock) -> Unpinned:
    """What is not pinned; of another address or release `lock-entry` speaks."""
    found = (each for each in artefacts_of(spec) if each.lockable and lock.of(each) is None)
    return Unpinned(tuple(found), _site_of(lock))


def refused_unpinned(spec: ClusterSpec, lock: Lock, *, lab: bool) -> Unpinned:
    """What an update refuses because it is not pinned.

    Args:
        spec: The checked site.
        lock: Its lock.
        lab: Whether the stack is of the lab, whose nodes pull no images: without a lock it needs
            none for them. Files, charts, and all that a lock is there for are asked for there too.
    """
    found = find_unpinned(spec, lock)
    if not lab or lock.exists:
        return found
    return replace(found, artefacts=tuple(e for e in found.artefacts if e.kind != "image"))


def check_lock_entry(spec: ClusterSpec, lock: Lock) -> Findings:
    """The lock is that of the site: of its addresses and versions, and of nothing else.

    A checksum of another release would be refused by every host, in the middle of an update.
    """
    wanted = {(each.kind, each.name): each for each in artefacts_of(spec)}
    for artefact in wanted.values():
        entry = lock.of(artefact)
        if entry is None or not artefact.lockable or lock.find(artefact) is not None:
            continue
        yield Finding(
            f"the lock pins {entry.address}{_release(entry)}, and the site means "
            f"{artefact.address}{_release(artefact)}.",
            (at(artefact.path, artefact.address),),
            f"run `railyard pin {_site_of(lock)}`: it adds what the site means now.",
        )
    yield from _unused(wanted, lock)


def _unused(wanted: Mapping[tuple[str, str], Artefact], lock: Lock) -> Findings:
    charts = {key for entry in lock.entries.values() for key in entry.images.values()}
    stale = [lock.of(artefact) for artefact in wanted.values()]
    left = [
        entry.name
        for key, entry in lock.entries.items()
        if key not in wanted and entry.name not in charts and entry not in stale
    ]
    if left and lock.path is not None:
        yield Finding(
            f"the lock has {', '.join(left[:_NAMED])}, which the site does not bring any more.",
            (Place((), None, str(lock.path), 1),),
            f"run `railyard pin {_site_of(lock)}`: it leaves them out.",
            "warning",
        )


def _release(of: Artefact | Entry) -> str:
    """The release of a chart, which its address does not say."""
    return f" {of.version}" if of.kind == "chart" else ""


def _names(found: Sequence[Artefact]) -> str:
    names = [each.name for each in found]
    more = len(names) - _NAMED
    if more > 0:
        return f"{', '.join(names[:_NAMED])} and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _site_of(lock: Lock) -> str:
    return str(lock.path).replace(".lock.yaml", ".yaml") if lock.path else "SITE"
