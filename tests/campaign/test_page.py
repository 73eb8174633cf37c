"""The page names every invariant, and its runs are rows as the campaign writes them."""

from __future__ import annotations

import re

import pytest

from campaign.history import INVARIANTS
from campaign.page import HEAD, PAGE, render_row
from campaign.run import Outcome

TEXT = PAGE.read_text()
ROWS = re.findall(
    r"^\| ([1234]) \| (\d+) to (\d+) \| (\d+) \| (\d+) \| ([^|]+) \| \d+ \| [\d-]+ \| \w{8} \|$",
    TEXT.partition(HEAD)[2],
    re.MULTILINE,
)


def test_every_invariant_is_explained() -> None:
    assert [int(each) for each in re.findall(r"^\| (\d+) \| [A-Z]", TEXT, re.MULTILINE)] == [
        *INVARIANTS
    ]


def test_there_are_runs_of_every_tier() -> None:
    assert {row[0] for row in ROWS} == {"1", "2", "3", "4"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:3]))
def test_a_row_fits_in_itself(row: tuple[str, ...]) -> None:
    _tier, first, last, played, failed, by = row
    assert int(played) == int(last) - int(first) + 1
    assert int(failed) <= int(played)
    assert (by == "none") == (failed == "0")


def test_a_run_is_written_in_that_form() -> None:
    made = render_row(1, 1, 10, Outcome(played=10), 3.0, "0123abcd")
    assert made.startswith("| 1 | 1 to 10 | 10 | 0 | none | 3 | ")
    assert made.endswith(" | 0123abcd |")
