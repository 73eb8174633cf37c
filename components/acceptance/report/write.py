"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from components.acceptance.evidence import Hop, ProbeEvidence, dump_evidence
from components.acceptance.judge.amount import show_size
from components.acceptance.judge.site import Report
from components.acceptance.report.archive import write_whole
from components.acceptance.report.figures import heat_maps, plots, topology
from components.acceptance.report.html_parts import bullets, page, section, table
from components.acceptance.report.pictures import STYLE
from components.acceptance.report.text import (
    compare_runs,
    places_not_proven,
    render_ctrf,
    render_junit,
    render_markdown,
    unproven_lines,
    waivers_of,
)
from components.core.plain_text import counted, plain_text

_ORDER = {"failed": 0, "error": 1, "skipped": 2, "passed": 3}


def render_html(report: Report, before: Report | None = None) -> str:
    """Render a report: verdict and what to do first, pictures, then the evidence, folded.

    `before` is another run of the same site, to compare with.
    """
    evidence = report.evidence
    title = f"{evidence.cluster}: acceptance {report.verdict}"
    note = "<p><small>They do not fail a probe.</small></p>"
    parts = (
        _head(report),
        _lab_banner(report),
        _next_steps(report),
        _probe_table(report),
        _listed("Not proven in this run", _unproven(report)),
        topology(report),
        heat_maps(report),
        plots(report, before.evidence if before else None),
        _compared(report, before),
        _listed("Warnings", [f"{item.subject}: {item.text}" for item in report.warnings], note),
        _listed("Rules that the site goes without", waivers_of(report)),
        _finding_table(report),
        _hop_table(report),
        _logs(report),
        _inventory(report),
    )
    return page(title, parts, STYLE)


def _head(report: Report) -> str:
    evidence = report.evidence
    passed = sum(report.verdict_of(item.probe.name) == "passed" for item in evidence.probes)
    badge = _badge(report.verdict, "partly proven" if passed else "")
    return (
        f"<header><h1>{escape(evidence.cluster)} <small>acceptance</small></h1>"
        f"<p>{badge} <strong>{passed} of {report.planned}</strong> planned probes passed"
        f" · run {evidence.run} · {escape(evidence.started_at)} to "
        f"{escape(evidence.finished_at)} · plan <code>{escape(evidence.plan_digest)}</code></p>"
        "</header>"
    )


def _lab_banner(report: Report) -> str:
    if report.evidence.provenance != "lab":
        return ""
    return (
        '<p class="banner"><strong>Simulated lab.</strong> Switch, hosts and NICs are emulated, '
        "and the numbers below are computed from their state. They prove the configuration, "
        "not the speed of any hardware.</p>"
    )


_LISTED: Final = 40
"""Most probes to list unfolded; of more, only those that did not pass."""


def _probe_table(report: Report) -> str:
    probes = sorted(
        report.evidence.probes, key=lambda item: _ORDER[report.verdict_of(item.probe.name)]
    )
    wrong = [item for item in probes if report.verdict_of(item.probe.name) != "passed"]
    shown = probes if len(probes) <= _LISTED else wrong[:_LISTED]
    rows = [_probe_row(report, item) for item in shown]
    rows += [
        f"<tr><td>{_badge(item.verdict)}</td><td class=name>{escape(item.subject)}</td>"
        f"<td>{escape(item.check)}</td><td>{escape(item.text)}</td></tr>"
        for item in report.findings
        if item.check in {"reachable", "memlock", "allocatable"}
    ]
    heads = ("verdict", "probe", "measured", "why")
    rest = [_probe_row(report, item) for item in probes[len(shown) :]]
    more = section(f"{len(rest)} more probes", table(heads, rest), folded=True) if rest else ""
    return section("Verdicts", table(heads, rows), more)


def _probe_row(report: Report, item: ProbeEvidence) -> str:
    name = item.probe.name
    findings = sorted(report.about(name), key=lambda finding: _ORDER[finding.verdict])
    measure = report.measure_of(name)
    worst = findings[0] if findings else None
    why = f"{counted(len(findings), 'check')} passed"
    if worst and worst.verdict != "passed":
        why = worst.detail if worst.check == "traffic class" else f"{worst.check}: {worst.text}"
    return (
        f"<tr><td>{_badge(report.verdict_of(name))}</td><td class=name>{escape(name)}<br>"
        f"<small>{escape(' · '.join(item.probe.rails))}</small></td>"
        f"<td class=number>{escape(measure.actual if measure else '-')}</td>"
        f"<td>{escape(why)}</td></tr>"
    )


def _listed(title: str, lines: Sequence[str], note: str = "") -> str:
    """Plain lines below a heading; empty without lines."""
    return section(title, note, bullets(lines)) if lines else ""


def _unproven(report: Report) -> list[str]:
    lines = unproven_lines(report)
    places = places_not_proven(report) if lines else ()
    return lines + [f"{place}: {since}" for place, since in places]


_NAMED: Final = 6
"""Most names to list under an advice; of more, their number."""


def _next_steps(report: Report) -> str:
    steps: dict[str, dict[str, None]] = {}
    for finding in report.findings:
        if finding.verdict in ("failed", "error") and finding.next_step:
            name = f"{finding.subject} ({finding.check})"
            steps.setdefault(finding.next_step, {})[name] = None
    if not steps:
        return ""
    items = "".join(
        f"<li><strong>{escape(each.headline)}</strong><br>{escape(each.next_step)}</li>"
        for each in report.suspects
    )
    for step, names in steps.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        some = escape(", ".join([*names][:_NAMED]) + more)
        items += f"<li>{escape(step)}<br><small>{some}</small></li>"
    return section("What to do next", f"<ol>{items}</ol>")


