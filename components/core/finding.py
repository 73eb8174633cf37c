"""`Finding`: one thing that a site or the machine that runs it lacks, as a look found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["problem", "unreachable", "warning"]
"""`problem`: an update would be refused or fail. `unreachable`: the look had no answer, so nothing
is known. `warning`: an update works, and something is not as it should be."""
GOOD: Final = 0
PROBLEMS: Final = 1
UNREACHABLE: Final = 4
"""Exit codes, as everywhere in the command line."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one device, in values."""

    device: str
    """As the file names it; `this machine` for the one that runs Railyard."""
    cause: str
    """What kind of lack it is, for example `clock`: a report joins the devices that share it."""
    what: str
    """One sentence without the device, the same words for each device that shares the cause."""
    actual: str
    wanted: str
    fix: str
    severity: Severity = "problem"


def exit_code(findings: tuple[Finding, ...]) -> int:
    """0: nothing to do but warnings, 1: problems, 4: a device gave no answer (4 wins over 1)."""
    found = {finding.severity for finding in findings}
    if "unreachable" in found:
        return UNREACHABLE
    return PROBLEMS if "problem" in found else GOOD
