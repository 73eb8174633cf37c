"""`Finding`: one thing that is wrong with the file or with a device, and its places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value as a YAML or JSON file holds it."""
SpecPath: TypeAlias = tuple[str | int, ...]
"""Place of a value below `railyard:cluster`: keys and list positions."""
Severity: TypeAlias = Literal["error", "unreachable", "warning"]
"""`error`: an update would be refused or fail. `unreachable`: the device did not answer, so nothing
is known. `warning`: an update works, but something is wrong."""

_PLAIN_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")


def render_path(path: SpecPath) -> str:
    """Write a path as people read it: `hosts[1].nics[0].vfs`, `ports["1/1"].mtu_bytes`."""
    text = ""
    for item in path:
        if isinstance(item, int):
            text += f"[{item}]"
        elif _PLAIN_KEY.match(item):
            text += f".{item}" if text else item
        else:
            text += f'["{item}"]'
    return text or "the site"


@dataclass(frozen=True, slots=True)
class Place:
    """One value of the file that a problem is about."""

    path: SpecPath
    value: str | None = None
    """The value as the file writes it; None shows nothing."""
    file: str | None = None
    line: int | None = None
    default: bool = False
    """The value is not in the file: it is Railyard's default, and `line` is its parent's."""
    written: SpecPath | None = None
    """Its path in the file, if a template or a range of hosts brought it to `path`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the fault, its places or its device, and how to fix it.

    Every judge yields this type: those of the file, of a reading of devices, and of an update.
    """

    what: str
    """One sentence with the actual values; without the device, if that has a field."""
    where: tuple[Place, ...] = ()
    """The values of the file that it is about, or one place in words."""
    fix: str = ""
    severity: Severity = "error"
    rule: str = ""
    """The kind of fault, for example `clock`: a report joins the findings that share it."""
    device: str = ""
    """Its name in the file; `this machine` for the one that runs Railyard; empty for the site."""
    actual: str = ""
    """The value on the device."""
    wanted: str = ""
    """The value that the file wants; for a misspelt key, the key that was probably meant."""
    more: int = 0
    """How many findings with the same words are joined to this one; `where` has all their
    places."""

    @property
    def line(self) -> int:
        """The first line it is about, for sorting; 0 without one."""
        return self.where[0].line or 0 if self.where else 0

    def rated(self, severity: Severity) -> Finding:
        """Return the same finding with another severity."""
        return replace(self, severity=severity)


def on_device(device: str, rule: str, what: str, actual: str, wanted: str, fix: str) -> Finding:
    """Report one fault of a device, with its actual and its wanted value."""
    return Finding(what, (), fix, "error", rule, device, actual, wanted)


def refusal(rule: str, what: str, where: str | Place, fix: str, device: str = "") -> Finding:
    """Refuse an update: `where` is a value of the file, or the place in words."""
    place = where if isinstance(where, Place) else Place((), where)
    return Finding(what, (place,), fix, rule=rule, device=device)


@dataclass(frozen=True, slots=True)
class Spot:
    """The line of one value, and the lines of the values inside it.

    A tree costs a fraction of a table of paths, and stores a part that an alias repeats only once.
    """

    line: int
    inner: Mapping[str, Spot] | Sequence[Spot] | None = None
    path: SpecPath | None = None
    """Place in the file of a value that a template or a range brought elsewhere."""

    def find(self, item: str | int) -> Spot | None:
        """Return the spot at one key or list position, or None."""
        if isinstance(item, str):
            return self.inner.get(item) if isinstance(self.inner, Mapping) else None
        if isinstance(self.inner, Mapping) or self.inner is None or item >= len(self.inner):
            return None
        return self.inner[item]


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of each value of one file."""

    file: str | None = None
    root: Spot | None = None

    def spot(self, path: SpecPath) -> Spot | None:
        """Return the spot at a path, or None if the file lacks it."""
        found = self.root
        for item in path:
            if found is None:
                return None
            found = found.find(item)
        return found

    def line_of(self, path: SpecPath) -> int | None:
        """Return the line of the value at a path, or None if the file lacks it."""
        found = self.spot(path)
        return found.line if found else None

    def locate(self, place: Place, *, defaults: bool = True) -> Place:
        """Add file and line to a place; a value missing from the file gets its parent's line.

        `defaults` is whether an unwritten value is one of Railyard's defaults. Pass False if the
        file was refused: there the value is part of a shorter form.
        """
        if place.file is not None or self.file is None:
            return place
        found, missing = self.root, False
        entries: list[tuple[Spot, SpecPath]] = []
        for below, item in enumerate(place.path, 1):
            inner = found.find(item) if found else None
            if inner is None:
                missing = True
                break
            found = inner
            if found.path is not None:
                entries.append((found, (*found.path, *place.path[below:])))
        lacks = missing and place.value is None  # to be added to the entry, not to its template
        found, written = entries[0 if lacks else -1] if entries else (found, None)
        default = defaults and missing and place.value is not None
        line = found.line if found else None
        return replace(place, file=self.file, line=line, default=default, written=written)

    def locate_all(self, found: Finding, *, defaults: bool = True) -> Finding:
        """Add file and line to each place of a finding."""
        where = tuple(self.locate(place, defaults=defaults) for place in found.where)
        return replace(found, where=where)


GOOD: Final = 0
PROBLEMS: Final = 1
DIFFERS: Final = 3
UNREACHABLE: Final = 4
"""Exit codes, as everywhere in the command line."""


def exit_code(findings: Iterable[Finding], wrong: int = PROBLEMS) -> int:
    """Return 0 without errors, `wrong` with one, 4 if a device gave no answer (4 wins)."""
    found = {finding.severity for finding in findings}
    if "unreachable" in found:
        return UNREACHABLE
    return wrong if "error" in found else GOOD
