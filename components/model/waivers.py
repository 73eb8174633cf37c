"""Rules that a site goes without, each with the reason why."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import StringConstraints

from components.model.texts import LineText

RULE_NAME: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"

RuleName: TypeAlias = Annotated[str, StringConstraints(pattern=RULE_NAME)]
Waivers: TypeAlias = dict[RuleName, LineText]
