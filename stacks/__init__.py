"""One stack per environment; `run` is the whole program of `__main__.py`."""

from __future__ import annotations

from components.core.start import start_quickly


def run() -> None:
    """Run the program of the stack that the engine named."""
    start_quickly()
    from stacks.program import run as run_program  # noqa: PLC0415 - the quick start comes first

    run_program()


__all__ = ["run"]
