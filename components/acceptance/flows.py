"""How many connections tell whether every link between two leaves is used. Pure."""

from __future__ import annotations

from typing import Final

FLOWS: Final = (16, 32, 64, 128)
"""Connections that a test may have: for 2, 4, 8 and 16 links. With more than these a test of five
seconds would be one of setting up connections."""
_RARE: Final = 0.01
"""How likely it may be that some link gets none, although each connection is hashed fairly."""


def is_telling(flows: int, links: int) -> bool:
    """Whether a link without one of so many connections is more than chance."""
    return links > 1 and links * (1 - 1 / links) ** flows < _RARE


def flows_for(links: int) -> int:
    """The least number that tells; 1 where there is one link, or too many."""
    return next((flows for flows in FLOWS if is_telling(flows, links)), 1)
