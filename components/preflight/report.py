"""Render the findings as text, as JSON, and as one self-contained HTML file."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from functools import partial
from html import escape
from typing import Final

from components.acceptance.report.pictures import page, section, table
from components.core.plain_text import counted, shortened
from components.core.problem import Finding, Severity, exit_code, finding_json, label_rows, rows_of
from components.core.record import record
from components.core.templates import finding_of

ORDER: Final[tuple[Severity, ...]] = ("unreachable", "error", "warning")
_WORDS: Final = {"error": "problem", "unreachable": "missing answer", "warning": "warning"}
SITE: Final = "the site"
_SHOWN: Final = 8
"""Most devices that a text lists for one cause; JSON and HTML list all."""
_BADGES: Final = {"error": "failed", "unreachable": "error", "warning": "skipped"}
"""Severity to a class of the acceptance report's style."""
_STYLE: Final = """\
section table { table-layout: fixed; }
section th:first-child { width: 20%; }
td code { word-break: normal; overflow-wrap: anywhere; }
@media print { section { break-inside: avoid; } }
"""
"""Equal column widths in all sections, and no broken words."""


def lack(device: str, row: str, actual: str, /, **words: object) -> Finding:
    """Report what one device lacks, in the texts of a row of findings.yaml; `words` fill them."""
    return finding_of(__file__, row, device=device, actual=actual, **words)


@record
class Neighbors:
    """BGP neighbours of one routed switch."""

    device: str
    up: int
    planned: int
    down: tuple[str, ...] = ()
    """For example `swp31 to spine-01:swp1: idle`."""
    note: str = ""
    """Why this is not a fault, or unknown."""

    def __str__(self) -> str:
        """Render the line for text and HTML."""
        if self.note.startswith("not known"):
            return f"BGP neighbours {self.note}"
        words = f"{self.up} of {self.planned} BGP neighbours up"
        down = f"not: {shortened(self.down, _SHOWN)}" if self.down else ""
        return "; ".join(filter(None, (words, self.note or down)))


@record
class Preflight:
    """The results of one preflight."""

    cluster: str
    devices: tuple[str, ...]
    """Devices that were read."""
    findings: tuple[Finding, ...]
    unmade: tuple[str, ...] = ()
    """Machines that the update will create, so they cannot be read yet."""
    no_login: tuple[str, ...] = ()
    """Nodes without a login, which were not read."""
    neighbors: tuple[Neighbors, ...] = ()
    """For each routed switch that answered."""

    @property
    def exit_code(self) -> int:
        """0 for success or warnings, 1 for problems, 4 if a device did not answer."""
        return exit_code(self.findings)

    @property
    def groups(self) -> list[list[Finding]]:
        """Findings grouped by cause and fix, the worst first."""
        found: dict[tuple[str, ...], list[Finding]] = {}
        for each in self.findings:
            found.setdefault((each.severity, each.rule, each.what, each.fix), []).append(each)
        return sorted(found.values(), key=lambda group: ORDER.index(group[0].severity))

    @property
    def summary(self) -> str:
        """The last line of text and HTML."""
        found = Counter(each.severity for each in self.findings)
        some = ((found[kind], word) for kind, word in _WORDS.items() if found[kind])
        counts = ", ".join(counted(*each) for each in some)
        looked = f"{counted(len(self.devices), 'device')} read"
        looked += f", {len(self.unmade)} not made yet" if self.unmade else ""
        looked += f", {len(self.no_login)} without a login not read" if self.no_login else ""
        return f"{self.cluster}: {counts or 'no problem'} ({looked}). Nothing was touched."


def render_text(found: Preflight) -> str:
    """Render one paragraph per cause, BGP neighbours, skipped machines, and the summary."""
    lines: list[str] = []
    for group in found.groups:
        first, shown = group[0], group[:_SHOWN]
        mark = "" if first.severity == "error" else f" ({first.severity})"
        width = max(len(each.device) for each in shown)
        lines.append(f"{first.rule}{mark}: {first.what}")
        lines += label_rows([row for each in shown for row in rows_of(each, width)])
        lines += [f"         and {len(group) - _SHOWN} more"] if len(group) > _SHOWN else []
        lines.append(f"  fix    {first.fix}")
    lines += (f"routing  {each.device}: {each}" for each in found.neighbors)
    for names, why in (
        (found.unmade, "the update makes them"),
        (found.no_login, "nothing logs in to them (login: none)"),
    ):
        lines += [f"not read: {shortened(names, _SHOWN)}; {why}."] if names else []
    return "\n".join([*lines, found.summary])


def render_json(found: Preflight) -> str:
    """Render everything, with one entry per device and cause."""
    body = {
        "cluster": found.cluster,
        "devices": list(found.devices),
        "unmade": list(found.unmade),
        "no_login": list(found.no_login),
        "neighbors": [asdict(each) for each in found.neighbors],
        "exit_code": found.exit_code,
        "findings": [finding_json(each) for each in found.findings],
    }
    return json.dumps(body, indent=1, ensure_ascii=False)


def render_html(found: Preflight) -> str:
    """Render each cause with devices and fix, then BGP neighbours, then every device."""
    title = f"<h1>{escape(found.cluster)} <small>preflight</small></h1>"
    parts = [f"<header>{title}<p>{escape(found.summary)}</p></header>"]
    for group in found.groups:
        first = group[0]
        badge = f'<span class="badge {_BADGES[first.severity]}">{first.severity}</span>'
        values = ((each, each.actual or "; ".join(rows_of(each)), each.wanted) for each in group)
        rows = [
            _row(each.device or SITE, *(f"<code>{escape(text)}</code>" for text in texts))
            for each, *texts in values
        ]
        marked = partial(re.sub, "`([^`]*)`", r"<code>\1</code>")
        what, fix = marked(escape(first.what)), marked(escape(first.fix))
        cells = table(("Device", "Is", "Wanted"), rows)
        texts = f"<p>{what}</p>", cells, f"<p><strong>Fix</strong> {fix}</p>"
        parts.append(section(f"{badge} {escape(first.rule)}", *texts))
    if bgp := [_row(each.device, escape(str(each))) for each in found.neighbors]:
        parts.append(section("Routing", table((), bgp)))
    lacks: dict[str, str] = {}
    for name in found.devices:
        rules = "; ".join(escape(each.rule) for each in found.findings if each.device == name)
        lacks[name] = rules or '<span class="badge passed">good</span>'
    lacks |= dict.fromkeys(found.unmade, '<span class="badge skipped">not made yet</span>')
    unread = '<span class="badge skipped">no login: not read</span>'
    lacks |= dict.fromkeys(found.no_login, unread)
    rows = [_row(name, cell) for name, cell in lacks.items()]
    parts.append(f"<h2>Devices</h2>{table(('Device', 'Lacks'), rows)}")
    return page(f"{found.cluster}: preflight", parts, _STYLE)


def _row(name: str, *cells: str) -> str:
    others = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><td class="name">{escape(name)}</td>{others}</tr>'
