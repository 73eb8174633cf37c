"""The invalid sites of `tests/invalid`, by name and by rule."""

from __future__ import annotations

import os
from pathlib import Path

from components.checks.registry import FILE_RULES, RULES
from components.checks.render import render_text
from components.checks.site import load_checked_site

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "invalid"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "clean")
RULE_NAMES = [*(rule.name for rule in RULES), *(rule.name for rule in FILE_RULES)]
REGENERATE = os.environ.get("RAILYARD_GOLDENS") == "1"


def rule_of(case: str) -> str:
    return case.partition("--")[0]


def report_of(case: str) -> str:
    """Check one invalid file; the working directory must be its folder, so that names are short."""
    return render_text(load_checked_site(Path(f"{case}.yaml")).problems) + "\n"


def golden(path: Path, text: str) -> str:
    """The expected text, written anew when goldens are regenerated."""
    if REGENERATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
