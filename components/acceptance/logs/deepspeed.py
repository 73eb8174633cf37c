"""Reads the output of DeepSpeed's communication benchmarks (`benchmarks/communication`).

Their throughput counts the data twice for an all-reduce; only the bus bandwidth means the same as
that of nccl-tests, in bits. Sizes are taken from the description (elements by bytes), because the
size column rounds. A log is read line by line, in memory that does not grow with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.logs.causes import FailureFinder
from components.acceptance.logs.failures import launched_finder
from components.acceptance.logs.launchers import feed_all
from components.acceptance.logs.log_model import DeepSpeedLog, DeepSpeedRow, ParseProblem
from components.acceptance.logs.nccl_table import bus_factor

_HEAD = re.compile(r"-{4}\s*Performance of\s+(\w+)\s+on\s+(\d{1,7})\s+devices")
_COLUMNS = re.compile(r"Size \(Bytes\)\s+Description\s+Duration.*Throughput.*BusBW \((\w+)\)")
_ROW = re.compile(
    r"(?:[\d.]{1,20} ?[KMGT]?B|\d{1,18})\s+(?P<count>\d{1,18})x(?P<bytes>\d{1,3})\s+"
    r"(?P<duration>[\d.]{1,20})(?: (?P<unit>us|ms))?\s+[\d.]{1,20}\s+(?P<busbw>[\d.]{1,20})\s*$"
)
_ROW_START = re.compile(r"(?:[\d.]{1,20} ?[KMGT]?B|\d{1,18})\s+\d{1,18}x\d{1,3}\b")
_RESOLVED = re.compile(r"railyard: (\S+) resolves to \S+")
_MEMORY = re.compile(r"Ran out of GPU memory")
_BITS = 8
_US_PER_MS = 1e3
_RELATIVE_SLACK = 0.02
_ABSOLUTE_SLACK_GBIT_S = 0.02
"""Durations and bandwidths are printed with three decimals."""


_COUNT = re.compile(r"\dx\d")
"""Elements by bytes: a cheap look before the patterns of a row."""
_MOST_ROWS: Final = 20_000
_MOST_BAD_ROWS: Final = 20
_MOST_NAMES: Final = 100_000


@dataclass(slots=True)
class _Reader:
    """What was found so far."""

    collective: str = ""
    devices: int = 0
    scale: float = 1.0
    rows: list[DeepSpeedRow] = field(default_factory=list[DeepSpeedRow])
    bad: list[str] = field(default_factory=list[str])
    resolved: list[str] = field(default_factory=list[str])
    out_of_memory: bool = False
    finder: FailureFinder = field(default_factory=launched_finder)
    _rows_before: int = 0
    """Rows, readable or not, before the table that is open."""

    def feed(self, line: str) -> None:
        self.finder.feed(line)
        if "Performance of" in line and (head := _HEAD.search(line)):
            self.end_table()
            self.collective, self.devices = head[1], int(head[2])
        elif "BusBW" in line and (columns := _COLUMNS.search(line)):
            self.scale = _BITS if columns[1] == "GBps" else 1.0
        elif "resolves to" in line and (name := _RESOLVED.search(line)):
            if len(self.resolved) < _MOST_NAMES:
                self.resolved.append(name[1])
        elif "GPU memory" in line and _MEMORY.search(line):
            self.out_of_memory = True
        elif self.devices and _COUNT.search(line):
            self._feed_row(line)

    @property
    def is_known(self) -> bool:
        """The head of a table, or a name that our launcher looked up, was read."""
        return bool(self.devices or self.resolved)

    def end_table(self) -> None:
        """A table without a row was cut, though another one may have some."""
        count = len(self.rows) + len(self.bad)
        if self.devices and self.rows and count == self._rows_before:
            self._add_bad(f"the table of {self.collective} has no row")
            count += 1
        self._rows_before = count

    def _feed_row(self, line: str) -> None:
        match = _ROW.search(line)
        row = self._row(match) if match else None
        if row is None:
            if _ROW_START.search(line):
                self._add_bad(line.strip())
        elif len(self.rows) < _MOST_ROWS:
            self.rows.append(row)
        else:
            self._add_bad(f"more than {_MOST_ROWS} rows")

    def _add_bad(self, text: str) -> None:
        if len(self.bad) < _MOST_BAD_ROWS:
            self.bad.append(text[:200])

    def _row(self, match: re.Match[str]) -> DeepSpeedRow | None:
        size = int(match["count"]) * int(match["bytes"])
        duration_us = _number(match["duration"]) * (_US_PER_MS if match["unit"] == "ms" else 1.0)
        busbw = _number(match["busbw"]) * self.scale
        if duration_us <= 0:
            return None
        expected = size * _BITS / duration_us / 1e3 * bus_factor(self.collective, self.devices)
        slack = max(_RELATIVE_SLACK * expected, _ABSOLUTE_SLACK_GBIT_S)
        if abs(busbw - expected) > slack:
            return None
        return DeepSpeedRow(size_bytes=size, duration_us=duration_us, busbw_gbit_s=busbw)


def parse_deepspeed_log(source: str | Iterable[str]) -> DeepSpeedLog | ParseProblem:
    """Reads a log; a row whose numbers contradict each other is a bad row."""
    reader = _Reader()
    failures = feed_all(reader, source, "no table of DeepSpeed's benchmarks")
    if isinstance(failures, ParseProblem):
        return failures
    reader.end_table()
    return DeepSpeedLog(
        collective=reader.collective,
        devices=reader.devices,
        rows=tuple(reader.rows),
        bad_rows=tuple(reader.bad),
        out_of_memory=reader.out_of_memory,
        resolved=tuple(reader.resolved),
        failures=failures,
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
