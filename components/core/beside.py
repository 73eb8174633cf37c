"""`Beside`: a setting that is not ours, and what of our traffic it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.core.difference import Difference
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


@dataclass(frozen=True, slots=True, order=True)
class Beside:
    """One setting beside ours, as a look at a device found it."""

    kind: str
    """What sort of setting it is, as the file names it under `guards`: `switch.schedule`."""
    found: Difference
    """Where it is and its value; what is wanted is the value that does no harm."""
    breaks: str
    """What suffers, of which traffic: `losslessness of priority 3`."""
    fix: str
    """How to mend it on the device, in its own words, or in the file."""

    @property
    def setting(self) -> str:
        """What it is and what would do no harm, safe for a terminal."""
        found = self.found
        return one_line(
            f"{found.setting} of {found.where} is {found.actual}, harmless is {found.desired}"
        )

    def __str__(self) -> str:
        """The words of drift, previews and reports, which the engine prints too."""
        rest = f"not ours, and it breaks {self.breaks}; fix: {self.fix}"
        return f"{self.setting}; {one_line(rest)}"
