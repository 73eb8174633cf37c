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

    def run() -> None:
        if sys.argv[1:2] == ["check"] and files and not options and not completes:
            from components.cli.check_files import check_files  # noqa: PLC0415 - Typer is slow

            sys.exit(check_files(files))
        from components.cli.group import app  # noqa: PLC0415 - Typer is slow to import

        app(prog_name="railyard")

    guard(run)
