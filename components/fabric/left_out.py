"""Keys of a switch's state that are written only where they say something."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field


def _is_none(value: object) -> bool:
    return value is None


def _is_empty(value: object) -> bool:
    return not value


SAID: Final[Any] = Field(exclude_if=_is_none)
"""Of a key that only some systems have: where it says nothing it is not written, so that the inputs
of the steps of other switches stay as they are."""
FILLED: Final[Any] = Field(exclude_if=_is_empty)
"""The same of a key that says nothing where it is empty."""
