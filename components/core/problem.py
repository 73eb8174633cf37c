"""`Problem`: one mistake in the file; `Finding`: one thing wrong with a device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value as a YAML or JSON file holds it."""
SpecPath: TypeAlias = tuple[str | int, ...]
"""Place of a value below `railyard:cluster`: keys and list positions."""
Severity: TypeAlias = Literal["error", "warning"]

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


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the fault, its places, and how to fix it."""

    rule: str
    what: str
    """One sentence with the actual values."""
    where: tuple[Place, ...]
    fix: str
    severity: Severity = "error"
    more: int = 0
    """How many problems with the same words are joined to this one; `where` has all their
    places."""

    @property
    def line(self) -> int:
        """The first line it is about, for sorting; 0 without one."""
        return self.where[0].line or 0 if self.where else 0


@dataclass(frozen=True, slots=True)
class Spot:
    """The line of one value, and the lines of the values inside it.

    A tree costs a fraction of a table of paths, and stores a part that an alias repeats only once.
    """

    line: int
    inner: Mapping[str, Spot] | Sequence[Spot] | None = None

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

        Args:
            place: The place, with a path only.
            defaults: Whether an unwritten value is one of Railyard's defaults. Pass False if the
                file was refused: there the value is part of a shorter form.
        """
        if place.file is not None or self.file is None:
            return place
        found, missing = self.root, False
        for item in place.path:
            inner = found.find(item) if found else None
            if inner is None:
                missing = True
                break
            found = inner
        default = defaults and missing and place.value is not None
        return replace(place, file=self.file, line=found.line if found else None, default=default)

    def locate_all(self, problem: Problem, *, defaults: bool = True) -> Problem:
        """Add file and line to each place of a problem."""
        where = tuple(self.locate(place, defaults=defaults) for place in problem.where)
        return replace(problem, where=where)


Level = Literal["problem", "unreachable", "warning"]
"""`problem`: an update would be refused or fail. `unreachable`: the device did not answer, so
nothing is known. `warning`: an update works, but something is wrong."""
GOOD: Final = 0
PROBLEMS: Final = 1
UNREACHABLE: Final = 4
"""Exit codes, as everywhere in the command line."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of one device, in values."""

    device: str
    """Its name in the file; `this machine` for the one that runs Railyard."""
    cause: str
    """The kind of fault, for example `clock`: a report joins the devices that share it."""
    what: str
    """One sentence without the device, the same words for each device that shares the cause."""
    actual: str
    wanted: str
    fix: str
    severity: Level = "problem"


def exit_code(findings: tuple[Finding, ...]) -> int:
    """Return 0 without problems, 1 with problems, 4 if a device gave no answer (4 wins over 1)."""
    found = {finding.severity for finding in findings}
    if "unreachable" in found:
        return UNREACHABLE
    return PROBLEMS if "problem" in found else GOOD
