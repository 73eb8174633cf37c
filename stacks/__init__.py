"""One stack per environment; `run` is the whole program of `__main__.py`."""

from __future__ import annotations

from stacks.program import run

__all__ = ["run"]
