"""The failure texts of NCCL, nccl-tests, perftest and of launchers: the tables of failures.yaml.

NCCL: its sources and issue threads (2.4-2.30). perftest: the sources of linux-rdma/perftest at its
tags v4.5-0.2 to 26.04.17 (20 tags): no text disappeared in between. Tests compare both with
nccl_words.tsv and perftest_words.tsv of tests/acceptance/recorded. Launchers: Open MPI 4 and 5
(PRRTE), MPICH's hydra, Slurm's srun and slurmstepd, PBS, LSF, OpenSSH, kubectl, the kubelet and
runc, Docker compose, systemd, torchrun and Linux. All are collected in lab/sources.md#logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from components.acceptance.logs.log_model import LogFailure
from components.core.templates import read_table

_LONGEST_LINE: Final = 300
_MOST_FAILURES: Final = 40
"""One broken link makes every rank complain; the first lines are enough."""
_MOST_WARNINGS: Final = 20
HARMLESS: Final = "harmless"
"""The kind of lines that look like failures but come from good runs."""
_GAVE_UP_KINDS: Final = frozenset(
    {"nccl_failure", "unhandled", "framework", "aborted", "test_failure"}
)
"""Kinds of lines that only say that NCCL gave up."""
COMM_ABORT: Final = "comm_abort"
"""PyTorch also ends good runs in this way (recorded, 2.11): it counts only in a log of
nccl-tests."""
_ENDED_KINDS: Final = frozenset({COMM_ABORT, "rank_failed", "scheduler"})
_WITHOUT_DIGITS: Final = str.maketrans("", "", "0123456789")


@dataclass(frozen=True, slots=True)
class Cause:
    """One row of a table: a class of failure; `late` if it follows from a failure elsewhere."""

    pattern: re.Pattern[str]
    kind: str
    meaning: str
    late: bool


def has_hint(line: str) -> bool:
    """Whether a line may match a table; cached by its text without numbers."""
    return _has_hint(line.translate(_WITHOUT_DIGITS))


@lru_cache(maxsize=4096)
def _has_hint(shape: str) -> bool:
    lowered = shape.lower()
    return any(hint in lowered for hint in read_table(__file__, "failures")["hints"])


@dataclass(slots=True)
class FailureFinder:
    """Searches a log line by line; the first row of its tables that fits a line names it.

    A line with the text `warning` that fits no row is a warning of unknown meaning. Before the run
    has `started`, launchers' messages do not tell how it ends. The search skips names of hosts.
    """

    tables: Sequence[Cause]
    warning: str = ""
    started: bool = True
    names: set[str] = field(default_factory=set[str])
    failures: list[LogFailure] = field(default_factory=list[LogFailure])
    warnings: dict[str, None] = field(default_factory=dict[str, None])

    def feed(self, line: str) -> None:
        """Takes a line."""
        if not has_hint(line):
            return
        shown = line
        for name in self.names:
            shown = shown.replace(name, "-")
        for row in self.tables:
            if row.pattern.search(shown):
                if row.kind != HARMLESS:
                    self.add(row.kind, line, row.meaning, late=row.late)
                return
        if self.warning and self.warning in line and len(self.warnings) < _MOST_WARNINGS:
            self.warnings[line.strip()[:_LONGEST_LINE]] = None

    def explained(self) -> tuple[LogFailure, ...]:
        """The failures; if they only say that NCCL gave up, its unknown warnings come first."""
        kinds = {each.kind for each in self.failures if not each.is_before_run}
        if kinds & _GAVE_UP_KINDS and kinds <= _GAVE_UP_KINDS | _ENDED_KINDS:
            told, self.failures = self.failures, []
            for line in self.warnings:
                self.add("nccl_warning", line, "NCCL warned before it gave up")
            self.failures += told
        return tuple(self.failures)

    def add(self, kind: str, line: str, meaning: str, *, late: bool = False) -> None:
        """Takes down a failure."""
        # A waiting loop may fill only its own part of the list, not that of the run.
        part = [each for each in self.failures if each.is_before_run is not self.started]
        if len(part) >= _MOST_FAILURES and (late or not all(each.is_consequence for each in part)):
            return
        places = {name: pattern.search(line) for name, pattern in _places().items()}
        self.failures.append(
            LogFailure(
                kind=kind,
                line=line.strip()[:_LONGEST_LINE],
                meaning=meaning,
                is_consequence=late,
                is_before_run=not self.started,
                **{name: found[found.lastindex or 0] for name, found in places.items() if found},
            )
        )


def first_cause(failures: Iterable[LogFailure]) -> LogFailure | None:
    """The first failure that is not just a consequence of another; else the first."""
    every = list(failures)
    causes = [failure for failure in every if not failure.is_consequence]
    return next(iter(causes or every), None)


@cache
def _places() -> Mapping[str, re.Pattern[str]]:
    found: Mapping[str, list[str]] = read_table(__file__, "failures")["places"]
    return {name: re.compile("|".join(patterns)) for name, patterns in found.items()}


@cache
def causes_of(table: str) -> tuple[Cause, ...]:
    """The rows of a table: `nccl`, `launchers`, `launched` or `perftest`."""
    return tuple(
        Cause(re.compile("|".join(row["lines"])), row["kind"], row["means"], row.get("late", False))
        for row in read_table(__file__, "failures")[table]
    )


def nccl_finder() -> FailureFinder:
    """Find failures in the messages of NCCL, nccl-tests, their launchers and their hosts."""
    return FailureFinder(causes_of("nccl") + causes_of("launchers"), warning="NCCL WARN")


def launched_finder() -> FailureFinder:
    """Looks for the failures of a program that launchers start on other hosts, and of its NCCL."""
    nccl = tuple(row for row in causes_of("nccl") if row.kind != COMM_ABORT)
    return FailureFinder((*nccl, *causes_of("launched"), *causes_of("launchers")))


def perftest_finder() -> FailureFinder:
    """Find failures in the messages of perftest, its launchers and its hosts."""
    return FailureFinder(causes_of("perftest") + causes_of("launchers"))
