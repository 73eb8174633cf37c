"""Reads the result tables of nccl-tests, of any column set: by their header, not by position.

Eras and their columns: the older `error` and the newer `#wrong`; `redop` and `root` come and go;
`-I` adds per-iteration columns, `-S` a time stamp. Numbers are recomputed, so that a row into which
another rank wrote is found and not believed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from components.acceptance.logs.lines import strip_row_labels
from components.acceptance.logs.log_model import Measure, NcclRow

_HEADER = re.compile(r"^\s*#\s+size\s+count\s+type\b(.*)$")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_ROW_START = re.compile(r"^\s*[0-9]{1,18}\s+[0-9]{1,18}\s+[a-z]\w*\b")
_TYPES = frozenset(
    (
        "int8",
        "uint8",
        "char",
        "int32",
        "uint32",
        "int",
        "int64",
        "uint64",
        "half",
        "float",
        "double",
        "bfloat16",
        "f8e4m3",
        "f8e5m2",
        "fp8_e4m3",
        "fp8_e5m2",
    )
)
_NUMBER = re.compile(r"^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$|^nan$|^N/A$", re.IGNORECASE)
_RELATIVE_SLACK = 0.02
_ABSOLUTE_SLACK_GB_S = 0.011
"""Bandwidths are printed with two decimals."""


@dataclass(slots=True)
class Table:
    """A reader of the tables of one log; feed it line by line."""

    columns: tuple[str, ...] = ()
    tables: int = 0
    rows: list[NcclRow] = field(default_factory=list[NcclRow])
    bad_rows: list[str] = field(default_factory=list[str])
    _pending: str = ""

    def feed(self, line: str) -> bool:
        """Takes a line; True when it was part of a table."""
        header = _HEADER.match(line)
        if header:
            self.columns = ("size", "count", "type", *header[1].split())
            self.tables += 1
            return True
        if not self.columns:
            return False
        if _ROW_START.match(line):
            return self._feed_row(strip_row_labels(line))
        if self._pending and _is_numbers(line.split()):
            joined, self._pending = f"{self._pending} {line}", ""
            return self._feed_row(strip_row_labels(joined))
        return False

    def finish(self) -> None:
        """Ends the table: a row that was begun and never finished is a bad row."""
        if self._pending:
            self.bad_rows.append(self._pending)
            self._pending = ""

    def _feed_row(self, line: str) -> bool:
        words = _STAMP.sub("", line).split()
        if words[2] not in _TYPES:
            return False
        self.finish()
        names = list(self.columns)
        if len(words) == len(names) - 1 and "redop" in names and _is_numbers(words[3:4]):
            names.remove("redop")
        if len(words) < len(names) and "time" in names and len(words) <= names.index("time"):
            # nccl-tests prints the start of a row before it measures; the rest comes later.
            self._pending = line.strip()
            return True
        row = parse_row(names, words)
        if row is None:
            self.bad_rows.append(line.strip())
        else:
            self.rows.append(row)
        return True


def parse_row(names: list[str], words: list[str]) -> NcclRow | None:
    """One row by its column names; None when it does not fit them or contradicts itself."""
    if len(words) != len(names):
        return None
    size = int(words[0])
    starts = [index for index, name in enumerate(names) if name in ("time", "cpu_time")]
    halves = [_parse_half(names, words, start) for start in starts]
    whole = [half for half in halves if half is not None and agrees(size, half)]
    if not whole or len(whole) != len(halves):
        return None
    return NcclRow(
        size_bytes=size, out_of_place=whole[0], in_place=whole[1] if len(whole) > 1 else None
    )


def _parse_half(names: list[str], words: list[str], start: int) -> Measure | None:
    values: dict[str, str] = {}
    for name, word in zip(names[start:], words[start:], strict=True):
        if name in values:
            break
        values[name] = word
    numbers = {name: _number(word) for name, word in values.items()}
    time, algbw, busbw = numbers.get("time"), numbers.get("algbw"), numbers.get("busbw")
    if time is None or algbw is None or busbw is None:
        return None
    wrong = numbers.get("#wrong")
    return Measure(
        time_us=time,
        algbw_gb_s=algbw,
        busbw_gb_s=busbw,
        wrong=None if wrong is None else round(wrong),
        error=numbers.get("error"),
    )


def agrees(size: int, half: Measure) -> bool:
    """Bandwidth is size over time; a row that says otherwise was cut, mixed or edited."""
    if half.time_us <= 0:
        return size == 0
    expected = size / half.time_us / 1e3
    slack = max(_RELATIVE_SLACK * expected, _ABSOLUTE_SLACK_GB_S)
    return abs(half.algbw_gb_s - expected) <= slack


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_numbers(words: list[str]) -> bool:
    return bool(words) and all(_NUMBER.match(word) for word in words)
