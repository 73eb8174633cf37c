"""What a change of one setting does to the traffic that runs now."""

from __future__ import annotations

from enum import IntEnum


class Effect(IntEnum):
    """The worst that a change does while it is made, in ascending order.

    A setting without a written effect counts as `LINK`.
    """

    NONE = 0
    """Running traffic does not notice."""
    CLASS = 1
    """Running traffic keeps flowing, in another class, or with other marks or drops."""
    TRAFFIC = 2
    """A port stops carrying something that it carried: a VLAN, a route, a bundle, a partition."""
    LINK = 3
    """A link goes down, if only for a moment, or we cannot prove that it stays up."""
    NODE = 4
    """A machine has to be drained, or restarts."""

    def __str__(self) -> str:
        """The word of pages and messages: `link`."""
        return self.name.lower()

    @property
    def interrupts(self) -> bool:
        """Whether `disruption` has to allow it."""
        return self >= Effect.TRAFFIC
