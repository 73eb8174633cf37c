"""`__main__.py` under the recording engine."""

from __future__ import annotations

import runpy
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from components import testing
from components.testing import Graph, Run
from tests.graph.locked import locked

ROOT: Final = Path(__file__).parents[2]


def record_main(run: Run, *, fetched: bool = True) -> Graph:
    """Run `__main__.py`, whatever comes of it, and return what it registered.

    A stack that is not of the lab has a lock.

    Args:
        run: The site.
        fetched: Whether the charts of its lock are on this machine.
    """
    with nullcontext() if "lab" in run.config else locked(run, fetched=fetched):
        return testing.record_program(run, _main)


def record_refusal(run: Run, *, lock: bool = False, fetched: bool = True) -> tuple[str, Graph]:
    """Run `__main__.py` of a site that it must refuse; return its words and what it registered.

    Args:
        run: The site.
        lock: Whether it has a lock.
        fetched: Whether the charts of that are on this machine.
    """
    with locked(run, fetched=fetched) if lock else nullcontext():
        return testing.record_refusal(run, _main)


def _main() -> None:
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
