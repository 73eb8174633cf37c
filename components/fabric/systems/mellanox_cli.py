"""The command line that Onyx and MLNX-OS share: login, modes, errors, saving."""

from __future__ import annotations

import re
from typing import Final

from components.remote.session_profile import SessionProfile

ENTER: Final = ("enable",)
CONFIGURE: Final = ("configure terminal",)
SAVE: Final = "configuration write"
SESSION: Final = SessionProfile(
    # `HOST [standalone: master] (config) # `; the host name may be empty (public captures).
    prompt=r"\S* ?\[[^\]\r\n]+\] (?:\([^)\r\n]*\) )?[>#] $",
    prepare=("no cli session paging enable",),
    keyboard_first=True,
)

_REFUSAL: Final = re.compile(r"^\r?(%.*(?:\n(?!\s*$)[^%\n].*)*)", re.MULTILINE)
"""A line that starts with `%`, and the hint under it (Ansible's terminal_stderr_re)."""


def find_refusal(output: str) -> str | None:
    """The error in what a command printed, or None; exit statuses mean nothing here."""
    found = _REFUSAL.search(output)
    return found.group(1).strip() if found else None
