"""The page of the mutation check has every room, and its rates are those of its numbers."""

from __future__ import annotations

import re

import pytest

from mutants.command import GOAL
from mutants.rooms import ROOMS
from tests.docs.markdown import ROOT

PAGE = (ROOT / "mutants" / "README.md").read_text()
ROWS = re.findall(
    r"^\| ([\w-]+) \| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+\.\d) % \|$", PAGE, re.MULTILINE
)
UNMEASURED = re.findall(
    r"^\| ([\w-]+) \| [^|]+ \| \| \| \d+ \| not measured \|$", PAGE, re.MULTILINE
)


def test_every_room_was_measured_or_is_said_not_to_be() -> None:
    assert sorted([*(row[0] for row in ROWS), *UNMEASURED]) == sorted(ROOMS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_rate_is_that_of_its_numbers(row: tuple[str, ...]) -> None:
    room, *numbers, rate = row
    noticed, tried, known = map(int, numbers)
    assert noticed <= tried <= known
    assert f"{100 * noticed / tried:.1f}" == rate
    below = PAGE.partition("Below the goal")[2].partition(".")[0]
    assert (noticed / tried < GOAL) == (f"`{room}`" in below)
