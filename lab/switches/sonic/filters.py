"""`grep` and `xargs`, as far as people and chains of commands use them at a switch: pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

Filtered = tuple[str, int]
"""What is printed, and the exit status."""
_BASIC: Final = re.compile(r"([|(){}+?])")
"""Characters that mean themselves in a basic pattern."""
XARGS_FAILED: Final = 123
"""Exit status of xargs where a command that it ran has failed (its manual page)."""


def grep(words: list[str], given: str) -> Filtered:
    """`grep -q -x -v -c -E -F PATTERN` on what a pipe brings; 1 where no line is found."""
    flags = {letter for word in words[:-1] for letter in word.removeprefix("-")}
    pattern = words[-1]
    if "F" in flags:
        pattern = re.escape(pattern)
    elif "E" not in flags:
        pattern = _BASIC.sub(r"\\\1", pattern)
    search = re.compile(pattern).fullmatch if "x" in flags else re.compile(pattern).search
    found = [line for line in given.splitlines() if (search(line) is None) == ("v" in flags)]
    status = 0 if found else 1
    if "c" in flags:
        return f"{len(found)}\n", status
    return ("" if "q" in flags else "".join(f"{line}\n" for line in found)), status


def xargs(words: list[str], given: str, run: Callable[[list[str]], Filtered]) -> Filtered:
    """`xargs -r -n 1 COMMAND…`: once for each word that a pipe brings."""
    if words[:3] != ["-r", "-n", "1"]:
        return f"xargs: the lab does not know {' '.join(words)}\n", 1
    printed, failed = "", False
    for item in given.split():
        text, status = run([*words[3:], item])
        printed += text if not text or text.endswith("\n") else f"{text}\n"
        failed = failed or status != 0
    return printed, XARGS_FAILED if failed else 0
