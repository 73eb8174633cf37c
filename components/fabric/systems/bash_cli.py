"""bash as the command line of Linux switches: Cumulus and SONiC.

A refusal is an exit status or a text, since a few commands print an error and exit 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from components.remote.session_profile import SessionProfile

SESSION: Final = SessionProfile(
    # `cumulus@leaf-01:mgmt:~$ `: the VRF of the login is between host and folder. SONiC omits it:
    # `admin@leaf-01:~$ `.
    prompt=r"(?P<own>[^@\r\n]*@[\w.-]+:(?:[\w-]+:)?[^\s$#]*)[$#] ",
    # A dumb terminal gets neither colours nor bracketed paste, and nothing pages.
    prepare=("export TERM=dumb PAGER=cat",),
    has_status=True,
)
_STATUS: Final = re.compile(r"^\[status (?!0\])[^\]]*\]$", re.MULTILINE)
"""The mark that the session appends for an exit status other than 0."""


def find_refusal(
    output: str, errors: Iterable[str], shorten: Callable[[str], str] = lambda text: text
) -> str | None:
    """The error in the output of a command, on one line, or None."""
    failed = _STATUS.search(output)
    if failed is None and not any(text in output for text in errors):
        return None
    text = " ".join(shorten(_STATUS.sub("", output)).split())
    return text or (failed.group(0) if failed else output)
