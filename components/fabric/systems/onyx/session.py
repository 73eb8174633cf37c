"""The command line that Onyx and MLNX-OS share: modes, errors, saving."""

from __future__ import annotations

import re
from typing import Final

ENTER: Final = ("enable",)
CONFIGURE: Final = ("configure terminal",)
SAVE: Final = "configuration write"

_REFUSAL: Final = re.compile(r"^\r?(%.*(?:\n(?!\s*$)[^%\n].*)*)", re.MULTILINE)
"""A line that starts with `%`, and the hint under it (Ansible's terminal_stderr_re)."""


def find_refusal(output: str) -> str | None:
    """The error in what a command printed, or None; exit statuses mean nothing here."""
    found = _REFUSAL.search(output)
    return found.group(1).strip() if found else None
