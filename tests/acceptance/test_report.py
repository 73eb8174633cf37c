from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence, parse_evidence
from components.acceptance.judge.site import Report, judge_evidence
from components.acceptance.report.pictures import (
    MOST_DRAWN,
    Pair,
    Way,
    draw_heat,
    draw_topology,
)
from components.acceptance.report.text import (
    compare_lines,
    render_ctrf,
    render_junit,
    render_markdown,
)
from components.acceptance.report.write import render_html, topology, write_report
from tests.lab_physics.site import Site, take_evidence

LINK = re.compile(r'class="way (\w+)"><title>([^<]*)')


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
    assert page.index("What to do next") < page.index("Verdicts") < page.index("<svg")
    assert "wrong traffic class at leaf-01 1/2: expected priority 3, 100 %" in page
    assert "Simulated lab." in page
    assert "prefers-color-scheme: dark" in page
    assert "Red, look there first: gpu01 enp132s0 to leaf-01 1/2." in page


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
    page = write_report(failed, tmp_path / "new" / "run-1")
    write_report(failed, tmp_path / "new" / "run-1")
    assert parse_evidence(page.with_name("evidence.json").read_text()) == failed.evidence
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "evidence.json",
        "report.ctrf.json",
        "report.html",
        "report.junit.xml",
        "report.md",
    ]


def test_junit_has_a_case_per_finding_with_its_verdict(failed: Report) -> None:
    suite = ET.fromstring(render_junit(failed))  # noqa: S314 - written two lines before
    cases = [*suite]
    assert len(cases) == len(failed.findings) == int(suite.attrib["tests"])
    assert [case.attrib["classname"] for case in cases if case.find("failure") is not None] == [
        item.subject for item in failed.findings if item.verdict == "failed"
    ]


def test_a_run_is_compared_with_another(failed: Report, evidence: Evidence) -> None:
    before = judge_evidence(evidence)
    lines = compare_lines(failed, before)
    assert lines[1].startswith("  nccl-all-reduce: passed 22.86 GB/s at 1 GiB -> failed")
    assert compare_lines(before, before)[1] == "  no verdict changed, and no speed by 3 %"
    page = render_html(failed, before)
    assert 'class="line last"' in page
    assert "Against run 1" in page


def test_the_picture_shows_the_suspects_alone_as_bad() -> None:
    site = Site()
    site.break_port("gpu01", 1, mtu_bytes=1500)
    report = judge_evidence(take_evidence(site))
    assert [each.parts for each in report.suspects] == [(("link", "gpu01 rail-1"),)]
    picture = topology(report)
    assert {label: state for state, label in LINK.findall(picture)} == {
        "gpu01 enp132s0 to leaf-01 1/2": "bad",
        "gpu02 enp132s0 to leaf-01 1/4": "doubt",
        "gpu01 enp5s0 to leaf-01 1/1": "good",
        "gpu02 enp5s0 to leaf-01 1/3": "good",
    }
    assert "Red, look there first: gpu01 enp132s0 to leaf-01 1/2. " in picture


def test_a_link_of_failed_pairs_without_a_suspect_is_in_doubt() -> None:
    site = Site()
    site.break_port("gpu01", 1, oper_up=False)
    report = judge_evidence(take_evidence(site)).model_copy(update={"suspects": ()})
    picture = topology(report)
    assert [state for state, _ in LINK.findall(picture)].count("doubt") == 2
    assert "Red, look there first" not in picture


@pytest.mark.parametrize("hosts", [1, 2, 16, 17, 128, 1000])
def test_a_heat_map_of_any_size_is_one_picture(hosts: int) -> None:
    names = [f"gpu{number:04d}" for number in range(hosts)]
    pairs = [
        Pair(one, two, 92.0 if one != "gpu0003" else None, 90.0, one != "gpu0003")
        for one, two in zip(names, [*names[1:], names[0]], strict=True)
    ]
    picture = draw_heat("rail-0", pairs)
    balance = Balance()
    balance.feed(picture)
    assert balance.open == []
    assert ("gpu0003 to gpu0004: failed" in picture) == (hosts > len("abc"))
    assert len(picture) < 4_000_000


def test_a_picture_of_many_devices_keeps_the_bad_ones() -> None:
    hosts = [f"gpu{number:03d}" for number in range(200)]
    ways = [
        Way(host, "eth0", "leaf-1", f"swp{number}", "bad" if number == 150 else "good")
        for number, host in enumerate(hosts)
    ]
    picture, left_out = draw_topology([hosts, ["leaf-1"]], ways)
    assert ">gpu150<" in picture
    assert ">to swp150<" in picture
    assert left_out == 200 - MOST_DRAWN


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(failed: Report, tmp_path: Path, width: int) -> None:
    """A frame of that width, since Chromium's own window is never narrower than 500 pixels."""
    page = render_html(failed, failed).replace("<details>", "<details open>")
    (tmp_path / "page.html").write_text(page)
    measure = (
        "<!doctype html><title>waits</title>"
        f'<iframe src="page.html" style="border:0;width:{width}px;height:3000px"></iframe>'
        "<script>onload = () => { const d = frames[0].document; const wide = [];"
        "for (const e of d.querySelectorAll('table, figure, li, p, summary, td, svg'))"
        " if (e.getBoundingClientRect().right > d.documentElement.clientWidth + 1)"
        " wide.push(e.tagName + ': ' + e.textContent.slice(0, 40));"
        "const root = d.documentElement; const more = root.scrollWidth - root.clientWidth;"
        "document.title = JSON.stringify([more, wide]); };</script>"
    )
    (tmp_path / "measure.html").write_text(measure)
    command = [_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += ["--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, (tmp_path / "measure.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None
    assert json.loads(found[1]) == [0, []]
