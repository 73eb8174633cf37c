"""The report as a verdict table for a terminal, as Markdown, and as CTRF JSON for other tools."""

from __future__ import annotations

import json
from typing import Literal

from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import MEASURES, Finding, Verdict

_CTRF_STATUS: dict[Verdict, Literal["passed", "failed", "skipped", "other"]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "error": "other",
}
LAB_NOTE = "Simulated lab: numbers are computed from the state of emulated devices."


_OF_HOSTS = frozenset({"memlock", "allocatable", "ib ports", "ib rate", "one master"})
"""Checks outside of probes that the short table tells even where all is well."""
PASSED_LINE = "acceptance passed"
"""How the verdict table of a proven path ends; own state is searched for it."""


def render_table(report: Report) -> str:
    """The verdict table of the gate: one line a probe, then what is wrong and what to do."""
    rows = [("verdict", "probe", "measured")]
    for item in report.evidence.probes:
        name = item.probe.name
        rows.append((report.verdict_of(name).upper(), name, _measured(report, name)))
    rows += [
        (finding.verdict.upper(), f"{finding.check} {finding.subject}", finding.actual)
        for finding in report.findings
        if finding.check in _OF_HOSTS
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for finding in _unsettled(report):
        lines.append("")
        lines.append(f"{finding.verdict.upper()} {finding.subject}: {_headline(finding)}")
        if finding.detail and finding.detail not in lines[-1]:
            lines.append(f"  {finding.detail}")
        if finding.next_step:
            lines.append(f"  next: {finding.next_step}")
    lines += [f"warning {item.subject}: {item.text}" for item in report.warnings]
    lines += waivers_of(report)
    lines += [LAB_NOTE] if report.evidence.provenance == "lab" else []
    lines.append(f"acceptance {report.verdict}: {report.planned} probes planned")
    return "\n".join(lines) + "\n"


def waivers_of(report: Report) -> list[str]:
    """The rules that the site goes without, each with its reason."""
    waived = report.evidence.limits.waived
    return [f"waived: {rule}: {reason}" for rule, reason in waived.items()]


def render_markdown(report: Report) -> str:
    """The report for a pull request or a ticket."""
    evidence = report.evidence
    lines = [
        f"# {evidence.cluster}: acceptance {report.verdict}",
        "",
        (
            f"Run {evidence.run}, {evidence.started_at} to {evidence.finished_at}, "
            f"plan `{evidence.plan_digest}`."
        ),
    ]
    if evidence.provenance == "lab":
        lines += ["", f"> {LAB_NOTE}"]
    lines += ["", "| verdict | probe | check | expected | actual |", "|---|---|---|---|---|"]
    for item in report.findings:
        cells = (item.verdict, item.subject, item.check, item.expected, item.actual)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    unsettled = _unsettled(report)
    if unsettled:
        lines += ["", "## What to do next", ""]
        lines += [
            f"- {item.subject}: {_headline(item)}. {item.next_step}".rstrip() for item in unsettled
        ]
    if report.warnings:
        lines += ["", "## Warnings", ""]
        lines += [f"- {item.subject}: {item.text}" for item in report.warnings]
    if waived := waivers_of(report):
        lines += ["", "## Rules that the site goes without", "", *(f"- {line}" for line in waived)]
    return "\n".join(lines) + "\n"


def render_ctrf(report: Report) -> str:
    """The report in the Common Test Report Format."""
    tests = [
        {
            "name": f"{item.subject}: {item.check}",
            "status": _CTRF_STATUS[item.verdict],
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


def _unsettled(report: Report) -> list[Finding]:
    found = [item for item in report.findings if item.verdict in ("failed", "error")]
    return sorted(found, key=lambda item: item.verdict == "error")


def unsettled_lines(report: Report) -> tuple[str, ...]:
    """What is wrong, one line each, proven faults first."""
    return tuple(
        f"{item.verdict.upper()} {item.subject}: {_headline(item)}" for item in _unsettled(report)
    )


def _headline(finding: Finding) -> str:
    if finding.detail.startswith("wrong traffic class"):
        return finding.detail
    return f"{finding.check}: {finding.text}"


def _measured(report: Report, probe: str) -> str:
    for finding in report.findings:
        if finding.subject == probe and finding.check in MEASURES:
            return f"{finding.actual} ({finding.expected})"
    return "not measured"
