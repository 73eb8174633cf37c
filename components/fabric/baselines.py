"""Where an imported baseline waits for the step that records it."""

from __future__ import annotations

from pathlib import Path


def baseline_file(stack: str, device: str) -> Path:
    """The imported baseline of one switch; mostly there is none."""
    return Path(".railyard") / stack / "baseline" / f"{device}.json"
