"""One setting of one device that is not as wanted: the unit of every diff, drift and preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.core.plain_text import one_line


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A setting whose actual value differs from the wanted one."""

    where: str
    """What the setting belongs to, in the field's words: `port 1/2`, `nic 0000:05:00.0`."""
    setting: str
    """Name with its unit: `mtu_bytes`."""
    actual: str
    """The value on the device; `absent` where there is none."""
    desired: str

    def __str__(self) -> str:
        """The words of previews, drift reports and repair notes, which the engine prints too."""
        return one_line(f"{self.setting} of {self.where} is {self.actual}, want {self.desired}")


ABSENT = "absent"


def diff_settings(
    actual: Mapping[tuple[str, str], str], desired: Mapping[tuple[str, str], str]
) -> tuple[Difference, ...]:
    """Compare two flat states over the keys that are wanted.

    Args:
        actual: (where, setting) to value, as observed; may hold more than is wanted.
        desired: (where, setting) to value; keys outside it are not ours and never reported.
    """
    return tuple(
        Difference(where, setting, actual.get((where, setting), ABSENT), value)
        for (where, setting), value in sorted(desired.items())
        if actual.get((where, setting), ABSENT) != value
    )
