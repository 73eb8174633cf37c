"""Kubernetes quantities: `1024Mi` and `1Gi` are the same amount."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from standins.kubernetes.values import Json

_FACTORS = {
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}

# Maps of resource name to quantity, and single fields that hold one, in the built-in kinds.
_QUANTITY_MAPS = frozenset({"limits", "requests", "capacity", "allocatable", "hard", "overhead"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "storage", "divisor"})


def parse_quantity(value: Json) -> Decimal | None:
    """Parses a quantity; None where the value is not one."""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return None
    text = str(value)
    number, factor = text, Decimal(1)
    for suffix, amount in _FACTORS.items():
        if text.endswith(suffix):
            number, factor = text.removesuffix(suffix), amount
            break
    try:
        return Decimal(number) * factor
    except InvalidOperation:
        return None


def is_quantity_path(path: tuple[str | int, ...]) -> bool:
    """Says whether a path of a built-in kind holds a quantity."""
    leaf = path[-1] if path else ""
    parent = path[-2] if len(path) > 1 else ""
    return leaf in _QUANTITY_FIELDS or parent in _QUANTITY_MAPS


def same_quantity(left: Json, right: Json) -> bool:
    """Says whether two values are the same amount."""
    first, second = parse_quantity(left), parse_quantity(right)
    return first is not None and first == second
