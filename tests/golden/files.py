"""Golden files: what the plan of an example is expected to be, line by line.

`RAILYARD_GOLDENS=1 pytest …` writes them anew; look at the difference before you keep it.
"""

from __future__ import annotations

import hashlib
import os
import re
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


LONG_PLAN = 250_000
"""Characters of a plan above which its repetitions are recorded as a digest: nobody reads the
sixteenth host."""


def abridge(plan: str) -> str:
    """A long plan with one whole section of each kind; of the next ones the heading and a digest.

    Sections are of one kind if their headings differ in numbers alone. A change in a digest is
    readable in the first section of its kind, or in the plan that `railyard plan` prints.
    """
    if len(plan) <= LONG_PLAN:
        return plan
    head, *sections = plan.split("\n## ")
    seen: set[str] = set()
    kept = [head]
    for section in sections:
        heading, _, body = section.partition("\n")
        kind = re.sub(r"\d+", "0", heading)
        digest = hashlib.sha256(body.encode()).hexdigest()[:12]
        short = f"# {body.count(chr(10)) + 1} lines, sha256 {digest}"
        kept.append(f"{heading}\n{short if kind in seen else body}")
        seen.add(kind)
    return "\n## ".join(kept) + ("" if kept[-1].endswith("\n") else "\n")
