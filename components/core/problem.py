"""`Finding`: one thing that is wrong with the file or with a device, its places, and its texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final, Literal, TypeAlias

from components.core.record import record

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value as a YAML or JSON file holds it."""
SpecPath: TypeAlias = tuple[str | int, ...]
"""Place of a value below `railyard:cluster`: keys and list positions."""
Severity: TypeAlias = Literal["error", "unreachable", "warning"]
"""`error`: an update would be refused or fail. `unreachable`: the device did not answer, so nothing
is known. `warning`: an update works, but something is wrong."""

_PLAIN_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")
GOOD: Final = 0
PROBLEMS: Final = 1
DIFFERS: Final = 3
UNREACHABLE: Final = 4
"""Exit codes, as everywhere in the command line."""
DOCS_SITE: Final = "https://railyard-rdma.github.io/railyard"
"""The address of the documentation, as `[project.urls]` of pyproject.toml has it."""
_SHOWN: Final = 4
"""Places of joined findings in a text; JSON lists all."""
_MANY: Final = 8
"""A finding with more places than this shows only a few."""
_EACH: Final = "example-value"
"""The rule whose places are all shown: the user edits one after the other."""


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


@record
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


@record
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


@record
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

    def put(self, path: SpecPath, new: Spot) -> Spot:
        """Return the same tree with another spot at a path below it."""
        if not path:
            return new
        item, spot = path[0], (self.find(path[0]) or self).put(path[1:], new)
        if isinstance(self.inner, Mapping):
            return Spot(self.line, {**self.inner, str(item): spot}, self.path)
        rows = [spot if number == item else row for number, row in enumerate(self.inner or ())]
        return Spot(self.line, rows, self.path)


@record
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


def exit_code(findings: Iterable[Finding], wrong: int = PROBLEMS) -> int:
    """Return 0 without errors, `wrong` with one, 4 if a device gave no answer (4 wins)."""
    found = {finding.severity for finding in findings}
    if "unreachable" in found:
        return UNREACHABLE
    return wrong if "error" in found else GOOD


def render_finding(found: Finding, page: str = "") -> str:
    """Write one finding: the fault, its places or its device, the fix, and the rule's page."""
    mark = f" ({found.severity})" if found.severity != "error" else ""
    lines = [f"{found.rule}{mark}: {found.what}" if found.rule else found.what]
    lines += label_rows(rows_of(found))
    link = f"  ({page}#{found.rule})" if page else ""
    lines += [f"  fix    {found.fix}{link}"] if found.fix else []
    return "\n".join(lines)


def label_rows(rows: Sequence[str]) -> list[str]:
    """Write the rows of `rows_of`, with `where` before the first."""
    return [f"  {'     ' if number else 'where'}  {row}" for number, row in enumerate(rows)]


def rows_of(found: Finding, width: int = 0) -> list[str]:
    """Write each place, and the device, padded to `width`, with its actual and wanted value."""
    shown: Sequence[Place] = found.where
    if found.more or (len(shown) > _MANY and found.rule != _EACH):  # the first few, each line once
        lines = {(each.file, each.line, each.value): each for each in reversed(shown)}
        shown = [*reversed(lines.values())]
        shown = shown if len(shown) <= _SHOWN + 1 else shown[:_SHOWN]
    heads = [
        f"{each.file}:{each.line}" if each.file and each.line is not None else each.file or ""
        for each in shown
    ]
    widest = max(map(len, heads), default=0)
    rows = [
        f"{head:<{widest}}{'  ' if head else ''}{_value(place)}".rstrip()
        for head, place in zip(heads, shown, strict=True)
    ]
    if left := len(found.where) - len(shown):
        rows.append(f"and {left} more place{'' if left == 1 else 's'}")
    if found.actual:
        wanted = f"; wanted: {found.wanted}" if found.wanted else ""
        device = f"{found.device:<{width}}  " if found.device else ""
        rows.append(f"{device}{found.actual}{wanted}")
    return rows


def _value(place: Place) -> str:
    if not place.path:
        return place.value or ""
    shown = render_path(place.path)
    if place.value is None:
        return shown
    return f"{shown} = {place.value}{' (default)' if place.default else ''}"


def finding_json(found: Finding) -> dict[str, Json]:
    """Return one finding for programs; every command writes the same keys."""
    places = [{**asdict(place), "path": render_path(place.path)} for place in found.where]
    where: list[Json] = [{k: v for k, v in each.items() if k != "written"} for each in places]
    return {**asdict(found), "where": where}
