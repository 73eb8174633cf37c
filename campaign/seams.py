"""Stand-ins for what a campaign puts aside in the product: typed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def giving(value: T) -> Callable[..., T]:
    """A function that gives one value, whatever it is asked."""

    def give(*_given: object, **_named: object) -> T:
        return value

    return give
