from __future__ import annotations

import pytest

from components.core.plain_text import counted


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (1, ("switch", "switches"), "1 switch"),
        (12, ("switch", "switches"), "12 switches"),
        (2, ("missing answer",), "2 missing answers"),
    ],
)
def test_a_number_has_its_noun(count: int, words: tuple[str, ...], text: str) -> None:
    assert counted(count, *words) == text
