"""Reads the output of DeepSpeed's communication benchmarks (`benchmarks/communication`).

Their throughput counts the data twice for an all-reduce; only the bus bandwidth means the same as
that of nccl-tests, in bits. Sizes are taken from the description (elements by bytes), because the
size column rounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from components.acceptance.logs.failures import find_launched_failures
from components.acceptance.logs.lines import split_lines
from components.acceptance.logs.log_model import DeepSpeedLog, DeepSpeedRow, ParseProblem
from components.acceptance.logs.nccl_factor import bus_factor

_HEAD = re.compile(r"-{4}\s*Performance of\s+(\w+)\s+on\s+(\d{1,7})\s+devices")
_COLUMNS = re.compile(r"Size \(Bytes\)\s+Description\s+Duration\s+Throughput.*BusBW \((\w+)\)")
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

    def feed(self, line: str) -> None:
        if head := _HEAD.search(line):
            self.collective, self.devices = head[1], int(head[2])
        elif columns := _COLUMNS.search(line):
            self.scale = _BITS if columns[1] == "GBps" else 1.0
        elif name := _RESOLVED.search(line):
            self.resolved.append(name[1])
        elif _MEMORY.search(line):
            self.out_of_memory = True
        elif self.devices:
            self._feed_row(line)

    def _feed_row(self, line: str) -> None:
        match = _ROW.search(line)
        row = self._row(match) if match else None
        if row is not None:
            self.rows.append(row)
        elif _ROW_START.search(line):
            self.bad.append(line.strip()[:200])

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


def parse_deepspeed_log(text: str) -> DeepSpeedLog | ParseProblem:
    """Reads a log; a row whose numbers contradict each other is a bad row.

    Args:
        text: The launcher's whole output.
    """
    if not text.strip():
        return ParseProblem(kind="empty", what="the log is empty")
    lines = split_lines(text)
    reader = _Reader()
    for line in lines:
        reader.feed(line)
    failures = find_launched_failures(lines)
    if not (reader.devices or reader.resolved or failures):
        return ParseProblem(
            kind="unrecognised",
            what="no table of DeepSpeed's benchmarks is in it; is it the log of another program?",
        )
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
