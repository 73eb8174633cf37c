"""Routed links without a session, as the evidence of a proof has them."""

from __future__ import annotations

from typing import Literal

from components.acceptance.seen import Seen
from components.core.beside import LostWay


class RoutingSeen(Seen):
    """One routed link on the way of a probe, as its switch was asked after it."""

    device: str
    where: str
    """`port swp31`, or `switch`."""
    what: str
    fix: str
    """What to ask next on the switch."""
    kind: Literal["lost", "unread", "unsaid"] = "lost"


def as_routing(device: str, lost: LostWay) -> RoutingSeen:
    """One finding, for the evidence."""
    return RoutingSeen(
        device=device, where=lost.where, what=lost.what, fix=lost.fix, kind=lost.kind
    )
