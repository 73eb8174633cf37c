"""Settings of one device that differ from the plan or endanger it, and the impact of changes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal

from components.core.plain_text import one_line
from components.core.record import record

ABSENT = "absent"


class Effect(IntEnum):
    """The worst that a change does while it is made, in ascending order.

    A setting without a written effect counts as `LINK`.
    """

    NONE = 0
    """Running traffic does not notice."""
    CLASS = 1
    """Running traffic keeps flowing, in another class, or with other marks or drops."""
    TRAFFIC = 2
    """A port loses traffic that it carried: a VLAN, a route, a bundle, a partition."""
    LINK = 3
    """A link goes down, if only for a moment, or Railyard cannot prove that it stays up."""
    NODE = 4
    """A machine has to be drained, or restarts."""

    def __str__(self) -> str:
        """The word of pages and messages: `link`."""
        return self.name.lower()

    @property
    def interrupts(self) -> bool:
        """Whether `disruption` has to allow it."""
        return self >= Effect.TRAFFIC


@record
class Difference:
    """A setting whose actual value differs from the wanted one; reports in JSON have its fields."""

    where: str
    """The owner of the setting, in the field's words: `port 1/2`, `nic 0000:05:00.0`."""
    setting: str
    """Name with its unit: `mtu_bytes`."""
    actual: str
    """The value on the device, or `absent`."""
    desired: str

    def __str__(self) -> str:
        """The words of previews, drift reports and repair notes, which the engine prints too."""
        return one_line(f"{self.setting} of {self.where} is {self.actual}, want {self.desired}")

    def __lt__(self, other: Difference) -> bool:
        """Sort by place, then by setting."""
        mine = (self.where, self.setting, self.actual, self.desired)
        return mine < (other.where, other.setting, other.actual, other.desired)


def diff_settings(
    actual: Mapping[tuple[str, str], str], desired: Mapping[tuple[str, str], str]
) -> tuple[Difference, ...]:
    """Compare two flat states over the wanted keys.

    `actual` may hold more keys than wanted: they do not belong to Railyard and are never reported.
    """
    moved = sorted(key for key, value in desired.items() if actual.get(key, ABSENT) != value)
    return tuple(Difference(*key, actual.get(key, ABSENT), desired[key]) for key in moved)


@record
class RoutingFault:
    """A routed link of a switch whose BGP differs from the file or is unknown."""

    where: str
    """`port swp31`, or `switch`."""
    what: str
    """`BGP with spine-01:swp1 is Idle, not Established`."""
    fix: str
    """The next command on the switch."""
    kind: Literal["lost", "unread", "unsaid"] = "lost"
    """`unread`: the sessions are unknown. `unsaid`: they are known, but one fact about them is
    missing."""

    def __str__(self) -> str:
        """The words of drift and previews."""
        return one_line(f"{self.where}: {self.what}; next: {self.fix}")


@record
class ForeignSetting:
    """One setting outside the plan that harms its traffic, as read from a device."""

    kind: str
    """The kind of setting, as the file names it under `guards`: `switch.schedule`."""
    found: Difference
    """Its place and its value; `desired` is the value that does no harm."""
    breaks: str
    """The harm, and the traffic that suffers it: `losslessness of priority 3`."""
    fix: str
    """How to correct it on the device, in its own words, or in the file."""

    def __lt__(self, other: ForeignSetting) -> bool:
        """Sort by kind, then by place."""
        return (self.kind, self.found) < (other.kind, other.found)

    @property
    def setting(self) -> str:
        """Name the setting, its value and the harmless value, safe for a terminal."""
        found, harmless = self.found, f"harmless is {self.found.desired}"
        return one_line(f"{found.setting} of {found.where} is {found.actual}, {harmless}")

    def __str__(self) -> str:
        """The words of drift, previews and reports, which the engine prints too."""
        rest = f"outside the plan, and it breaks {self.breaks}; fix: {self.fix}"
        return f"{self.setting}; {one_line(rest)}"
