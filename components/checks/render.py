"""Problems as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TypedDict

from components.checks.registry import Waived
from components.core.plain_text import counted
from components.core.problem import Place, Problem, render_path

_SHOWN: Final = 4
"""Places of joined problems in a text; JSON lists all."""
_MANY: Final = 8
"""A problem with more places than this shows only a few."""
_EACH: Final = "example-value"
"""The rule whose places are all shown: the user edits one after the other."""
RULES_PAGE: Final = "docs/reference/rules.md"


class PlaceJson(TypedDict):
    """One place, as JSON."""

    file: str | None
    line: int | None
    path: str
    value: str | None
    default: bool


class ProblemJson(TypedDict):
    """One problem, as JSON."""

    rule: str
    severity: str
    what: str
    where: list[PlaceJson]
    fix: str
    more: int
    """Number of problems with the same words that are joined to this one."""


def render_text(problems: Sequence[Problem], waived: Sequence[Waived] = ()) -> str:
    """Write the report: three parts a problem, the waivers, and the count at the end."""
    parts = [render_problem(problem) for problem in problems]
    parts += map(str, waived)
    return "\n".join([*parts, f"{count_problems(problems)} Nothing was touched."])


def render_problem(problem: Problem) -> str:
    """Write one problem: the fault, its places, and the fix."""
    mark = " (warning)" if problem.severity == "warning" else ""
    shown = _shown_places(problem)
    heads = [_head(place) for place in shown]
    width = max(map(len, heads), default=0)
    lines = [f"{problem.rule}{mark}: {problem.what}"]
    for index, (head, place) in enumerate(zip(heads, shown, strict=True)):
        label = "where" if index == 0 else "     "
        lines.append(f"  {label}  {head:<{width}}{'  ' if head else ''}{_value(place)}".rstrip())
    if left := len(problem.where) - len(shown):
        lines.append(f"         and {left} more place{'' if left == 1 else 's'}")
    lines.append(f"  fix    {problem.fix}  ({RULES_PAGE}#{problem.rule})")
    return "\n".join(lines)


def _shown_places(problem: Problem) -> Sequence[Place]:
    """Return the places of one problem; of joined ones the first few, each line once.

    YAML anchors bring one line of the file to several places of the site.
    """
    if not problem.more and (len(problem.where) <= _MANY or problem.rule == _EACH):
        return problem.where
    lines = {(place.file, place.line, place.value): place for place in reversed(problem.where)}
    places = list(reversed(lines.values()))
    return places if len(places) <= _SHOWN + 1 else places[:_SHOWN]


def count_problems(problems: Sequence[Problem]) -> str:
    """Count them in words: 2 problems and 1 warning."""
    warnings = sum(problem.severity == "warning" for problem in problems)
    counts = ((len(problems) - warnings, "problem"), (warnings, "warning"))
    parts = [counted(count, word) for count, word in counts if count]
    return f"{' and '.join(parts) or 'No problems'}."


def render_json(
    problems: Sequence[Problem], waived: Sequence[Waived] = (), unpinned: Sequence[str] = ()
) -> str:
    """Write the report as JSON: problems, their numbers, waivers, and unpinned files."""
    warnings = sum(problem.severity == "warning" for problem in problems)
    return json.dumps(
        {
            "problems": [_problem_json(problem) for problem in problems],
            "errors": len(problems) - warnings,
            "warnings": warnings,
            "waived": [asdict(each) for each in waived],
            "unpinned": [*unpinned],
        },
        indent=2,
        ensure_ascii=False,
    )


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


def _problem_json(problem: Problem) -> ProblemJson:
    return {
        "rule": problem.rule,
        "severity": problem.severity,
        "what": problem.what,
        "where": [
            {
                "file": place.file,
                "line": place.line,
                "path": render_path(place.path),
                "value": place.value,
                "default": place.default,
            }
            for place in problem.where
        ],
        "fix": problem.fix,
        "more": problem.more,
    }
