"""Print for people, and end with a report instead of a traceback; without Typer, which is slow."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from errno import EPIPE
from typing import Final

from components.core.errors import RailyardError, UsageError
from components.core.plain_text import plain_text
from components.core.start import start_quickly

INTERRUPTED: Final = 130
"""128 + SIGINT, as a shell reports it."""
_USAGE: Final = 2
_OURS: Final = (__name__.partition(".")[0], "stacks", "lab")
_COLOURS: Final = (
    (r"(?m)^(?:FAILED|ERROR)\b|\bdrift:|^[a-z0-9-]+:(?= .*\n  where)", 31),
    (r"(?m)^[a-z0-9-]+ \(warning\):|^(?:SKIPPED|WARNING)\b", 33),
    (r"(?m)^PASSED\b|\bno problems\b|^  fix\b", 32),
)
"""The words of reports that get a colour of ECMA-48: red, yellow and green."""


def say(text: str, *, nl: bool = True, err: bool = False, paint: bool = False) -> None:
    """Print a text without control characters; `paint` colours a report on a terminal."""
    shown, file = plain_text(text), sys.stderr if err else sys.stdout
    if file is None:  # closed by `>&-`: nothing is printed, as with `print`
        return
    # A terminal shows colours, unless a variable says that it does not (no-color.org).
    no_colour = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if paint and file.isatty() and not no_colour:
        for words, colour in _COLOURS:
            shown = re.sub(words, f"\x1b[{colour}m\\g<0>\x1b[0m", shown)
    try:
        file.write(f"{shown}\n" if nl else shown)
        file.flush()
    except OSError as error:
        if err or error.errno == EPIPE:  # `| head` has read enough
            raise
        raise UsageError(f"the output cannot be written: {error.strerror}") from error


def guard(call: Callable[[], object]) -> None:
    """Run a program; a user's mistake ends with a report and an exit code."""
    start_quickly()
    try:
        call()
    except RailyardError as error:
        say(str(error), err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in _OURS:
            raise
        fix = "fix    install the extra for sites: pip install 'railyard-rdma[site]'"
        say(f"this command needs the Python package {error.name}, which is not installed.\n  {fix}",
            err=True)  # fmt: skip
        sys.exit(_USAGE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
