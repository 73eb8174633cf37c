"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from components.acceptance.evidence import Hop, ProbeEvidence, dump_evidence
from components.acceptance.judge.amount import show_size
from components.acceptance.judge.nccl import nccl_floor, nccl_limit
from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import MEASURES, Finding
from components.acceptance.report.archive import write_whole
from components.acceptance.report.html_parts import bullets, page, section, table
from components.acceptance.report.plot import Level, draw_busbw
from components.acceptance.report.text import (
    places_not_proven,
    render_ctrf,
    render_markdown,
    unproven_lines,
    waivers_of,
)
from components.core.plain_text import plain_text

_ORDER = {"failed": 0, "error": 1, "skipped": 2, "passed": 3}


def render_html(report: Report) -> str:
    """Renders a report: verdicts first, what to do next, then the evidence."""
    evidence = report.evidence
    title = f"{evidence.cluster}: acceptance {report.verdict}"
    parts = (
        _head(report),
        _lab_banner(report),
        _probe_table(report),
        _next_steps(report),
        _plots(report),
        _finding_table(report),
        _hop_table(report),
        _unproven(report),
        _warnings(report),
        _waivers(report),
        _logs(report),
        _inventory(report),
    )
    return page(title, parts)


def _head(report: Report) -> str:
    evidence = report.evidence
    passed = sum(report.verdict_of(item.probe.name) == "passed" for item in evidence.probes)
    return (
        f"<header><h1>{escape(evidence.cluster)} <small>acceptance</small></h1>"
        f"<p>{_badge(report.verdict)} <strong>{passed} of {report.planned}</strong> planned probes "
        f"passed · run {evidence.run} · {escape(evidence.started_at)} to "
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


def _probe_table(report: Report) -> str:
    probes = sorted(
        report.evidence.probes, key=lambda item: _ORDER[report.verdict_of(item.probe.name)]
    )
    rows = [_probe_row(report, item) for item in probes]
    rows += [
        f"<tr><td>{_badge(item.verdict)}</td><td class=name>{escape(item.subject)}</td>"
        f"<td>{escape(item.check)}</td><td>{escape(item.text)}</td></tr>"
        for item in report.findings
        if item.check in {"reachable", "memlock", "allocatable"}
    ]
    return section("Verdicts", table(("verdict", "probe", "measured", "why"), rows))


def _probe_row(report: Report, item: ProbeEvidence) -> str:
    name = item.probe.name
    findings = [finding for finding in report.findings if finding.subject == name]
    findings.sort(key=lambda finding: _ORDER[finding.verdict])
    bandwidth = next((found.actual for found in findings if found.check in MEASURES), "-")
    worst = findings[0] if findings else None
    if worst is None or worst.verdict == "passed":
        why = f"all {len(findings)} checks passed"
    else:
        why = worst.detail if worst.check == "traffic class" else f"{worst.check}: {worst.text}"
    return (
        f"<tr><td>{_badge(report.verdict_of(name))}</td><td class=name>{escape(name)}<br>"
        f"<small>{escape(' · '.join(item.probe.rails))}</small></td>"
        f"<td class=number>{escape(bandwidth)}</td><td>{escape(why)}</td></tr>"
    )


def _unproven(report: Report) -> str:
    lines = unproven_lines(report)
    if not lines:
        return ""
    lines += [f"{place}: {since}" for place, since in places_not_proven(report)]
    return section("Not proven in this run", bullets(lines))


def _next_steps(report: Report) -> str:
    steps: dict[str, list[str]] = {}
    for finding in report.findings:
        if finding.verdict in ("failed", "error") and finding.next_step:
            steps.setdefault(finding.next_step, []).append(f"{finding.subject} ({finding.check})")
    if not steps:
        return ""
    items = "".join(
        f"<li>{escape(step)}<br><small>{escape(', '.join(dict.fromkeys(of)))}</small></li>"
        for step, of in steps.items()
    )
    return section("What to do next", f"<ol>{items}</ol>")


def _plots(report: Report) -> str:
    parts: list[str] = []
    for item in report.evidence.probes:
        rows = [row for row in item.nccl.rows if row.size_bytes] if item.nccl else []
        if not rows or item.probe.kind != "nccl":
            continue
        limits = report.evidence.limits
        floor, origin = nccl_floor(limits, item.probe)
        limit = nccl_limit(limits, item.probe)
        svg = draw_busbw(rows, Level("floor", floor), Level("line rate", limit))
        caption = f"Floor: {escape(origin)}. Rows from 1 GiB on are judged."
        figure = f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"
        parts.append(section(f"Bandwidth over size: {escape(item.probe.name)}", figure))
    return "".join(parts)


def _finding_table(report: Report) -> str:
    ordered = sorted(report.findings, key=lambda item: _ORDER[item.verdict])
    heads = ("verdict", "probe", "check", "expected", "actual")
    return section("All checks", table(heads, map(_finding_row, ordered)))


def _finding_row(item: Finding) -> str:
    detail = f"<br><small>{escape(item.detail)}</small>" if item.detail else ""
    return (
        f"<tr><td>{_badge(item.verdict)}</td><td class=name>{escape(item.subject)}</td>"
        f"<td>{escape(item.check)}</td><td>{escape(item.expected)}</td>"
        f"<td>{escape(item.actual)}{detail}</td></tr>"
    )


def _hop_table(report: Report) -> str:
    rows = [_hop_row(item, hop) for item in report.evidence.probes for hop in item.hops]
    if not rows:
        return ""
    return section(
        "Counters of every hop",
        "<p><small>Growth during the probe. NICs and switch ingress count by priority (p), switch"
        " egress by traffic class (tc).</small></p>",
        table(("probe", "rail, direction", "hop", "bytes", "by class", "lost"), rows),
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
    """What a hop lost or held back; what it does not count is not called none."""
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


def _waivers(report: Report) -> str:
    lines = waivers_of(report)
    return section("Rules that the site goes without", bullets(lines)) if lines else ""


def _warnings(report: Report) -> str:
    if not report.warnings:
        return ""
    lines = (f"{item.subject}: {item.text}" for item in report.warnings)
    note = "<p><small>They do not fail a probe.</small></p>"
    return section("Warnings", note, bullets(lines))


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
    return section("Ends of the logs", *parts)


def _inventory(report: Report) -> str:
    facts = report.evidence.facts
    if not facts:
        return ""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in sorted(facts.items())
    )
    return section("Inventory", table((), rows))


def _badge(verdict: str) -> str:
    return f'<span class="badge {verdict}">{verdict}</span>'


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where a report lies."""

    html: Path
    markdown: Path
    ctrf: Path
    evidence: Path


def write_report(report: Report, folder: Path) -> ReportFiles:
    """Writes all forms of a report into a folder, which is made if it is absent.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = ReportFiles(
        html=folder / "report.html",
        markdown=folder / "report.md",
        ctrf=folder / "report.ctrf.json",
        evidence=folder / "evidence.json",
    )
    if not files.evidence.exists():  # the state names it by its digest: it is never written again
        write_whole(files.evidence, dump_evidence(report.evidence))
    write_whole(files.ctrf, render_ctrf(report))
    write_whole(files.markdown, plain_text(render_markdown(report)))
    write_whole(files.html, plain_text(render_html(report)))
    return files
