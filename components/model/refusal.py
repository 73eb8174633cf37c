"""How a type refuses a value of its field: what is wrong with it, and how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic_core import PydanticCustomError

REFUSED: Final = "refused_value"
"""The type of such an error, among pydantic's own."""


def refuse(what: str, fix: str, known: Sequence[str] = ()) -> PydanticCustomError:
    """Make the error of a type that says more than a pattern could.

    Args:
        what: One clause on the value, without a full stop; the report puts the path before it.
        fix: One sentence on what to write.
        known: Right values, of which the report names the nearest one.
    """
    return PydanticCustomError(REFUSED, "{what}", {"what": what, "fix": fix, "known": list(known)})
