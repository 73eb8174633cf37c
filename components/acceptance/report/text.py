"""The report as a verdict table for a terminal, as Markdown, and as CTRF JSON for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from components.acceptance.evidence import places_of
from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import GROUP, UNPROVEN, Finding, Verdict
from components.acceptance.logs.lines import number
from components.core.plain_text import code_cell, code_span, counted

LAB_NOTE = "Simulated lab: numbers are computed from the state of emulated devices."


_OF_HOSTS = frozenset(
    {"memlock", "allocatable", "ib ports", "ib rate", "one master", GROUP, UNPROVEN}
)
"""Checks outside of probes that the short table shows even if all is well."""
PASSED_LINE = "acceptance passed"
"""The last line of the verdict table of a proven path; Railyard searches its state for it."""
_JUNIT: dict[Verdict, str] = {"failed": "failure", "error": "error", "skipped": "skipped"}


def render_table(report: Report) -> str:
    """The verdict table of the gate: one line per probe, then the faults and their fixes."""
    rows = [("verdict", "probe", "measured")]
    for item in report.evidence.probes:
        name = item.probe.name
        found = report.measure_of(name)
        measured = f"{found.actual} ({found.expected})" if found else "not measured"
        rows.append((report.verdict_of(name).upper(), name, measured))
    rows += [
        (finding.verdict.upper(), f"{finding.check} {finding.subject}", finding.actual)
        for finding in report.findings
        if finding.check in _OF_HOSTS
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{item.headline}: {item.next_step}" for item in report.suspects]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for finding in _unsettled(report):
        lines += ["", f"{finding.verdict.upper()} {finding.subject}: {_headline(finding)}"]
        if finding.detail and finding.detail not in lines[-1]:
            lines.append(f"  {finding.detail}")
        if finding.next_step:
            lines.append(f"  next: {finding.next_step}")
    lines += [f"warning {item.subject}: {item.text}" for item in report.warnings]
    lines += unproven_lines(report)
    lines += waivers_of(report)
    lines += [LAB_NOTE] if report.evidence.provenance == "lab" else []
    # A pass does not cover subjects without a probe.
    unproven = [item for item in report.findings if item.check in {GROUP, UNPROVEN}]
    count = sum(item.verdict == "skipped" for item in unproven)
    more = f", {counted(count, 'thing')} not proven" if count else ""
    lines.append(f"{headline_of(report)}: {counted(report.planned, 'probe')} planned{more}")
    return "\n".join(lines) + "\n"


def headline_of(report: Report) -> str:
    """The verdict; a scoped pass is not `PASSED_LINE`, and so the next update proves everything."""
    scope = report.evidence.scope
    return f"acceptance of {scope} {report.verdict}" if scope else f"acceptance {report.verdict}"


def unproven_lines(report: Report) -> list[str]:
    """The probes that this run did not prove, with reason and last proof: never a pass."""
    evidence = report.evidence
    skipped = [item for item in evidence.probes if item.outcome == "skipped"]
    whys = [(item.probe.name, item.detail, item.proven_at) for item in skipped]
    out = "outside of the scope of this run"
    whys += [(item.name, out, item.proven_at) for item in evidence.left_out]
    return [f"not proven: {name}: {why}; {_since(date)}" for name, why, date in whys]


def _since(date: str) -> str:
    return f"last proven {date}" if date else "never proven"


def sections(report: Report) -> dict[str, list[str]]:
    """Title to lines of the parts that every page lists."""
    evidence, unproven = report.evidence, unproven_lines(report)
    if unproven:
        proven, skipped = set[str](), {*evidence.places_left_out}
        for item in evidence.probes:
            ends = {" ".join(place) for place in places_of(item.probe)}
            proven |= ends if report.verdict_of(item.probe.name) == "passed" else set()
            skipped |= ends if item.outcome == "skipped" else set()
        dates = evidence.last_proofs
        unproven += [f"{at}: {_since(dates.get(at, ''))}" for at in sorted(skipped - proven)]
    return {
        "Not proven in this run": unproven,
        "Warnings": [f"{item.subject}: {item.text}" for item in report.warnings],
        "Rules that the site goes without": waivers_of(report),
    }


def waivers_of(report: Report) -> list[str]:
    """The waived rules, each with its reason."""
    return [f"waived: {rule}: {why}" for rule, why in report.evidence.limits.waived.items()]


def render_markdown(report: Report) -> str:
    """The report for a pull request or a ticket."""
    evidence = report.evidence
    lines = [
        f"# {code_span(evidence.cluster)}: acceptance {report.verdict}",
        "",
        (
            f"Run {evidence.run}, {code_span(evidence.started_at)} to"
            f" {code_span(evidence.finished_at)}, plan {code_span(evidence.plan_digest)}."
        ),
    ]
    if evidence.provenance == "lab":
        lines += ["", f"> {LAB_NOTE}"]
    lines += ["", "| verdict | probe | check | expected | actual |", "|---|---|---|---|---|"]
    for item in report.findings:
        cells = (item.verdict, item.subject, item.check, item.expected, item.actual)
        lines.append("| " + " | ".join(map(code_cell, cells)) + " |")
    if unsettled := _unsettled(report):
        lines += ["", "## What to do next", ""]
        lines += _items(f"{item.headline}: {item.next_step}" for item in report.suspects)
        lines += _items(
            f"{item.subject}: {_headline(item)}. {item.next_step}".rstrip() for item in unsettled
        )
    for title, found in sections(report).items():
        lines += ["", f"## {title}", "", *_items(found)] if found else []
    return "\n".join(lines) + "\n"


def _items(texts: Iterable[str]) -> list[str]:
    return [f"- {code_span(text)}" for text in texts]


def render_ctrf(report: Report) -> str:
    """The report in the Common Test Report Format."""
    tests = [
        {
            "name": f"{item.subject}: {item.check}",
            "status": "other" if item.verdict == "error" else item.verdict,
            "duration": 0,
            "suite": item.subject,
            "message": item.text,
            "trace": item.detail,
        }
        for item in report.findings
    ]
    counts = {
        status: sum(test["status"] == status for test in tests)
        for status in ("passed", "failed", "skipped", "other")
    }
    document = {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "results": {
            "tool": {"name": "railyard"},
            "summary": {"tests": len(tests), "pending": 0, "start": 0, "stop": 0, **counts},
            "tests": tests,
            "environment": {
                "appName": report.evidence.cluster,
                "extra": {
                    "provenance": report.evidence.provenance,
                    "planDigest": report.evidence.plan_digest,
                    "startedAt": report.evidence.started_at,
                    "waived": report.evidence.limits.waived,
                },
            },
        },
    }
    return json.dumps(document, indent=1) + "\n"


def render_junit(report: Report) -> str:
    """Render the report as JUnit's XML: one case a finding, one suite for the whole."""
    cases: list[str] = []
    for item in report.findings:
        place = f"classname={quoteattr(item.subject)} name={quoteattr(item.check)}"
        kind = _JUNIT.get(item.verdict)
        body = escape(" ".join(part for part in (item.detail, item.next_step) if part))
        inside = f"<{kind} message={quoteattr(item.text)}>{body}</{kind}>" if kind else ""
        cases.append(f"  <testcase {place}>{inside}</testcase>")
    verdicts = [item.verdict for item in report.findings]
    counts = f'tests="{len(cases)}" failures="{verdicts.count("failed")}"'
    counts += f' errors="{verdicts.count("error")}" skipped="{verdicts.count("skipped")}"'
    name = quoteattr(f"{report.evidence.cluster} acceptance")
    head = f"<testsuite name={name} timestamp={quoteattr(report.evidence.started_at)} {counts}>"
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""))


