"""What the look before an update found beside ours, as the evidence of its proof has it.

The look is the update's own, so that acceptance opens no session more.
"""

from __future__ import annotations

from components.acceptance.seen import Seen
from components.core.beside import Beside


class BesideSeen(Seen):
    """One setting that is not ours and breaks our traffic, on one device."""

    device: str
    kind: str
    """As the file names it under `guards`."""
    setting: str
    """`rewrite_dscp of port 1/1`."""
    actual: str
    harmless: str
    breaks: str
    fix: str


def as_seen(device: str, beside: Beside) -> BesideSeen:
    """One finding of a look, for the evidence."""
    found = beside.found
    return BesideSeen(
        device=device,
        kind=beside.kind,
        setting=f"{found.setting} of {found.where}",
        actual=found.actual,
        harmless=found.desired,
        breaks=beside.breaks,
        fix=beside.fix,
    )
