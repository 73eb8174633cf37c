"""Each invalid file gives exactly its report; each rule has one, and the clean site none."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.docs import render_rules_page
from components.checks.site import check_site, load_checked_site
from components.reading.load import load_site
from tests.checks.invalid_files import CASES, FOLDER, ROOT, RULE_NAMES, golden, report_of, rule_of


@pytest.fixture(autouse=True)
def _in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


@pytest.mark.parametrize("case", CASES)
def test_report_is_exact(case: str) -> None:
    report = report_of(case)
    assert report == golden(FOLDER / f"{case}.expected.txt", report)


@pytest.mark.parametrize("case", CASES)
def test_report_names_the_rule_with_its_line(case: str) -> None:
    checked = load_checked_site(Path(f"{case}.yaml"))
    own = [problem for problem in checked.problems if problem.rule == rule_of(case)]
    assert own, f"{case}.yaml does not break its rule"
    assert all(place.line for problem in checked.problems for place in problem.where)
    assert all(problem.fix for problem in checked.problems)
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    assert (checked.spec is None) == bool(errors)


def test_every_rule_has_an_invalid_file() -> None:
    assert sorted({rule_of(case) for case in CASES}) == sorted(RULE_NAMES)


def test_rule_names_are_unique() -> None:
    assert len(RULE_NAMES) == len(set(RULE_NAMES))


def test_clean_sites_have_no_problems() -> None:
    for path in (FOLDER / "clean.yaml", ROOT / "examples" / "dgx-roce" / "site.yaml"):
        checked = load_checked_site(path)
        assert checked.problems == ()
        assert checked.spec is not None
        assert check_site(checked.spec) == ()


def test_reference_page_is_fresh() -> None:
    examples = {rule: report_of(rule) for rule in RULE_NAMES}
    page = render_rules_page(examples)
    assert page == golden(ROOT / "docs" / "reference" / "rules.md", page)
    for rule in RULE_NAMES:
        section = page.partition(f"### {rule}\n")[2].partition("\n### ")[0]
        assert f"```text\n{rule}" in section, f"{rule} has no example"


def test_rules_run_on_what_is_left_of_a_broken_file() -> None:
    loaded = load_site(Path("unknown-key.yaml"))
    assert loaded.spec is None
    assert loaded.partial is not None
    rules = {problem.rule for problem in load_checked_site(Path("unknown-key.yaml")).problems}
    assert rules == {"unknown-key", "lacp-rail"}
