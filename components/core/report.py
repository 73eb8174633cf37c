"""Render findings: three-part text for people, one line for a log, and JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from components.core.problem import Finding, Json, Place, render_path

DOCS_SITE: Final = "https://railyard-rdma.github.io/railyard"
"""The address of the documentation, as `[project.urls]` of pyproject.toml has it."""
_SHOWN: Final = 4
"""Places of joined findings in a text; JSON lists all."""
_MANY: Final = 8
"""A finding with more places than this shows only a few."""
_EACH: Final = "example-value"
"""The rule whose places are all shown: the user edits one after the other."""


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
    shown = _shown_places(found)
    heads = [_head(place) for place in shown]
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


def _shown_places(found: Finding) -> Sequence[Place]:
    """Return the places of one finding; of joined ones the first few, each line once."""
    if not found.more and (len(found.where) <= _MANY or found.rule == _EACH):
        return found.where
    lines = {(place.file, place.line, place.value): place for place in reversed(found.where)}
    places = list(reversed(lines.values()))
    return places if len(places) <= _SHOWN + 1 else places[:_SHOWN]


def _head(place: Place) -> str:
    if place.file is None:
        return ""
    return place.file if place.line is None else f"{place.file}:{place.line}"


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
