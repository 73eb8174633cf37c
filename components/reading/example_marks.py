"""Values that are still an example's: lines with the mark that `railyard init` writes."""

from __future__ import annotations

import re
from typing import Final

from components.core.problem import Place, Problem

MARK: Final = "# CHANGE: "
"""Begins the comment on a line whose value a person has to change, and then takes away."""
RULE: Final = "example-value"
_LINE: Final = re.compile(rf"^(?P<value>.*\S)\s+{re.escape(MARK)}(?P<words>.*\S)\s*$")


def find_marks(text: str, file: str) -> tuple[Problem, ...]:
    """One problem for each kind of value that is marked, with all of its lines."""
    places: dict[str, list[Place]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if MARK in line and (found := _LINE.match(line)) and not line.lstrip().startswith("#"):
            place = Place((), found["value"].strip().removeprefix("- "), file, number)
            places.setdefault(found["words"], []).append(place)
    return tuple(
        Problem(
            RULE,
            f"{len(where)} line{' is' if len(where) == 1 else 's are'} marked as the example's.",
            tuple(where),
            f"write {words}; then delete the comment `{MARK.strip()} …`.",
        )
        for words, where in places.items()
    )
