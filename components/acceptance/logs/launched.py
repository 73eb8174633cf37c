"""Reading the log of a program that a launcher started on many hosts, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from components.acceptance.logs.causes import FailureFinder
from components.acceptance.logs.lines import read_lines
from components.acceptance.logs.log_model import LogFailure, ParseProblem


class Reader(Protocol):
    """What gets the lines of one program."""

    finder: FailureFinder

    def feed(self, line: str) -> None:
        """Take one line, without the launcher's tag."""
        ...

    @property
    def is_known(self) -> bool:
        """A line of the program was read."""
        ...


def feed_all(
    reader: Reader, source: str | Iterable[str], lacks: str
) -> tuple[LogFailure, ...] | ParseProblem:
    """Feed a log to its reader: the failures that it tells, or why it is no log of the program.

    Args:
        reader: Gets every line.
        source: The launcher's whole output, or its pieces in order.
        lacks: What a log of another program lacks: `no table of DeepSpeed's benchmarks`.
    """
    is_empty = True
    for _, line in read_lines(source):
        is_empty = False
        reader.feed(line)
    if is_empty:
        return ParseProblem(kind="empty", what="the log is empty")
    failures = tuple(reader.finder.failures)
    if reader.is_known or failures:
        return failures
    what = f"{lacks} is in it; is it the log of another program?"
    return ParseProblem(kind="unrecognised", what=what)
