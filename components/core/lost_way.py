"""A routed link that does not carry what the file says: found on a switch, shown by all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.core.plain_text import one_line


@dataclass(frozen=True, slots=True)
class LostWay:
    """A routed link of a switch whose BGP is not as the file says, or is not known."""

    where: str
    """`port swp31`, or `switch`."""
    what: str
    """`BGP with spine-01:swp1 is Idle, not Established`."""
    fix: str
    """What to ask next on the switch."""
    kind: Literal["lost", "unread", "unsaid"] = "lost"
    """`unread`: nothing is known. `unsaid`: the sessions are, and one thing of them is not."""

    def __str__(self) -> str:
        """The words of drift and previews."""
        return one_line(f"{self.where}: {self.what}; next: {self.fix}")
