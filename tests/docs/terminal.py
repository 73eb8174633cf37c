"""A terminal's text as an SVG picture for a page, drawn from what a test printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Final

_COLOURS: Final = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341"}
"""Red, green and yellow of ECMA-48, readable on the dark ground."""
_PAINTED: Final = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
_FONTS: Final = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
_LINE: Final = 19
_LETTER: Final = 8.43
"""Width of a letter at 14 pixels: 0.6 em of most monospaced fonts, and a little room."""
_MARGIN: Final = 18


def draw_terminal(command: str, painted: str) -> str:
    """Draw a command and its output with its colours."""
    shown = [f"$ {command}", *painted.splitlines()]
    width = max(len(_PAINTED.sub(r"\2", line)) for line in shown) * _LETTER + 2 * _MARGIN
    height = len(shown) * _LINE + 2 * _MARGIN
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
        f"<title>{escape(command)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#161b22"/>',
        f'<g fill="#d0d7de" font-size="14" font-family="{_FONTS}">',
        *_rows(shown),
        "</g>",
        "</svg>\n",
    ))  # fmt: skip


def _rows(shown: Sequence[str]) -> list[str]:
    rows: list[str] = []
    for number, line in enumerate(shown):
        y = _MARGIN + _LINE * number + 14
        spans = _PAINTED.sub(
            lambda found: f'<tspan fill="{_COLOURS[found[1]]}">{found[2]}</tspan>',
            escape(line, quote=False).replace(" ", "\u00a0"),  # viewers join other spaces
        )
        rows.append(f'<text x="{_MARGIN}" y="{y}">{spans}</text>')
    return rows
