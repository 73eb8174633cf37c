"""What follows from a frozen value is worked out once, however many ask for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Source = TypeVar("Source")
Result = TypeVar("Result")


def once(build: Callable[[Source], Result]) -> Callable[[Source], Result]:
    """Keep the result of a pure function of one frozen value for as long as that value lives.

    It goes by identity: to compare two sites would cost as much as to read one. The result must
    not hold the value itself, which would then never go, and must not be changed by who gets it.
    """
    kept: dict[int, tuple[weakref.ref[Source], Result]] = {}

    @wraps(build)
    def recall(source: Source) -> Result:
        key = id(source)
        found = kept.get(key)
        if found is None:
            gone = weakref.ref(source, lambda _: kept.pop(key, None))
            found = kept[key] = gone, build(source)
        return found[1]

    return recall
