"""What the story demands, and how a broken demand reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.verdict import Finding
from components.core.errors import RailyardError
from lab.vm.snapshot import Noise, Snapshot, compare

_WITH: Final = {"module.rdma_cm": frozenset({"rdma_cm", "iw_cm", "ib_cm", "ib_core"})}
"""Setting that undo may leave to the module and those that it needs (modinfo)."""
_SHOWN: Final = 40
"""Lines of a difference that are shown."""


class StoryError(RailyardError):
    """A guest is not as the story demands."""


def require_nothing(what: str, found: Collection[str]) -> None:
    """Demand that nothing was found.

    Raises:
        StoryError: Something was, and all of it.
    """
    if found:
        raise StoryError(f"{what}: {'; '.join(found)}")


def require_named(
    name: str, wanted: Collection[str], seen: Mapping[str, str], may_follow: str = "$never"
) -> None:
    """Demand that a look found just the settings that were changed by hand.

    Args:
        name: The guest.
        wanted: The settings.
        seen: Setting to words, as found.
        may_follow: Pattern of settings that may have changed with them.

    Raises:
        StoryError: One was not seen, or another one was.
    """
    missed = sorted(set(wanted) - set(seen))
    more = sorted(
        words
        for key, words in seen.items()
        if key not in wanted and not re.fullmatch(may_follow, key)
    )
    if missed or more:
        raise StoryError(
            f"{name}: not seen: {', '.join(missed) or 'none'};"
            f" seen and not done: {'; '.join(more) or 'none'}"
        )


def require_as_before(
    name: str, before: Snapshot, after: Snapshot, passed_over: Collection[Noise] = ()
) -> None:
    """Demand that a guest is as it was.

    Raises:
        StoryError: It is not, and where.
    """
    found = compare(before, after, passed_over)
    if found:
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise StoryError("\n".join([f"{name} is not as before:", *found[:_SHOWN], *more]))


def left_modules(left: Collection[str]) -> frozenset[str]:
    """The modules that stay loaded because undo left one that is in use."""
    return frozenset[str]().union(*(_WITH.get(key, frozenset()) for key in left))


def describe_findings(judged: tuple[ProbeEvidence, Sequence[Finding]]) -> list[str]:
    """One line a finding."""
    return [f"{each.check}: {each.verdict}: {each.text}" for each in judged[1]]
