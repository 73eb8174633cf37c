from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import JsonValue

from components.kubernetes.live.compare import amount_of, holds_quantity


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1Gi", 1073741824),
        ("1024Mi", 1073741824),
        ("1G", 1000000000),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e6", 12000000),
        ("100n", Fraction(1, 10**7)),
        (8, 8),
        ("8", 8),
        (-1, -1),
    ],
)
def test_amounts(value: JsonValue, expected: Fraction) -> None:
    assert amount_of(value) == expected


@pytest.mark.parametrize("value", ["", "Gi", "1 Gi", "1Kib", "all", True, None, [1], "1.2.3"])
def test_what_is_no_amount(value: JsonValue) -> None:
    assert amount_of(value) is None


def test_where_amounts_are() -> None:
    assert holds_quantity(("spec", "hard", "requests.cpu"))
    assert holds_quantity(("emptyDir", "sizeLimit"))
    assert not holds_quantity(("metadata", "labels", "cpu"))
    assert not holds_quantity(("limits",))
