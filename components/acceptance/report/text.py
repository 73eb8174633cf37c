"""The report as a verdict table for a terminal, as Markdown, and as CTRF JSON for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import GROUP, UNPROVEN, Finding, Verdict
from components.core.plain_text import code_cell, code_span, counted

_CTRF_STATUS: dict[Verdict, Literal["passed", "failed", "skipped", "other"]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "error": "other",
}
LAB_NOTE = "Simulated lab: numbers are computed from the state of emulated devices."


_OF_HOSTS = frozenset(
    {"memlock", "allocatable", "ib ports", "ib rate", "one master", GROUP, UNPROVEN}
)
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
    lines = suspect_lines(report)
    lines += [
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
    lines += unproven_lines(report)
    lines += waivers_of(report)
    lines += [LAB_NOTE] if report.evidence.provenance == "lab" else []
    probes = counted(report.planned, "probe")
    lines.append(f"{headline_of(report)}: {probes} planned{_unproven(report)}")
    return "\n".join(lines) + "\n"


def headline_of(report: Report) -> str:
    """The verdict; a pass of a part is not `PASSED_LINE`, so that the next update proves all."""
    scope = report.evidence.scope
    return f"acceptance of {scope} {report.verdict}" if scope else f"acceptance {report.verdict}"


def suspect_lines(report: Report) -> list[str]:
    """What to replace or mend first."""
    return [
        f"{'Most likely' if item.parts else 'Unclear'}: {item.text}: {item.next_step}"
        for item in report.suspects
    ]


def _unproven(report: Report) -> str:
    """How much no probe proves: a pass does not speak of it."""
    count = sum(
        item.verdict == "skipped" and item.check in {GROUP, UNPROVEN} for item in report.findings
    )
    return f", {counted(count, 'thing')} not proven" if count else ""


def unproven_lines(report: Report) -> list[str]:
    """What this run did not prove, why, and when it was last proven: never a pass."""
    evidence = report.evidence
    lines = [
        f"not proven: {item.probe.name}: {item.detail}; {_since(item.proven_at)}"
        for item in evidence.probes
        if item.outcome == "skipped"
    ]
    lines += [
        f"not proven: {item.name}: outside of the scope of this run; {_since(item.proven_at)}"
        for item in evidence.left_out
    ]
    return lines


def _since(date: str) -> str:
    return f"last proven {date}" if date else "never proven"


def places_not_proven(report: Report) -> list[tuple[str, str]]:
    """`host rail` and the date of its last proof, for what no probe of this run proved."""
    evidence = report.evidence
    proven = {
        f"{node} {rail}"
        for item in evidence.probes
        if report.verdict_of(item.probe.name) == "passed"
        for rail in item.probe.rails
        for node in item.probe.nodes
    }
    probes = [item.probe for item in evidence.probes if item.outcome == "skipped"]
    skipped = {f"{node} {rail}" for each in probes for rail in each.rails for node in each.nodes}
    places = sorted({*skipped, *evidence.places_left_out} - proven)
    return [(place, _since(evidence.last_proofs.get(place, ""))) for place in places]


def waivers_of(report: Report) -> list[str]:
    """The rules that the site goes without, each with its reason."""
    waived = report.evidence.limits.waived
    return [f"waived: {rule}: {reason}" for rule, reason in waived.items()]


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
    unsettled = _unsettled(report)
    if unsettled:
        lines += ["", "## What to do next", "", *_items(suspect_lines(report))]
        lines += _items(
            f"{item.subject}: {_headline(item)}. {item.next_step}".rstrip() for item in unsettled
        )
    if unproven := unproven_lines(report):
        lines += ["", "## Not proven in this run", "", *_items(unproven)]
        lines += _items(f"{place}: {since}" for place, since in places_not_proven(report))
    if report.warnings:
        lines += ["", "## Warnings", ""]
        lines += _items(f"{item.subject}: {item.text}" for item in report.warnings)
    if waived := waivers_of(report):
        lines += ["", "## Rules that the site goes without", "", *_items(waived)]
    return "\n".join(lines) + "\n"


def _items(texts: Iterable[str]) -> list[str]:
    return [f"- {code_span(text)}" for text in texts]


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


_JUNIT: dict[Verdict, str] = {"failed": "failure", "error": "error", "skipped": "skipped"}


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
    """Put the probes of two runs side by side, what changed most for the worse first."""
    names = dict.fromkeys(
        item.probe.name for each in (report, before) for item in each.evidence.probes
    )
    rows: list[tuple[float, Compared]] = []
    for name in names:
        old, new = _actual(before, name), _actual(report, name)
        share = _number(new) / _number(old) - 1 if _number(old) and _number(new) else 0.0
        change = f"{share:+.1%}" if _number(old) and _number(new) else ""
        verdicts = before.verdict_of(name), report.verdict_of(name)
        fell = verdicts[0] == "passed" != verdicts[1]
        row = Compared(name, verdicts[0], old, verdicts[1], new, change)
        rows.append((share - fell, row))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def compare_lines(report: Report, before: Report) -> list[str]:
    """The same for a terminal: what changed its verdict, or its speed by 3 % and more."""
    lines = [f"against run {before.evidence.run} of {before.evidence.finished_at}:"]
    for each in compare_runs(report, before):
        moved = abs(float(each.change.rstrip("%") or 0)) >= 3  # noqa: PLR2004 - runs differ by less
        if moved or each.verdict != each.verdict_before:
            then = f"{each.verdict_before} {each.before}".strip()
            now = f"{each.verdict} {each.now} {each.change}".strip()
            lines.append(f"  {each.probe}: {then} -> {now}")
    return lines if len(lines) > 1 else [*lines, "  no verdict changed, and no speed by 3 %"]


def _actual(report: Report, probe: str) -> str:
    """What a probe measured, if it did."""
    found = report.measure_of(probe)
    return found.actual if found else ""


def _number(actual: str) -> float:
    try:
        return float(actual.split(" ", maxsplit=1)[0])
    except ValueError:
        return 0.0


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
    found = report.measure_of(probe)
    return f"{found.actual} ({found.expected})" if found else "not measured"
