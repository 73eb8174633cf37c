"""Each case gives exactly its report; each rule has one of its own, and bases have no problem."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from components.checks.site import CheckedSite, check_site, load_checked_site
from components.reading.load import parse_site
from tests.checks.cases import (
    CASES,
    CLEAN,
    FILES,
    REGENERATE,
    ROOT,
    RULE_NAMES,
    read_cases,
    recorded,
    report_of,
)
from tests.checks.rules_page import render_rules_page

RULES_PAGE = ROOT / "docs" / "reference" / "rules.md"
CONSEQUENCES: Mapping[str, set[str]] = {
    "cloud-hosts": {"control-plane", "worker-count"},
    "gid-index": {"plugin-version"},
    "instance-type": {"gpu-job"},
    "sm-switch": {"switch-transport"},
}
"""Rules that no site breaks alone, with the others that its mistake breaks too."""


@cache
def _checked(name: str) -> CheckedSite:
    return CASES[name].check()


@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_its_report(name: str) -> None:
    checked = _checked(name)
    assert report_of(checked) == recorded(name).expected, (
        "correct the patch or the rule, or run `make goldens` and read the difference"
    )
    assert CASES[name].rule in {problem.rule for problem in checked.problems}
    assert all(place.line for problem in checked.problems for place in problem.where)
    assert all(problem.fix for problem in checked.problems)
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    assert (checked.spec is None) == bool(errors)


def test_every_rule_has_a_case() -> None:
    names = {case.rule for case in CASES.values()}
    assert sorted(set(RULE_NAMES) - names) == [], "add a case for each to tests/cases/"
    assert sorted(names - set(RULE_NAMES)) == [], "a case is called <rule> or <rule>--<variant>"


def test_every_rule_has_a_case_that_breaks_no_other() -> None:
    """The recorded reports say so: the rule is the word that a problem begins with."""
    alone: dict[str, list[set[str]]] = {}
    for case in CASES.values():
        problems = case.expected.splitlines()[:-1]
        words = {line.split(" ")[0].rstrip(":") for line in problems if not line.startswith(" ")}
        alone.setdefault(case.rule, []).append(words - {case.rule})
    crowded = {rule: min(others, key=len) for rule, others in alone.items() if set() not in others}
    assert crowded == CONSEQUENCES, "change the case until it breaks only its own rule"


def test_names_of_rules_and_cases_are_unique() -> None:
    assert len(RULE_NAMES) == len(set(RULE_NAMES))
    names = [name for path in FILES for name in read_cases(path)]
    assert len(names) == len(set(names))


def test_the_clean_site_has_no_problem_and_other_bases_have_none() -> None:
    """`test_site_text.py` holds that no example has a problem, `test_guides.py` that of a guide."""
    others = {case.base for case in CASES.values()} - {CLEAN}
    guides = {*(ROOT / "tests" / "docs" / "guides").glob("*.site.yaml")}
    assert others <= {*(ROOT / "examples").glob("*/[a-z]*.yaml")} | guides
    checked = load_checked_site(CLEAN)
    assert checked.problems == ()
    assert checked.spec is not None
    assert check_site(checked.spec) == ()


def test_reference_page_is_fresh() -> None:
    page = render_rules_page()
    if REGENERATE:
        RULES_PAGE.write_text(page, encoding="utf-8")
    assert page == RULES_PAGE.read_text(encoding="utf-8"), (
        "run `make goldens` and read the difference"
    )
    assert [rule for rule in RULE_NAMES if f"\n### {rule}\n" not in page] == []


def test_rules_run_on_what_is_left_of_a_broken_file() -> None:
    loaded = parse_site(CASES["unknown-key"].text(), "site.yaml")
    assert loaded.spec is None
    assert loaded.partial is not None
    assert {problem.rule for problem in _checked("unknown-key").problems} == {
        "unknown-key",
        "lacp-rail",
    }
