"""The finding on a run that failed, whatever ran: the first cause that its log names."""

from __future__ import annotations

from collections.abc import Sequence

from components.acceptance.judge.verdict import Finding
from components.acceptance.logs.causes import first_cause
from components.acceptance.logs.log_model import LogFailure


def find_failure(failures: Sequence[LogFailure], subject: str) -> Finding | None:
    """A finding for the first cause of failure that a log names, or None."""
    cause = first_cause(failures)
    if cause is None:
        return None
    return Finding(
        check="run",
        subject=subject,
        verdict="failed",
        expected="a run without errors",
        actual=f"{cause.kind}: {cause.line}",
        detail=f"the first cause among {len(failures)} failure lines",
        next_step=f"look for: {cause.meaning}",
    )
