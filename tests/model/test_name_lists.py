"""Names as one text and back: nothing is lost, and numbered names cost the same at any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.model.texts import fold_names, unfold_names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), ""),
        (("gpu01",), "gpu01"),
        (("gpu01", "gpu02", "gpu03"), "gpu[01-03]"),
        (("gpu08", "gpu09", "gpu10", "gpu12"), "gpu[08-10,12]"),
        (("gpu9", "gpu10"), "gpu[9-10]"),
        (("gpu99", "gpu100", "gpu0101"), "gpu[99-100,0101]"),
        (("a", "a1", "b", "a2"), "a,a1,b,a2"),
        (("gpu02", "gpu01"), "gpu[02,01]"),
        (("rack1-gpu1", "rack1-gpu2", "rack2-gpu1"), "rack1-gpu[1-2],rack2-gpu1"),
        (("gpu1-a", "gpu2-a"), "gpu1-a,gpu2-a"),
    ],
)
def test_names_word_by_word(names: tuple[str, ...], text: str) -> None:
    assert fold_names(names) == text
    assert unfold_names(text) == names


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{1,3}(-[ab0-9]{1,2})?", fullmatch=True)))
def test_what_is_folded_unfolds(names: list[str]) -> None:
    assert unfold_names(fold_names(names)) == tuple(names)


@given(st.integers(0, 10**4), st.integers(1, 300))
def test_a_run_of_numbers_unfolds(first: int, count: int) -> None:
    names = tuple(f"gpu{number:03}" for number in range(first, first + count))
    assert unfold_names(fold_names(names)) == names


def test_a_thousand_numbered_names_take_no_more_than_ten() -> None:
    few, many = (fold_names(f"gpu{n:05}" for n in range(1, count + 1)) for count in (10, 1000))
    assert len(many) == len(few)
