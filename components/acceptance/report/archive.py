"""Where acceptance keeps its logs, evidence and reports on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from components.acceptance.evidence import Evidence, parse_evidence

FOLDER: Final = Path(".railyard")
"""Logs, evidence and reports by stack and run; not kept in git."""
EVIDENCE: Final = "evidence.json"


def run_folder(stack: str, run: int) -> Path:
    """Where one run's logs and report lie."""
    return FOLDER / stack / f"run-{run:04d}"


def latest_evidence(stack: str) -> Evidence | None:
    """The evidence of a stack's last run on this machine."""
    runs = sorted((FOLDER / stack).glob(f"run-*/{EVIDENCE}"))
    return parse_evidence(runs[-1].read_text()) if runs else None
