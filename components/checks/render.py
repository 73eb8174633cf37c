"""Problems as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from components.checks.registry import Waived
from components.core.plain_text import counted
from components.core.problem import Finding
from components.core.report import finding_json, render_finding

RULES_PAGE: Final = "docs/reference/rules.md"


def render_text(problems: Sequence[Finding], waived: Sequence[Waived] = ()) -> str:
    """Write the report: three parts a problem, the waivers, and the count at the end."""
    parts = [render_problem(problem) for problem in problems]
    parts += map(str, waived)
    return "\n".join([*parts, f"{count_problems(problems)} Nothing was touched."])


def render_problem(problem: Finding) -> str:
    """Write one problem, with the page of its rule."""
    return render_finding(problem, RULES_PAGE)


def count_problems(problems: Sequence[Finding]) -> str:
    """Count them in words: 2 problems and 1 warning."""
    warnings = sum(problem.severity == "warning" for problem in problems)
    counts = ((len(problems) - warnings, "problem"), (warnings, "warning"))
    parts = [counted(count, word) for count, word in counts if count]
    return f"{' and '.join(parts) or 'No problems'}."


def render_json(
    problems: Sequence[Finding], waived: Sequence[Waived] = (), unpinned: Sequence[str] = ()
) -> str:
    """Write the report as JSON: problems, their numbers, waivers, and unpinned files."""
    warnings = sum(problem.severity == "warning" for problem in problems)
    return json.dumps(
        {
            "problems": [finding_json(problem) for problem in problems],
            "errors": len(problems) - warnings,
            "warnings": warnings,
            "waived": [asdict(each) for each in waived],
            "unpinned": [*unpinned],
        },
        indent=2,
        ensure_ascii=False,
    )
