"""The meanings of log lines: one row of a table for each class of failure, and the search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from components.acceptance.logs.log_model import LogFailure

_LONGEST_LINE: Final = 300
_MOST_FAILURES: Final = 40
"""One broken link makes every rank complain; the first lines are enough."""
_MOST_WARNINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Cause:
    """One row of a table.

    Attributes:
        pattern: Text in the line. Parts that may be long are bounded.
        kind: A short name of the class of failure.
        meaning: Its usual meaning, and the place to look at.
        late: It follows from a failure elsewhere.
        since: The first release of NCCL with one of its texts; empty for programs other than NCCL.
        until: The last one.
    """

    pattern: re.Pattern[str]
    kind: str
    meaning: str
    late: bool = False
    since: str = ""
    until: str = ""


def cause(pattern: str, kind: str, meaning: str, *, late: bool = False) -> Cause:
    """One row, with its pattern as text."""
    return Cause(re.compile(pattern), kind, meaning, late)


HARMLESS: Final = "harmless"
"""The kind of lines that look like failures but come from good runs."""
_GAVE_UP: Final = frozenset({"nccl_failure", "unhandled", "framework", "aborted", "test_failure"})
"""Kinds of lines that only say that NCCL gave up."""


_HINTS: Final = (
    "ail", "down", "evice", "rror", "warn", "xit", "bort", "ill", "imeout", "imed out",
    "iming out", "ignal", "closed", "reset", "lost", "oom", "emory", "not ", "noticed", "sync ",
    "xid", "fell off", "lockup", "stall", "blocked", "efused", "enied", "enough", "term",
    "cancel", "due to", "fault", "nvalid", "able to", "ersions", "rc=", "rc:", "code=",
    "deadline", "backoff", "victed", "errimage", "core dumped", "unreach", "eof", "below",
    "ouldn't", "idn't", "atchdog", "unrecog", "traceback", "fatal", "exceeded", "onnected",
    "unexpected", "erminat", "unhandled", "limit", "orte", "prte", "health", "required", "ssh:",
    "kex_", "eturn", "double free", "gpus", "got ", "does not", "addr_", "wrong", "no socket",
    "socketprogress",    "retcode", "no such", "was unable", "zero",
    "no active", "no roce", "disconnect", "memlimit", "runlimit", "speed change", "mixed",
    "cqe", "probing", "resiliency", "outstanding", "duplicate gpu", "uniqueid",
    "prevstate", "different number", "already filled", "as root", "algorithm/",
    "corrupt", "alloc()", "free()", "chunk()", "received s",
    "using the same", "net/mlx: call", "no usable", "no transport", "no interface", "mismatch",
)  # fmt: skip
"""A line without any of these, in small letters, matches no row: a cheap look before the
patterns."""


_WITHOUT_DIGITS: Final = str.maketrans("", "", "0123456789")


def has_hint(line: str) -> bool:
    """Whether a line may match a table; cached by its text without numbers."""
    return _has_hint(line.translate(_WITHOUT_DIGITS))


@lru_cache(maxsize=4096)
def _has_hint(shape: str) -> bool:
    lowered = shape.lower()
    return any(hint in lowered for hint in _HINTS)


@dataclass(slots=True)
class FailureFinder:
    """Searches a log line by line.

    Attributes:
        tables: The rows, in their order: the first that fits a line names it.
        warning: A line with this text that fits no row is a warning of unknown meaning.
        started: The run has begun. Launcher messages before it do not tell how the run ends.
        names: Names of hosts, which the search skips.
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
        if kinds & _GAVE_UP and kinds <= {*_GAVE_UP, "comm_abort", "rank_failed", "scheduler"}:
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
        places = {name: pattern.search(line) for name, pattern in _PLACES.items()}
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


_PLACES: Final = {
    "host": re.compile(
        r"^([\w.-]{1,253}):\d{1,12}:\d{1,12} \[|\bon node ([\w.-]{1,253})"
        r"|\bsrun: error: ([\w.-]{1,253}):|^([\w.-]{1,253}): Test \w{2,9} failure"
    ),
    "device": re.compile(
        r"NET/IB ?: ([\w.-]{1,64}:\d{1,4}) |\bhca ([\w.-]{1,64}(?::\d{1,4})?)"
        r"|\bdev(?:ice)?[ =:]{1,2}([a-z][a-z\d]{1,20}_\w{1,20}(?::\d{1,4})?)"
    ),
    "peer": re.compile(
        r"\bpeer ((?!posted)[^\s,]{1,300})|\b[Cc]onnect(?:ion)? to (?:host )?([^\s,]{1,300})"
        r"|\b(?:recv|send) (?:from |to )?([\w.:-]{1,280}<\d{1,5}>)"
    ),
}
"""Patterns for the place of a failure in a line; the first that fits counts."""


def first_cause(failures: Iterable[LogFailure]) -> LogFailure | None:
    """The first failure that is not just a consequence of another; else the first."""
    every = list(failures)
    causes = [failure for failure in every if not failure.is_consequence]
    return next(iter(causes or every), None)
