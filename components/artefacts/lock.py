"""`site.lock.yaml`: what exactly was meant by each address when the site was pinned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final, Literal, cast

import yaml
from pydantic import Field, ValidationError

from components.artefacts.listing import Artefact, Kind
from components.artefacts.reference import parse_image
from components.core.limits import read_text
from components.core.problem import Lines, Place, Problem, SpecPath
from components.model.units import Frozen, Sha256
from components.reading.yaml_text import parse_yaml

LOCK_RULE: Final = "lock-file"
_HEAD: Final = (
    "# Written by `railyard pin`: which files, charts and images the site beside it means.\n"
    "# Commit it with the site; `railyard pin SITE --update NAME` takes what upstream serves now.\n"
)


class Entry(Frozen):
    """One artefact, as upstream served it on a day."""

    name: str
    kind: Kind
    address: str
    """As the site means it: upstream's, whatever mirror it came through."""
    version: str
    sha256: Sha256
    """Of the file or chart; of an image the digest of its manifest or list of platforms."""
    size: int
    """Bytes; of an image the compressed layers for the site's processors."""
    pinned: date
    """The day."""
    images: dict[str, str] = Field(default_factory=dict)
    """Of a chart: path in its values to the image that it names there."""

    @property
    def key(self) -> tuple[str, str]:
        """What it is by kind and name."""
        return self.kind, self.name

    @property
    def digest(self) -> str:
        """The digest of an image as registries write it."""
        return f"sha256:{self.sha256}"


class LockText(Frozen):
    """The whole file."""

    version: Literal[1]
    artefacts: tuple[Entry, ...] = Field(default=())


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of a site; empty where there is none."""

    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    path: Path | None = None
    """The file, whether or not it exists; None for a site that is in no file."""
    exists: bool = False

    def find(self, artefact: Artefact) -> Entry | None:
        """The entry of an artefact, if it is of the address and version that the site means."""
        found = self.entries.get((artefact.kind, artefact.name))
        if found is None or found.address != artefact.address:
            return None
        return found if found.version == artefact.version else None

    def of(self, artefact: Artefact) -> Entry | None:
        """The entry by that name, also one of another address; an image's also of another tag."""
        found = self.entries.get((artefact.kind, artefact.name))
        if found is not None or artefact.kind != "image":
            return found
        base = parse_image(artefact.address).base
        images = (entry for entry in self.entries.values() if entry.kind == "image")
        return next((entry for entry in images if parse_image(entry.address).base == base), None)


def lock_path(site: Path) -> Path:
    """The lock beside a site: `site.yaml` has `site.lock.yaml`."""
    return site.with_name(f"{site.stem}.lock.yaml")


def read_lock(site: Path | None) -> tuple[Lock, tuple[Problem, ...]]:
    """Read the lock of a site; a file that cannot be read is a problem, and none is an empty lock.

    Args:
        site: The file that holds the site; None where no file does.
    """
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


def parse_lock(text: str, path: Path) -> tuple[Lock, tuple[Problem, ...]]:
    """Read the text of a lock."""
    parsed = parse_yaml(text, str(path))
    empty = Lock(path=path, exists=True)
    if parsed.problems:
        return empty, parsed.problems
    try:
        found = LockText.model_validate(parsed.value)
    except ValidationError as error:
        return empty, tuple(_refused(parsed.lines, path, detail) for detail in error.errors())
    return Lock({entry.key: entry for entry in found.artefacts}, path, exists=True), ()


def _refused(lines: Lines, path: Path, detail: Mapping[str, object]) -> Problem:
    place = cast("SpecPath", detail["loc"])
    known = (place[:end] for end in range(len(place), -1, -1))
    line = next((found for part in known if (found := lines.line_of(part))), 1)
    where = ".".join(map(str, place)) or "the file"
    return _problem(path, f"is no lock: {where}: {detail['msg']}", line)


def _problem(path: Path, what: str, line: int) -> Problem:
    return Problem(
        LOCK_RULE,
        f"{path.name} {what}.",
        (Place((), None, str(path), line),),
        f"remove it and run `railyard pin {path.name.replace('.lock.yaml', '.yaml')}` again, or "
        "bring back the version that was committed.",
    )


class _Plain(yaml.SafeDumper):
    """Writes the day of every entry out, where YAML would refer to the first one."""

    def ignore_aliases(self, data: object) -> bool:
        """Whether a value is written again where it comes again."""
        del data
        return True


def write_lock(path: Path, entries: Mapping[tuple[str, str], Entry]) -> None:
    """Write a lock whole or not at all; entries in the order of kind and name.

    Raises:
        OSError: The folder cannot be written.
    """
    ordered = sorted(entries.values(), key=lambda entry: entry.key)
    written = [entry.model_dump(exclude_defaults=True) for entry in ordered]
    whole = {"version": 1, "artefacts": written}
    body = yaml.dump(whole, Dumper=_Plain, sort_keys=False, width=1000)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(_HEAD + body, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
