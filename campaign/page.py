"""The table of runs in `campaign/README.md`, which the campaign writes itself."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from campaign.history import INVARIANTS
from campaign.run import Outcome

PAGE: Final = Path(__file__).with_name("README.md")
HEAD: Final = "| Tier | Seeds | Played | Failed | By invariant | Seconds | Day | Commit |"
"""The heading of the table of runs: rows are written below it."""


def write_row(tier: int, first: int, last: int, outcome: Outcome, took_s: float) -> None:
    """Add one run; a run of the same tier and seeds is written over."""
    lines = PAGE.read_text().splitlines()
    at = lines.index(HEAD) + 2
    begin = f"| {tier} | {first} to {last} |"
    row = render_row(tier, first, last, outcome, took_s, _commit())
    kept = [line for line in lines[at:] if not line.startswith(begin)]
    PAGE.write_text("\n".join([*lines[:at], row, *kept]) + "\n")


def render_row(
    tier: int, first: int, last: int, outcome: Outcome, took_s: float, commit: str
) -> str:
    """One row of the table."""
    by = ", ".join(f"{number}: {len(found)}" for number, found in sorted(outcome.failures.items()))
    day = datetime.now(UTC).date().isoformat()
    cells = (tier, f"{first} to {last}", outcome.played, outcome.failed_seeds, by or "none")
    return f"| {' | '.join(map(str, cells))} | {took_s:.0f} | {day} | {commit} |"


def _commit() -> str:
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def known_invariants() -> tuple[int, ...]:
    """The numbers that the page must explain."""
    return (*INVARIANTS,)
