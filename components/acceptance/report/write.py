"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.acceptance.evidence import dump_evidence
from components.acceptance.judge.site import Report
from components.acceptance.report.archive import write_whole
from components.acceptance.report.html import render_html
from components.acceptance.report.text import render_ctrf, render_markdown
from components.core.plain_text import plain_text


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
