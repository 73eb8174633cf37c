"""bash as the command line of a switch that is a Linux machine: Cumulus and SONiC.

A refusal is an exit status or a text, since a few commands print an error and exit 0. Many lines
can go as one request: a chain that ends at the first command that fails.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from components.core.errors import Bug
from components.fabric.systems.base import Script
from components.remote.session_profile import SessionProfile

SESSION: Final = SessionProfile(
    # `cumulus@leaf-01:mgmt:~$ `: the VRF of the login is between host and folder. SONiC has none:
    # `admin@leaf-01:~$ `.
    prompt=r"(?P<own>[^@\r\n]*@[\w.-]+:(?:[\w-]+:)?[^\s$#]*)[$#] ",
    # A dumb terminal gets neither colours nor bracketed paste, and nothing pages.
    prepare=("export TERM=dumb PAGER=cat",),
    has_status=True,
)
LONGEST_ARGUMENT: Final = 131_071
"""Characters of one argument of a Linux program, here of `bash -c` (execve's manual page)."""
_STATUS: Final = re.compile(r"^\[status (?!0\])[^\]]*\]$", re.MULTILINE)
"""What the session appends for an exit status other than 0."""


def find_refusal(
    output: str, errors: Iterable[str], shorten: Callable[[str], str] = lambda text: text
) -> str | None:
    """The error in what a command printed, on one line, or None.

    Args:
        output: What it printed, with the mark of its exit status where that is not 0.
        errors: Texts of failures that exit with 0.
        shorten: Finds the part of a refusal that says why.
    """
    failed = _STATUS.search(output)
    if failed is None and not any(text in output for text in errors):
        return None
    text = " ".join(shorten(_STATUS.sub("", output)).split())
    return text or (failed.group(0) if failed else output)


def render_chain(lines: Sequence[str]) -> str:
    """Lines as one request; each goes as it is.

    Raises:
        Bug: A line that is no `Script` would be more than plain words to a shell.
    """
    for line in lines:
        if not isinstance(line, Script) and shlex.join(shlex.split(line)) != line:
            raise Bug(f"the line {line!r} is more than plain words to a shell")
    return " &&\n".join(lines)


def mark_chain(text: str, mark: str) -> str:
    """The same request with a comment in front."""
    return f"# {mark}\n{text}"
