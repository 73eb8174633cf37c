"""`__main__.py` under the recording engine."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Final

from components import testing
from components.testing import Graph, Run

ROOT: Final = Path(__file__).parents[2]


def record_main(run: Run) -> Graph:
    """Run `__main__.py`, whatever comes of it, and return what it registered."""
    return testing.record_program(run, _main)


def record_refusal(run: Run) -> tuple[str, Graph]:
    """Run `__main__.py` of a site that it must refuse; return its words and what it registered."""
    return testing.record_refusal(run, _main)


def _main() -> None:
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
