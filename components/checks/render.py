"""Problems as text for people, as JSON for programs, and in SARIF for code review."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from components.checks.registry import Waived, rule_pages
from components.core.limits import read_text
from components.core.plain_text import counted
from components.core.problem import (
    DOCS_SITE,
    Finding,
    Place,
    finding_json,
    render_finding,
    render_path,
)

RULES_PAGE: Final = "docs/reference/rules.md"
SCHEMA_VERSION: Final = 1
"""The version of the keys in the JSON report: it grows when a key changes or goes."""
Reported: TypeAlias = tuple[str, Sequence[Finding], Sequence[Waived]]
"""The name of a file, with its problems and its waivers."""
SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT: Final = "%SRCROOT%"
_LINKED: Final = 10
"""Most further places of a result; GitHub shows no more."""


def render_text(problems: Sequence[Finding], waived: Sequence[Waived] = (), file: str = "") -> str:
    """Write the report: three parts a problem, the waivers, and at the end the count.

    With a file name, the count begins with it.
    """
    parts = [render_problem(problem) for problem in problems]
    parts += map(str, waived)
    head = f"{file}: " if file else ""
    return "\n".join([*parts, f"{head}{count_problems(problems)} Nothing was touched."])


def render_problem(problem: Finding) -> str:
    """Write one problem, with the page of its rule."""
    return render_finding(problem, RULES_PAGE)


def count_problems(problems: Sequence[Finding]) -> str:
    """Count them in words: 2 problems and 1 warning."""
    warnings = sum(problem.severity == "warning" for problem in problems)
    counts = ((len(problems) - warnings, "problem"), (warnings, "warning"))
    parts = [counted(count, word) for count, word in counts if count]
    return f"{' and '.join(parts) or 'No problems'}."


def render_reports(reports: Sequence[Reported]) -> str:
    """Write the reports of some files as JSON; docs/reference/cli.md explains each key."""
    severities = [problem.severity for _, problems, _ in reports for problem in problems]
    warnings = severities.count("warning")
    body = {
        "schema_version": SCHEMA_VERSION,
        "errors": len(severities) - warnings,
        "warnings": warnings,
        "files": [file for file, _, _ in reports],
        "problems": [
            {"file": file, **finding_json(problem)}
            for file, problems, _ in reports
            for problem in problems
        ],
        "waived": [
            {"file": file, **asdict(each)} for file, _, waived in reports for each in waived
        ],
    }
    return json.dumps(body, indent=2)


def render_sarif(problems: Sequence[Finding], here: Path) -> dict[str, Any]:
    """Write problems in SARIF 2.1.0: one run with their rules, and a result for each.

    GitHub takes addresses relative to the repository's root. `here` is the folder of relative
    paths.
    """
    rules = [*dict.fromkeys(problem.rule for problem in problems)]
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow

    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    try:
        own = {"version": version("railyard-rdma")}
    except PackageNotFoundError:
        own = {}
    pages = rule_pages()
    described = [
        {
            "id": name,
            "shortDescription": {"text": " ".join(page.partition("\n\n")[0].split())},
            "fullDescription": {"text": page},
            "help": {"text": page, "markdown": page},
            "helpUri": f"{DOCS_SITE}/docs/reference/rules.html#{name}",
        }
        for name, page in ((name, pages.get(name, name)) for name in rules)
    ]
    driver = {"name": "Railyard", **own, "informationUri": f"{DOCS_SITE}/", "rules": described}
    results: list[dict[str, Any]] = []
    for each in problems:
        places = [_location(place, here, root) for place in each.where if place.file is not None]
        others = [{"id": at, **place} for at, place in enumerate(places[1 : _LINKED + 1], 1)]
        actual = f" It is {each.actual}." if each.actual else ""
        result = {
            "ruleId": each.rule,
            "ruleIndex": rules.index(each.rule),
            "level": "warning" if each.severity == "warning" else "error",
            "message": {"text": f"{each.what}{actual} To fix it, {each.fix}"},
            "locations": places[:1],
        }
        results.append(result | ({"relatedLocations": others} if others else {}))
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _location(place: Place, here: Path, root: Path) -> dict[str, Any]:
    path = here / (place.file or "")
    region = {"startLine": place.line or 1}
    if place.line is not None and place.line <= len(lines := _lines(path)):
        # From the key, or the first character of the line, to the end of the line.
        text = lines[place.line - 1]
        keys = [f"{key}{end}" for key in reversed(place.path) for end in (":", '":')]
        found_at = [start for key in keys if (start := text.find(key)) >= 0]
        start = found_at[0] if found_at else len(text) - len(text.lstrip())
        end = max(len(text.rstrip()), start + 1)
        region |= {"startColumn": start + 1, "endColumn": end + 1}
    file = os.path.relpath(os.path.normpath(path), root)
    artefact = {"uri": quote(file), "uriBaseId": _ROOT}
    found: dict[str, Any] = {"physicalLocation": {"artifactLocation": artefact, "region": region}}
    if place.path:
        found["logicalLocations"] = [{"fullyQualifiedName": render_path(place.path)}]
        found["message"] = {"text": f"{render_path(place.path)} = {place.value}"}
    return found


@cache
def _lines(file: Path) -> tuple[str, ...]:
    try:
        return tuple(read_text(file).splitlines())
    except (OSError, UnicodeDecodeError):
        return ()  # standard input has no lines to point into
