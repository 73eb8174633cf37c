"""What ibdiagnet prints: its table of stages, its errors, the masters and adaptive routing.

Forms: docs/explanation/sources.md#infiniband-diagnostics, a capture of ibdiagnet 2.7.0.
"""

from __future__ import annotations

import re
from typing import Final

from components.acceptance.seen import Seen

_HEAD: Final = re.compile(r"^-I- Stage\s+Warnings\s+Errors\s+Comment\s*$", re.MULTILINE)
_ROW: Final = re.compile(r"^-I- (\S.*?)\s{2,}(\d+)\s+(\d+)(?:\s+(\S.*?))?\s*$")
_ERROR: Final = re.compile(r"^-E- (.*?)\s*$", re.MULTILINE)
_FINISHED: Final = re.compile(r"finished with errors$")
_MASTER: Final = re.compile(r"^Master SM:.*?GUID=0x([0-9a-f]+).*?Priority:(\d+)", re.MULTILINE)
_ADAPTIVE: Final = re.compile(r"^Adaptive Routing is enabled on (\d+) switch", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^IB Switches\s*:\s*(\d+)", re.MULTILINE)
_LINKS: Final = re.compile(r"^Links at (\d+)x([\d.]+)\s*:\s*(\d+)", re.MULTILINE)
_MOST_ERRORS: Final = 20
"""Lines that are kept: a broken spine prints one for each of its links."""
_MOST_COLUMNS: Final = 300


class Stage(Seen):
    """One row of the table at the end."""

    name: str
    warnings: int
    errors: int
    comment: str = ""


class Links(Seen):
    """Links of one width and one lane's speed."""

    lanes: int
    lane_gbit_s: float
    count: int

    @property
    def rate_gbit_s(self) -> float:
        """Rate of one such link."""
        return self.lanes * self.lane_gbit_s


class Diagnosis(Seen):
    """One run of ibdiagnet."""

    stages: tuple[Stage, ...]
    errors: tuple[str, ...]
    """The first lines that name an error."""
    master_guid: str = ""
    """16 hexadecimal digits; empty where it names no master."""
    master_priority: int | None = None
    switches: int | None = None
    adaptive_switches: int | None = None
    """Switches on which adaptive routing is on; None where it was not asked."""
    links: tuple[Links, ...] = ()


def parse_ibdiagnet(text: str) -> Diagnosis | None:
    """Read one run; None without the table at its end: such a run says nothing."""
    head = _HEAD.search(text)
    if head is None:
        return None
    rows = (_ROW.match(line) for line in text[head.end() :].splitlines())
    stages = tuple(
        Stage(name=row[1], warnings=int(row[2]), errors=int(row[3]), comment=row[4] or "")
        for row in rows
        if row is not None
    )
    master, adaptive, switches = (each.search(text) for each in (_MASTER, _ADAPTIVE, _SWITCHES))
    errors = [line for line in _ERROR.findall(text) if not _FINISHED.search(line)]
    return Diagnosis(
        stages=stages,
        errors=tuple(line[:_MOST_COLUMNS] for line in errors[:_MOST_ERRORS]),
        master_guid=f"{int(master[1], 16):016x}" if master else "",
        master_priority=int(master[2]) if master else None,
        switches=int(switches[1]) if switches else None,
        adaptive_switches=int(adaptive[1]) if adaptive else None,
        links=tuple(
            Links(lanes=int(lanes), lane_gbit_s=float(speed), count=int(count))
            for lanes, speed, count in _LINKS.findall(text)
        ),
    )
