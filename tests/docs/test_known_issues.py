"""Each known issue has its rule or its order, and a test that is there."""

from __future__ import annotations

import os

from components.checks.registry import RULES
from tests.docs.collected import collect
from tests.docs.known_issues import PAGE, load_issues, render_page

ISSUES = load_issues()


def test_each_is_prevented_by_one_thing() -> None:
    names = {rule.name for rule in RULES}
    for issue in ISSUES:
        assert (issue.rule is None) != (issue.order is None), issue.issue
        assert issue.rule is None or issue.rule in names, issue.issue
        assert issue.tests, issue.issue
    assert len(ISSUES) >= 16


def test_each_test_is_there() -> None:
    every = [test for issue in ISSUES for test in issue.tests]
    found = collect(every)
    missing = [test for test in every if test not in found]
    assert missing == []


def test_the_page_is_fresh() -> None:
    page = render_page(ISSUES)
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page, "run `make goldens` and read the difference"
