"""Parts of a report as one HTML file: its page, sections and tables, and their style sheet.

The sheet has two themes by variables, and loads neither fonts nor pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """\
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f7f9; --ink: #1b2027;
  --soft: #5c6672; --rule: #d9dee4; --series: #1f6fb2; --series-2: #b26a00;
  --passed: #17703c; --failed: #b3261e; --error: #8a4b00; --skipped: #56606b; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --card: #1d232a; --ink: #e8ecf1; --soft: #a3adb8; --rule: #36404b;
    --series: #6cb6f0; --series-2: #f0b05a; --passed: #6fd394; --failed: #ff8f86;
    --error: #ffb866; --skipped: #aab4bf; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h1 small { font-weight: 400; color: var(--soft); }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
small, figcaption { color: var(--soft); font-size: .86rem; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: .84rem; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: .75rem; overflow-x: auto; line-height: 1.35; }
code { overflow-wrap: anywhere; }
.banner { border: 1px solid var(--error); border-left-width: 6px; border-radius: 6px;
  padding: .6rem .9rem; background: var(--card); }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem;
  border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--card); color: var(--soft); font-weight: 600; font-size: .86rem; }
.name { min-width: 9em; }
.number { font-variant-numeric: tabular-nums; }
.badge { display: inline-block; min-width: 4.6em; text-align: center; padding: .05rem .5rem;
  white-space: nowrap; overflow-wrap: normal;
  border: 1.5px solid currentColor; border-radius: 999px; font-weight: 600; font-size: .84rem; }
.passed { color: var(--passed); } .failed { color: var(--failed); }
.error { color: var(--error); } .skipped { color: var(--skipped); }
figure { margin: 0 0 1rem; } figure svg { width: 100%; height: auto; }
details { border-top: 1px solid var(--rule); padding: .4rem 0; }
summary { cursor: pointer; } li { margin: .35rem 0; overflow-wrap: anywhere; }
summary h2 { display: inline; } details { padding: .8rem 0; }
@media (max-width: 640px) { main { padding: 1rem .8rem 3rem; } thead { display: none; }
  tr { display: block; border-bottom: 1px solid var(--rule); padding: .4rem 0; }
  th, td { display: block; border: 0; padding: .12rem .7rem; } }
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page; `style` comes after the sheet of all reports."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str, folded: bool = False) -> str:
    """Make a heading from HTML, and its contents, which may be folded."""
    if folded:
        return f"<details><summary><h2>{title}</h2></summary>{''.join(parts)}</details>"
    return f"<section><h2>{title}</h2>{''.join(parts)}</section>"


def table(heads: Sequence[str], rows: Iterable[str]) -> str:
    """Make a table from rows of HTML, in a box that scrolls on a narrow screen."""
    cells = "".join(f"<th>{head}</th>" for head in heads)
    head = f"<thead><tr>{cells}</tr></thead>" if heads else ""
    return f'<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def bullets(lines: Iterable[str]) -> str:
    """Plain lines as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
