"""Golden files: what is made of an example, line by line.

`make goldens` writes them; read the difference before you keep it.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

FOLDER = Path(__file__).parent
_SHOWN = 60
"""Lines of a difference that a failure shows: more than one cause has."""


def check_golden(name: str, text: str) -> None:
    """Compare a text with its golden file."""
    path = FOLDER / name
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: `make goldens` writes it"
    recorded = path.read_text()
    if text != recorded:
        changed = [*unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", n=1)]
        shown = "\n".join(line.rstrip("\n") for line in changed[:_SHOWN])
        raise AssertionError(f"{name} is other than recorded:\n{shown}")
