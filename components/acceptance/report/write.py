"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from components.acceptance.evidence import dump_evidence
from components.acceptance.judge.site import Report
from components.acceptance.report.html import render_html
from components.acceptance.report.text import render_ctrf, render_markdown


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
    _replace(files.evidence, dump_evidence(report.evidence) + "\n")
    _replace(files.ctrf, render_ctrf(report))
    _replace(files.markdown, render_markdown(report))
    _replace(files.html, render_html(report))
    return files


def _replace(path: Path, text: str) -> None:
    """Writes beside the target and renames, so that a crash leaves the old file whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
