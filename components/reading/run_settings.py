"""The switches of a stack beside the site itself: `railyard:observe` and its like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.core.errors import SpecError

SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "observe": ("always", "never"),
    "accept": ("changed", "always", "never", "canary"),
    "lab": ("false", "true"),
}
"""Name to what it may be; the first is the default. docs/reference/cli.md says what each does."""


def choose_setting(name: str, from_environment: str, from_stack: str) -> str:
    """Decide the value of one switch: the environment wins, so that no run edits the file.

    Args:
        name: Its name, without `railyard:`.
        from_environment: The value of `RAILYARD_<NAME>`; empty without one.
        from_stack: The value in the stack's configuration; empty without one.

    Raises:
        SpecError: It is none of the values that there are.
    """
    choices = SETTINGS[name]
    value = from_environment or from_stack or choices[0]
    if value not in choices:
        source = f"RAILYARD_{name.upper()}" if from_environment else f"railyard:{name}"
        raise SpecError(
            f"{source} cannot be {value!r}. Nothing was touched.\n"
            f"  fix    choose one of: {', '.join(choices)}."
        )
    return value
