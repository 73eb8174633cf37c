"""One stack per environment; `run` is the whole program of `__main__.py`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from components.core.start import start_quickly

if TYPE_CHECKING:
    from components.plan.make import Part
    from stacks.guard import Guarded


def run() -> None:
    """Run the program of the stack that the engine named."""
    start_quickly()
    from stacks.program import run as run_program  # noqa: PLC0415 - the quick start comes first

    run_program()


def guarded(
    site: Path | None = None, parts: Collection[Part] = ("switches", "hosts", "cluster")
) -> Guarded:
    """Check a site for a program of your own, as the whole program does (`stacks.guard.guarded`).

    Args:
        site: The site file; by default the one in the stack's configuration.
        parts: The parts of the site that the program sets up.

    Raises:
        RunError: The site is wrong, or an update must not start. No device was changed.
    """
    start_quickly()
    from stacks.guard import guarded as guard  # noqa: PLC0415 - the quick start comes first

    return guard(site, parts)


__all__ = ["guarded", "run"]
