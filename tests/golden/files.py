"""Golden files: what the plan of an example is expected to be, line by line.

`RAILYARD_GOLDENS=1 pytest …` writes them anew; look at the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """Compare a text with its golden file."""
    path = FOLDER / name
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: RAILYARD_GOLDENS=1 pytest writes it"
    assert text == path.read_text()
