"""The program `railyard`."""

from __future__ import annotations

import os
import sys

from components.cli.say import guard


def main() -> None:
    """Run one command; `check FILE…` without options starts without Typer, an eighth faster."""
    files = sys.argv[2:]
    options = [each for each in files if each.startswith("-") and each != "-"]
    completes = "_RAILYARD_COMPLETE" in os.environ
    if sys.argv[1:2] == ["check"] and files and not options and not completes:
        guard(lambda: _check(files))
    else:
        guard(_run)


def _check(files: list[str]) -> None:
    from components.cli.check_files import check_files  # noqa: PLC0415 - after `guard` has begun

    sys.exit(check_files(files))


def _run() -> None:
    from components.cli.group import app  # noqa: PLC0415 - Typer is slow to import

    app(prog_name="railyard")
