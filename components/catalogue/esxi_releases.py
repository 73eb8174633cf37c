"""ESXi releases, and which of them can let two devices reach each other through ATS.

The boot option is `atsSupport` from 7.0 U2 on, with the default FALSE there and TRUE from 7.0 U3
on; 7.0 and 7.0 U1 have another one, `vtdAtsSupport`, and 6.x has none. Source: William Lam's
exports of the kernel settings, one a build (sources.md#esxi).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_RELEASE: Final = re.compile(
    r"(?P<major>\d{1,2})\.(?P<minor>\d)(?:\.(?P<patch>\d))?(?:U(?P<update>\d)[a-z]?)?"
)
AtsSupport = Literal["absent", "other_option", "off_by_default", "on_by_default"]


@dataclass(frozen=True, slots=True, order=True)
class EsxiRelease:
    """A release without its build: 7.0 U2 is (7, 0, 2)."""

    major: int
    minor: int
    update: int

    @property
    def text(self) -> str:
        """As a host's answer to `esxcli system version get` is written: `7.0U2`, `8.0`."""
        return f"{self.major}.{self.minor}" + (f"U{self.update}" if self.update else "")

    @property
    def ats(self) -> AtsSupport:
        """What the release knows of ATS."""
        if self >= DEFAULT_ATS:
            return "on_by_default"
        if self >= FIRST_ATS:
            return "off_by_default"
        return "other_option" if self.major == FIRST_ATS.major else "absent"


FIRST_ATS: Final = EsxiRelease(7, 0, 2)
DEFAULT_ATS: Final = EsxiRelease(7, 0, 3)


def parse_release(text: str) -> EsxiRelease | None:
    """Read `7.0U2`, `7.0.2`, `7.0U3d` or `8.0`; None for anything else."""
    found = _RELEASE.fullmatch(text)
    if found is None or (found["patch"] and found["update"]):
        return None
    update = int(found["update"] or found["patch"] or 0)
    return EsxiRelease(int(found["major"]), int(found["minor"]), update)
