"""What a slip in a sound site is: the site, the edit, and what is to be told of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.checks.cases import CLEAN, ROOT

SPINES: Final = (ROOT / "examples" / "spine-leaf" / "site.yaml").read_text(encoding="utf-8")
SMALL: Final = CLEAN.read_text(encoding="utf-8")
Edit = Callable[[str], str]


@dataclass(frozen=True)
class Wrong:
    """A sound site, a slip in it, what is told of that, and the edit that the fix asks for."""

    site: str
    slip: Edit
    rule: str
    says: str
    """Words of the problem."""
    fix: str
    """Words of the fix."""
    mend: Edit
    severity: str = "error"


def swap(*pairs: tuple[str, str]) -> Edit:
    """Replace texts, each of which is there, everywhere."""

    def edit(text: str) -> str:
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        return text

    return edit


def each(pattern: str, new: str) -> Edit:
    return lambda text: re.sub(pattern, new, text)


def add_to(**lines: str) -> Edit:
    """Lines of a switch, below its release; `leaf_01` is leaf-01."""

    def edit(text: str) -> str:
        for name, line in lines.items():
            head = f"  - name: {name.replace('_', '-')}\n    os: cumulus\n    model: SN5600\n"
            assert head in text
            text = text.replace(head, f"{head}{line}\n")
        return text

    return edit
