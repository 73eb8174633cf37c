"""How each switch system calls its ports: one entry a system, and nothing else knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PortNaming:
    """The names of one system."""

    pattern: re.Pattern[str]
    """Group `whole` is the port, group `part` what a split adds to it."""
    first: str
    last: str
    """With `{count}` for the number of ports."""
    split: str
    """The first part of the first port, for people."""
    first_part: int
    """Number of the first part of a split port."""

    def whole_of(self, name: str) -> str | None:
        """The port on the front panel that a name stands for or is a part of, or None."""
        found = self.pattern.fullmatch(name)
        return found["whole"] if found else None

    def parts_needed(self, name: str) -> int:
        """Into how many parts a port is split at least if it has this part; 1 for a whole one."""
        found = self.pattern.fullmatch(name)
        part = found["part"] if found else None
        return 1 if not part else int(part[1:]) - self.first_part + 1

    def describe(self, count: int) -> str:
        """The names of a switch with that many ports, for people."""
        last = self.last.format(count=count)
        return f"{self.first} to {last}, split ones {self.split} and so on"


PORT_NAMINGS: Final[dict[str, PortNaming]] = {
    # Onyx: `1/31`, split `1/31/1`; sources.md#onyx (grammar of the collection's modules).
    "onyx": PortNaming(
        re.compile(r"(?P<whole>[1-9]\d*/[1-9]\d*)(?P<part>/[1-8])?"), "1/1", "1/{count}", "1/1/1", 1
    ),
    # Cumulus: `swp31`, split `swp31s0` to `s7` (sources.md#cumulus, page "Switch Port Attributes").
    "cumulus": PortNaming(
        re.compile(r"(?P<whole>swp[1-9]\d*)(?P<part>s[0-7])?"), "swp1", "swp{count}", "swp1s0", 0
    ),
}
"""By switch system."""
