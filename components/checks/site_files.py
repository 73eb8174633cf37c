"""Rules on the files around a site: stack file, lock, charts, bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from components.artefacts.listing import Artefact, artefacts_of
from components.artefacts.lock import INDEX, Lock, open_bundle, wanted_of
from components.checks.rule import Finding, Findings, at, find, places
from components.core.errors import SpecError
from components.core.problem import Place
from components.core.record import record, replace
from components.model.cluster import RESERVED, ClusterSpec
from components.model.places import list_secrets
from components.reading.load import SETTINGS, StackSecrets
from components.reading.wording import did_you_mean

_SITES = frozenset({"cluster", "site"})
MENDED_BY_FETCHING: Final = frozenset({"lock-entry", "lock-file", "bundle", "project-path"})
"""Rules whose problems `pin` and `bundle` fix or can ignore."""
_NAMED: Final = 6
"""Names in one sentence; the others are counted."""


def check_stack_key(spec: ClusterSpec, secrets: StackSecrets) -> Findings:
    """Each `railyard:` key of a stack file is the site, its piece, a secret, or a switch.

    A misspelt switch would silently do nothing. An unneeded secret is only a warning.
    """
    wanted = {own for ref, _ in list_secrets(spec) if (own := ref.secret)}
    pieces = {"piece": (*spec.stacks.units, *RESERVED)} if spec.stacks else {}
    settings = {**SETTINGS, **pieces}
    known = sorted({*settings, *wanted})
    for name in sorted((secrets.encrypted | secrets.in_clear) - _SITES):
        key = f"railyard:{name}"
        where = (Place(("config", key), None, secrets.file, secrets.lines.get(key)),)
        choices = settings.get(name)
        if choices is not None:
            value = secrets.switches.get(name, "")
            if value not in choices:
                hint = did_you_mean(value, choices)
                what = f"railyard:{name} cannot be {value or 'a secret or a mapping'}.{hint}"
                yield Finding(what, where, f"choose one of: {', '.join(choices)}.")
        elif name not in wanted:
            hint = did_you_mean(name, known)
            needless = not hint and name in secrets.encrypted
            words = {"name": name, "hint": hint, "severity": "warning" if needless else "error"}
            yield find("stack-key", *where, **words)


def check_secret_value(spec: ClusterSpec, secrets: StackSecrets) -> Findings:
    """Each secret that the site names is in the stack's configuration, encrypted.

    Secrets from the environment or a program are read when they are needed.
    """
    places: dict[str, list[Place]] = {}
    for ref, path in list_secrets(spec):
        if ref.secret is not None:
            places.setdefault(ref.secret, []).append(at(path, ref.secret))
    for name, where in places.items():
        if name in secrets.in_clear:
            yield find("secret-value-clear", *where, name=name)
        elif name not in secrets.encrypted and secrets.complete:
            yield find("secret-value-missing", *where, name=name)


def check_project_path(spec: ClusterSpec, project: Path) -> Findings:
    """A chart or bundle of the project exists.

    The path is relative to the folder of `Pulumi.yaml`.
    """
    for artefact in artefacts_of(spec):
        path = project / artefact.address
        chart = path if path.suffix == ".tgz" else path / "Chart.yaml"
        if artefact.kind == "chart" and artefact.local and not chart.is_file():
            yield find("project-path-chart", at(artefact.path, artefact.address), artefact=artefact)
    bundle = spec.sources.bundle
    if bundle is not None and not (project / bundle / INDEX).is_file():
        yield find("project-path-bundle", *places(spec, "sources.bundle"), bundle=bundle)


def check_bundle(spec: ClusterSpec, lock: Lock, project: Path) -> Findings:
    """The bundle has every file that the site needs, each as the lock records it.

    A missing file would stop an update in the middle.
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
        fix = "make it again with `railyard bundle SITE DIR` on a machine with a network."
        yield Finding(_below(project, words), (place, at(artefact.path, artefact.address)), fix)


def _below(project: Path, words: str) -> str:
    """Shorten paths as in the site file: relative to the project."""
    return words.replace(f"{project}/", "")


@record
class Unpinned:
    """The artefacts without a checksum, for which `unpinned` refuses an update."""

    artefacts: tuple[Artefact, ...]
    site: str
    """The file's name in the fix."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.artefacts)

    def __str__(self) -> str:
        """The words of an update's refusal."""
        return f"unpinned: {self.what}\n  fix    {self.fix}"

    @property
    def what(self) -> str:
        """The fault, in one sentence."""
        *most, last = [each.name for each in self.artefacts]
        named = f"{', '.join(most)} and {last} have" if most else f"{last} has"
        return f"{named} no checksum in the site or its lock, so what is served may change."

    @property
    def fix(self) -> str:
        """What to do about it."""
        return (
            f"run `railyard pin {self.site}` where there is a network, and commit the lock:"
            " docs/howto/sources.md."
        )


def find_unpinned(spec: ClusterSpec, lock: Lock) -> Unpinned:
    """Find unpinned files; `lock-entry` reports changed addresses and releases."""
    found = (each for each in artefacts_of(spec) if each.lockable and lock.of(each) is None)
    return Unpinned(tuple(found), _site_of(lock))


def refused_unpinned(spec: ClusterSpec, lock: Lock, *, lab: bool) -> Unpinned:
    """Find the unpinned files for which an update is refused.

    The nodes of a `lab` pull no images: without a lock it needs no pins for them. Files and charts
    need pins there too, and an existing lock must be complete.
    """
    found = find_unpinned(spec, lock)
    if not lab or lock.exists:
        return found
    return replace(found, artefacts=tuple(e for e in found.artefacts if e.kind != "image"))


def check_lock_entry(spec: ClusterSpec, lock: Lock) -> Findings:
    """The lock matches the site: it has its addresses and versions, and no others.

    Every host would refuse a checksum of another release.
    """
    wanted = {(each.kind, each.name): each for each in artefacts_of(spec)}
    for artefact in wanted.values():
        entry = lock.of(artefact)
        if entry is None or not artefact.lockable or lock.find(artefact) is not None:
            continue
        # The address of a chart does not contain its release.
        release = [f" {e.version}" if e.kind == "chart" else "" for e in (entry, artefact)]
        words = {"entry": entry, "release": release, "artefact": artefact, "site": _site_of(lock)}
        yield find("lock-entry-other", at(artefact.path, artefact.address), **words)
    charts = {key for entry in lock.entries.values() for key in entry.images.values()}
    stale = [lock.of(artefact) for artefact in wanted.values()]
    left = [
        entry.name
        for key, entry in lock.entries.items()
        if key not in wanted and entry.name not in charts and entry not in stale
    ]
    if left and lock.path is not None:
        where = (Place((), None, str(lock.path), 1),)
        yield find("lock-entry-left", *where, names=", ".join(left[:_NAMED]), site=_site_of(lock))


def _site_of(lock: Lock) -> str:
    return str(lock.path).replace(".lock.yaml", ".yaml") if lock.path else "SITE"
