"""The report of preflight as one HTML file that needs nothing else, readable in light and dark."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from components.acceptance.report.html_parts import page, section, table
from components.core.finding import Severity
from components.preflight.report import Group, Preflight

_BADGES: Final[dict[Severity, str]] = {
    "problem": "failed",
    "unreachable": "error",
    "warning": "skipped",
}
"""Severity to the class of the acceptance report's style."""
_SHOWN: Final = 3
"""Devices that the overview names of one cause; its section has all of them."""
_STYLE: Final = """\
section table { table-layout: fixed; }
section th:first-child { width: 20%; }
td code { word-break: normal; overflow-wrap: anywhere; }
@media (min-width: 48rem) { td.cause { white-space: nowrap; } }
@media print { section { break-inside: avoid; } }
"""
"""Columns of the same width in each section, and words that are whole where there is room."""
_COMMAND: Final = re.compile(r"`([^`]*)`")


def render_html(found: Preflight) -> str:
    """An overview, then each cause with its devices and its fix, then every device."""
    title = f"{found.cluster}: preflight"
    causes = map(_cause, found.groups)
    parts = (_head(found), _overview(found), *causes, _neighbors(found), _table(found))
    return page(title, parts, _STYLE)


def _head(found: Preflight) -> str:
    return (
        f"<header><h1>{escape(found.cluster)} <small>preflight</small></h1>"
        f"<p>{escape(found.summary)}</p></header>"
    )


def _overview(found: Preflight) -> str:
    rows = [
        f'<tr><td class="cause">{_badge(group.first.severity)} {escape(group.first.cause)}</td>'
        f"<td>{_words(group.first.what)}</td><td>{escape(_names(group))}</td></tr>"
        for group in found.groups
    ]
    return table(("Cause", "What is wrong", "Where"), rows) if rows else ""


def _names(group: Group) -> str:
    names = [each.device for each in group.findings]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _words(text: str) -> str:
    """Text whose commands are in another type."""
    return _COMMAND.sub(r"<code>\1</code>", escape(text))


def _badge(severity: Severity) -> str:
    return f'<span class="badge {_BADGES[severity]}">{severity}</span>'


def _cause(group: Group) -> str:
    first = group.first
    rows = (
        f'<tr><td class="name">{escape(each.device)}</td>'
        f"<td><code>{escape(each.actual)}</code></td>"
        f"<td><code>{escape(each.wanted)}</code></td></tr>"
        for each in group.findings
    )
    return section(
        f"{_badge(first.severity)} {escape(first.cause)}",
        f"<p>{_words(first.what)}</p>",
        table(("Device", "Is", "Wanted"), rows),
        f"<p><strong>Fix</strong> {_words(first.fix)}</p>",
    )


def _neighbors(found: Preflight) -> str:
    rows = [
        f'<tr><td class="name">{escape(each.device)}</td><td>{escape(str(each))}</td></tr>'
        for each in found.neighbors
    ]
    return section("Routing", table((), rows)) if rows else ""


def _table(found: Preflight) -> str:
    good = '<span class="badge passed">good</span>'
    causes = {
        name: "; ".join(escape(each.cause) for each in found.findings if each.device == name)
        for name in found.devices
    }
    cells = [(name, lacks or good) for name, lacks in causes.items()]
    cells += [
        (name, f'<span class="badge skipped">{why}</span>')
        for names, why in (
            (found.unmade, "not made yet"),
            (found.no_login, "no login: not looked at"),
        )
        for name in names
    ]
    rows = (f'<tr><td class="name">{escape(name)}</td><td>{cell}</td></tr>' for name, cell in cells)
    return f"<h2>Devices</h2>{table(('Device', 'Lacks'), rows)}"
