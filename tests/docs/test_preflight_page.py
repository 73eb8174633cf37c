"""The table of what a real site can lack: each row is set wrong, and its command finds it."""

from __future__ import annotations

import re

import pytest

from components.checks.site import load_checked_site
from tests.checks.cases import CASES
from tests.docs.markdown import ROOT
from tests.golden.site import EXAMPLES
from tests.preflight.lacks import LACKS
from tests.preflight.played import PLAYED

ALL_PLAYED = frozenset[str]().union(*PLAYED.values())
PAGE = ROOT / "docs" / "howto" / "preflight.md"
BY = {
    command: re.findall(r"^- `([^`]+)`: (.+)$", section, re.MULTILINE)
    for command, section in re.findall(
        r"^### By (\w+)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
}
"""Command to the problems that it finds first: the word that it shows, and the problem."""
ROWS = [row for found in BY.values() for row in found]


def test_there_are_at_least_a_hundred_and_each_once() -> None:
    assert list(BY) == ["check", "preflight", "preview", "up"]
    assert len(ROWS) >= 100
    assert len({problem for _, problem in ROWS}) == len(ROWS)


def test_nearly_all_are_found_before_anything_is_changed() -> None:
    assert len(BY["preview"] + BY["up"]) <= len(ROWS) // 10


def rows(command: str) -> list[str]:
    return [shown for shown, _ in BY[command]]


@pytest.mark.parametrize("shown", rows("check"))
def test_a_rule_finds_it_in_a_file_that_is_wrong(shown: str) -> None:
    cases = [case for name, case in CASES.items() if name.partition("--")[0] == shown]
    assert cases
    for case in cases:
        assert shown in {problem.rule for problem in case.check().problems}


@pytest.mark.parametrize("shown", rows("preflight"))
def test_preflight_finds_it_and_check_could_not(shown: str) -> None:
    """A row that is played has a test that holds the list of what it plays."""
    if shown not in ALL_PLAYED:
        assert [each.rule for each in LACKS[shown]()] == [shown]


def test_most_rows_are_played() -> None:
    recorded = [shown for shown in rows("preflight") if shown not in ALL_PLAYED]
    assert len(ROWS) - len(recorded) >= 60


@pytest.mark.parametrize("file", PLAYED)
def test_what_is_played_is_held_where_it_is_played(file: str) -> None:
    assert f'PLAYED["{file}"]' in (ROOT / file).read_text()


def test_the_sites_that_are_set_wrong_pass_check() -> None:
    for name in ("dgx-roce", "esxi-roce"):
        checked = load_checked_site(EXAMPLES / name / "site.yaml")
        assert checked.spec is not None


def test_every_cause_is_in_the_table() -> None:
    assert set(rows("preflight")) == LACKS.keys() | ALL_PLAYED


@pytest.mark.parametrize("shown", [*rows("preview"), *rows("up")])
def test_what_comes_later_has_a_test_of_its_own(shown: str) -> None:
    found = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)", shown)
    assert found is not None
    assert f"\ndef {found[2]}(" in (ROOT / found[1]).read_text()
