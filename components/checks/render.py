"""Problems as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TypeAlias

from components.checks.registry import Waived
from components.core.plain_text import counted
from components.core.problem import Finding
from components.core.report import finding_json, render_finding

RULES_PAGE: Final = "docs/reference/rules.md"
SCHEMA_VERSION: Final = 1
"""The version of the keys in the JSON report: it grows when a key changes or goes."""
Reported: TypeAlias = tuple[str, Sequence[Finding], Sequence[Waived]]
"""The name of a file, with its problems and its waivers."""


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
