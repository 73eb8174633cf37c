"""The page of pull requests shows what the command gives, for edits of a real site."""

from __future__ import annotations

import os
from pathlib import Path

from components.preview.report import render_markdown
from tests.preview.edits import preview_of

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pull-requests.md"
HEADING = "## Typical edits"
SHOWN = ("the MTU of one port", "more VFs", "another K3s")
"""Most kinds of part once; tests/preview/test_preview.py renders all edits."""


def rendered() -> str:
    head, _, _ = PAGE.read_text().partition("\n### ")
    parts = [head.rstrip()]
    for name in SHOWN:
        comment = render_markdown(preview_of(name)).rstrip()
        parts.append(f"### {name[0].upper()}{name[1:]}\n\n````markdown\n{comment}\n````")
    return "\n\n".join(parts) + "\n"


def test_the_page_is_what_the_command_gives() -> None:
    page = rendered()
    assert HEADING in page
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run `make goldens` and read the difference"
