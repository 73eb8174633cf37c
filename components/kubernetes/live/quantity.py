"""Kubernetes quantities: `1024Mi` and `1Gi` are the same amount.

Source: Kubernetes' API reference, `Quantity`
(https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from pydantic import JsonValue

_FORM: Final = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+|[a-zA-Z]*)")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_EXA: Final = {"E": 18}
"""Apart: `1E` is an exa, `1E3` an exponent."""
_MAPS: Final = frozenset({"limits", "requests", "capacity", "allocatable", "hard", "overhead"})
_FIELDS: Final = frozenset({"sizeLimit", "storage", "divisor"})


def holds_quantity(path: tuple[str, ...]) -> bool:
    """Whether the field at this path is an amount of a resource."""
    *before, leaf = path
    return leaf in _FIELDS or (before != [] and before[-1] in _MAPS)


def amount_of(value: JsonValue) -> Fraction | None:
    """The exact amount; None where the value is no quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = _FORM.fullmatch(str(value).strip())
    if found is None:
        return None
    number, suffix = Fraction(found[1]), found[2]
    if suffix in _BINARY:
        return number * 1024 ** (_BINARY.index(suffix) + 1)
    if suffix[:1] in {"e", "E"} and suffix[1:]:
        return number * Fraction(10) ** int(suffix[1:])
    power = {**_DECIMAL, **_EXA}.get(suffix)
    return None if power is None else number * Fraction(10) ** power