class Compared(NamedTuple):
    """One probe in two runs."""

    probe: str
    verdict_before: Verdict
    before: str
    verdict: Verdict
    now: str
    change: str
    """Of the bandwidth in percent; empty if one of the runs has no number."""


def compare_runs(report: Report, before: Report) -> list[Compared]:
    """Put the probes of two runs side by side, the largest losses first."""
    probes = (*report.evidence.probes, *before.evidence.probes)
    rows: list[tuple[float, Compared]] = []
    for name in dict.fromkeys(item.probe.name for item in probes):
        then, now = before.verdict_of(name), report.verdict_of(name)
        measures = before.measure_of(name), report.measure_of(name)
        texts = [found.actual if found else "" for found in measures]
        old, new = (number(text.partition(" ")[0]) for text in texts)
        share = new / old - 1 if old and new else 0.0
        change = f"{share:+.1%}" if old and new else ""
        row = Compared(name, then, texts[0], now, texts[1], change)
        rows.append((share - (then == "passed" != now), row))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def compare_lines(report: Report, before: Report) -> list[str]:
    """List for a terminal the probes whose verdict changed, or their speed by 3 % and more."""
    lines = [f"against run {before.evidence.run} of {before.evidence.finished_at}:"]
    for each in compare_runs(report, before):
        moved = abs(float(each.change.rstrip("%") or 0)) >= 3  # noqa: PLR2004 - runs differ by less
        if moved or each.verdict != each.verdict_before:
            then = f"{each.verdict_before} {each.before}".strip()
            now = f"{each.verdict} {each.now} {each.change}".strip()
            lines.append(f"  {each.probe}: {then} -> {now}")
    return lines if len(lines) > 1 else [*lines, "  no verdict changed, and no speed by 3 %"]


def _unsettled(report: Report) -> list[Finding]:
    found = [item for item in report.findings if item.verdict in ("failed", "error")]
    return sorted(found, key=lambda item: item.verdict == "error")


def unsettled_lines(report: Report) -> tuple[str, ...]:
    """The faults, one line each, proven ones first."""
    return tuple(f"{it.verdict.upper()} {it.subject}: {_headline(it)}" for it in _unsettled(report))


def _headline(finding: Finding) -> str:
    if finding.detail.startswith("wrong traffic class"):
        return finding.detail
    return f"{finding.check}: {finding.text}"