def _compared(report: Report, before: Report | None) -> str:
    if before is None:
        return ""
    rows = (
        f"<tr><td class=name>{escape(each.probe)}</td><td>{_badge(each.verdict_before)} "
        f"{escape(each.before)}</td><td>{_badge(each.verdict)} {escape(each.now)}</td>"
        f"<td class=number>{escape(each.change)}</td></tr>"
        for each in compare_runs(report, before)
    )
    title = f"Against run {before.evidence.run} of {escape(before.evidence.finished_at)}"
    return section(title, table(("probe", "then", "now", "change"), rows), folded=True)


def _finding_table(report: Report) -> str:
    rows: list[str] = []
    for item in sorted(report.findings, key=lambda item: _ORDER[item.verdict]):
        detail = f"<br><small>{escape(item.detail)}</small>" if item.detail else ""
        rows.append(
            f"<tr><td>{_badge(item.verdict)}</td><td class=name>{escape(item.subject)}</td>"
            f"<td>{escape(item.check)}</td><td>{escape(item.expected)}</td>"
            f"<td>{escape(item.actual)}{detail}</td></tr>"
        )
    heads = ("verdict", "probe", "check", "expected", "actual")
    return section("All checks", table(heads, rows), folded=True)


def _hop_table(report: Report) -> str:
    rows = [_hop_row(item, hop) for item in report.evidence.probes for hop in item.hops]
    if not rows:
        return ""
    return section(
        "Counters of every hop",
        "<p><small>Growth during the probe. NICs and switch ingress count by priority (p), switch"
        " egress by traffic class (tc).</small></p>",
        table(("probe", "rail, direction", "hop", "bytes", "by class", "lost"), rows),
        folded=True,
    )


def _hop_row(item: ProbeEvidence, hop: Hop) -> str:
    place = f"{escape(hop.place)}<br><small>{hop.role.replace('_', ' ')}</small>"
    where = f"{escape(hop.rail)}<br><small>{escape(hop.direction)}</small>"
    start = f"<tr><td>{escape(item.probe.name)}</td><td>{where}</td><td>{place}</td>"
    if hop.status not in {"observed", "uncounted"} or hop.total_bytes is None:
        what = f"{hop.status.replace('_', ' ')}: {hop.detail}".rstrip(": ")
        return f"{start}<td colspan=3>{escape(what)}</td></tr>"
    unit = "tc" if hop.role.endswith("_egress") else "p"
    classes = ", ".join(
        f"{unit}{number}: {show_size(size)}"
        for number, size in sorted(hop.bytes_by_class.items())
        if size
    )
    shown = classes or escape(hop.detail) or "-"
    return (
        f"{start}<td class=number>{show_size(hop.total_bytes)}</td><td>{shown}</td>"
        f"<td>{_lost(hop)}</td></tr>"
    )


def _lost(hop: Hop) -> str:
    """The losses and delays of a hop; `none` covers only counters that it has."""
    counts = {
        "discards": hop.discards,
        "out of sequence": hop.out_of_sequence,
        "pauses": hop.pause_frames,
        "stuck queues": sum(hop.storms.values()) or None,
        "ECN marked": hop.ecn_marked,
    }
    known = {name: count for name, count in counts.items() if count is not None}
    grown = [f"{name} {count}" for name, count in known.items() if count]
    if grown:
        return ", ".join(grown)
    return f"none ({', '.join(known)})" if known else "not read"


def _logs(report: Report) -> str:
    parts: list[str] = []
    for item in report.evidence.probes:
        tail = "\n".join(item.log_tail)
        kept = f" · whole log: <code>{escape(item.log_file)}</code>" if item.log_file else ""
        parts.append(
            f"<details><summary>{escape(item.probe.name)}</summary>"
            f"<p><small>{escape(item.command)}<br>{item.log_bytes} bytes · sha256 "
            f"<code>{escape(item.log_sha256)}</code>{kept}</small></p>"
            f"<pre>{escape(tail)}</pre></details>"
        )
    return section("Ends of the logs", *parts, folded=True)


def _inventory(report: Report) -> str:
    facts = report.evidence.facts
    if not facts:
        return ""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in sorted(facts.items())
    )
    return section("Inventory", table((), rows), folded=True)


def _badge(verdict: str, skipped: str = "") -> str:
    """The verdict in its colour; `skipped` is the word for that verdict."""
    words = skipped if verdict == "skipped" and skipped else verdict
    return f'<span class="badge {verdict}">{words}</span>'


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The paths of a report."""

    html: Path
    markdown: Path
    ctrf: Path
    junit: Path
    evidence: Path


def write_report(report: Report, folder: Path, before: Report | None = None) -> ReportFiles:
    """Write all forms of a report into a folder, which is made if it is absent.

    `before` is the run to compare with: usually the last accepted one.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = ReportFiles(
        html=folder / "report.html",
        markdown=folder / "report.md",
        ctrf=folder / "report.ctrf.json",
        junit=folder / "report.junit.xml",
        evidence=folder / "evidence.json",
    )
    if not files.evidence.exists():  # the state names it by its digest, and it must not change
        write_whole(files.evidence, dump_evidence(report.evidence))
    write_whole(files.ctrf, render_ctrf(report))
    write_whole(files.junit, plain_text(render_junit(report)))
    write_whole(files.markdown, plain_text(render_markdown(report)))
    write_whole(files.html, plain_text(render_html(report, before)))
    return files
