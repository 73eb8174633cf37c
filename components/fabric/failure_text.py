"""What an exchange that failed says: what was taken, what comes of it, and the values. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from components.core.difference import ABSENT
from components.core.errors import UnreachableError
from components.fabric.candidate import Candidate
from components.fabric.setting_text import group_settings
from components.fabric.state import SwitchState


def lost_text(error: UnreachableError, taken: Sequence[str], candidate: Candidate) -> str:
    """What a session that is lost in the middle leaves, and what comes of it."""
    lines = "\n          ".join(taken) or "none"
    guard = candidate.guard
    end = "the next run goes on from what is there"
    if guard is not None and candidate.stage != "none":
        end = f"the switch itself takes back what was in force within {guard.rollback_s} s"
    return (
        f"{error}\n  result  the session was lost while the switch was changed; not saved, and"
        f" {end}\n  taken   {lines}"
    )


def values_text(before: SwitchState, target: SwitchState, after: SwitchState | None) -> str:
    """What was to change, or has changed: the value of before, the wanted one, and that of now."""
    was, wanted = before.settings(), target.settings()
    now = after.settings() if after else {}
    words: dict[tuple[str, str], str] = {}
    for key in sorted({*was, *wanted}):
        old, end = was.get(key, ABSENT), now.get(key, ABSENT) if after else "not known"
        if wanted.get(key, old) != old or (after and end != old):
            words[key] = f"was {old}, shall be {wanted.get(key, old)}, is {end}"
    return "\n".join(f"    {line}" for line in group_settings(words, {}))
