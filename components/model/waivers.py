"""Rules that a site goes without, each with the reason why."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import StringConstraints

RULE_NAME: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
REASON: Final = r"\S"
LONGEST_REASON: Final = 300
"""Characters: a reason fits on one line of each report."""

RuleName: TypeAlias = Annotated[str, StringConstraints(pattern=RULE_NAME)]
Reason: TypeAlias = Annotated[
    str, StringConstraints(pattern=REASON, max_length=LONGEST_REASON, strip_whitespace=True)
]
Waivers: TypeAlias = dict[RuleName, Reason]
