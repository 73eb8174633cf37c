from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence, parse_evidence
from components.acceptance.judge.site import Report, judge_evidence
from components.acceptance.report.text import render_ctrf, render_markdown
from components.acceptance.report.write import render_html, write_report
from tests.lab_physics.site import Site, take_evidence


@pytest.fixture(scope="module")
def failed() -> Report:
    site = Site()
    site.break_port("gpu01", 1, trust="L2")
    return judge_evidence(take_evidence(site))


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return take_evidence(Site())


class Balance(HTMLParser):
    """Follows open elements."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_balanced_and_needs_nothing_else(failed: Report) -> None:
    page = render_html(failed)
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert not re.search(r"<(?:script|link|img|iframe)\b|@import|url\(http", page)


def test_html_says_verdict_cause_step_plot_and_provenance(failed: Report) -> None:
    page = render_html(failed)
    assert page.index("Verdicts") < page.index("What to do next") < page.index("<svg")
    assert "wrong traffic class at leaf-01 1/2: expected priority 3, 100 %" in page
    assert "Simulated lab." in page
    assert "prefers-color-scheme: dark" in page
    assert "#010203" not in page


def test_real_evidence_has_no_lab_banner(evidence: Evidence) -> None:
    real = evidence.model_copy(update={"provenance": "real"})
    assert "Simulated" not in render_html(judge_evidence(real))


def test_texts_from_devices_are_escaped(evidence: Evidence) -> None:
    evil = evidence.model_copy(update={"cluster": "<script>alert(1)</script>"})
    assert "<script>" not in render_html(judge_evidence(evil))


def test_ctrf_counts_its_tests(failed: Report) -> None:
    results = json.loads(render_ctrf(failed))["results"]
    summary = results["summary"]
    assert summary["tests"] == len(results["tests"])
    assert summary["failed"] == 1
    assert sum(summary[key] for key in ("passed", "failed", "skipped", "other")) == summary["tests"]


def test_markdown_has_a_row_per_finding(failed: Report) -> None:
    text = render_markdown(failed)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(failed.findings) + 1
    assert "What to do next" in text


def test_files_are_written_whole(failed: Report, tmp_path: Path) -> None:
    files = write_report(failed, tmp_path / "new" / "run-1")
    write_report(failed, tmp_path / "new" / "run-1")
    assert parse_evidence(files.evidence.read_text()) == failed.evidence
    assert sorted(path.name for path in files.html.parent.iterdir()) == [
        "evidence.json",
        "report.ctrf.json",
        "report.html",
        "report.md",
    ]
