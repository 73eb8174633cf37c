"""The shell texts of the Kubernetes room, and files as lines of a step's stdin."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def script_text(name: str) -> str:
    """One script of `scripts/`, by its name without `.sh`."""
    folder = resources.files("components.kubernetes")
    return folder.joinpath("scripts", f"{name}.sh").read_text("utf-8")


def numbered_lines(file: str, text: str) -> dict[str, str]:
    """A file as lines of a step's stdin, which a preview then shows line by line.

    With their count: a line that somebody added at the end is drift too.
    """
    lines = text.splitlines()
    numbered = {f"{file}.{number:02}": line for number, line in enumerate(lines, 1)}
    return {**numbered, f"{file}.lines": str(len(lines))}
