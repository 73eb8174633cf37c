"""Reads the result tables of nccl-tests, of any column set: by their header, not by position.

Eras and their columns: the older `error` and the newer `#wrong`; `redop` and `root` come and go;
`-I` adds per-iteration columns, `-S` a time stamp. A row is a sequence of cells, wherever it begins
in a line and over however many lines of its rank it goes: nccl-tests prints its start before it
measures, and launchers tag each part. Numbers are computed again, which finds a row into which
another rank wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.logs.lines import last_digit, number
from components.acceptance.logs.log_model import Measure, NcclRow

_TYPE_BYTES: Final[Mapping[str, int]] = {
    "int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "half": 2, "bfloat16": 2, "float16": 2, "int32": 4, "uint32": 4, "int": 4, "float": 4,
    "int64": 8, "uint64": 8, "double": 8,
}  # fmt: skip
"""Types of nccl-tests (src/common.cu, `test_typenames`, old and new) and their widths."""
_TYPES = "|".join(sorted(_TYPE_BYTES, key=len, reverse=True))
_HEADER = re.compile(r"#?\s{1,40}size\s{1,40}count\s{1,40}type\b")
_COLUMN = re.compile(r"\s{1,80}(#?[a-z_]\w{0,20}%?)(?=\s|$)")
_ROW_START = re.compile(
    rf"(?<![\d.])(\d{{1,18}})(?:\s|\[\d{{1,6}}\]){{1,40}}(\d{{1,18}})(?:\s|\[\d{{1,6}}\]){{1,40}}"
    rf"({_TYPES})(?=\s|$|\[\d)"
)
_NUMBER = r"-?(?:(?:0|[1-9]\d{0,18})(?:\.\d{0,9})?|\.\d{1,9})(?:[eE][+-]?\d{1,3})?|N/A|-?nan|-?inf"
_CELL = re.compile(
    rf"(?:\s|\[\d{{1,6}}\](?=\s)){{0,80}}(?:({_NUMBER})(?![\d.])|([a-z_]{{1,20}})(?=\s|$))"
)
_NEXT_NUMBER = re.compile(rf"\s{{1,80}}(?:{_NUMBER})(?=\s|$)")
_CONTINUED = re.compile(rf"\s{{0,80}}(?:[\w.-]{{1,253}}:\s{{1,20}})?(?=(?:{_NUMBER})(?![\w:]))")
_LEFT_OUT = re.compile(
    r"\s*(?:\[?(?:\.\s?){3,}\]?|\[?…\]?|\[?<?(?:snip|snipped|truncated)>?\]?)\s*$"
)
_MOST_ROWS: Final = 20_000
"""A table has a row for each size: some forty for each type and operation."""
_MOST_BAD_ROWS: Final = 20
_KEPT: Final = 300
_ROUNDING: Final = ((1e3, 0.0051), (1e4, 0.051), (math.inf, 0.51))
"""Bandwidths below a limit, and half of their last printed digit."""
_RELATIVE_SLACK: Final = 0.002
"""Relative difference in addition to rounding: the recorded logs differ by at most 0.3 %, mostly
because of rounding."""
_TWICE: Final = frozenset({"all_reduce"})
"""Reduced once around the ring and spread once around it."""
_WHOLE: Final = frozenset({"broadcast", "reduce", "sendrecv", "hypercube", "pt2pt"})
"""One rank's data goes as it is (broadcast.cu, reduce.cu, sendrecv.cu), or the rank's own part is
left out of the bandwidth already (hypercube.cu)."""
_PROCESSOR_TIME: Final = "cputime"
"""The column that `-C 1` prints instead of the time: the processor's time, which does not grow with
the size."""
_TIMES: Final = frozenset({"time", _PROCESSOR_TIME})
_AT_REDOP: Final = 3
"""Cells before the column `redop`."""
_TYPE_STARTS: Final = (
    "float", "double", "half", "bfloat", "f8e", "fp8_", " int", " uint", " char", "\tint", "]int",
)  # fmt: skip


@dataclass(slots=True)
class _Pending:
    stream: str
    cells: list[str]
    text: str = ""


@dataclass(slots=True)
class Table:
    """A reader of the tables of one run; feed it line by line."""

    columns: tuple[str, ...] = ()
    share: float | None = 1.0
    """Share of a size that counts for its bandwidth: hypercube_perf leaves out the rank's own part.
    None: unknown."""
    is_open: bool = False
    """Whether rows may come: a header came, and its footer did not come yet."""
    tables: int = 0
    rows: list[NcclRow] = field(default_factory=list[NcclRow])
    bad_rows: list[str] = field(default_factory=list[str])
    _pending: _Pending | None = None
    _prefix: str = ""
    """The text before the header: a collector puts it before each line."""

    def feed(self, stream: str, line: str) -> Iterator[str]:
        """Takes a line; yields its parts outside of a table."""
        text, pending = line, self._pending
        if pending and pending.stream == stream:
            shown = text.removeprefix(self._prefix)
            start = _CONTINUED.match(shown)
            if start and not _ROW_START.match(shown, start.end()):
                text = self._take_cells(pending, shown, start.end())
        if "type" in text and (header := _HEADER.search(text)):
            yield from self._take_header(text, header)
            return
        while start := _ROW_START.search(text) if has_type(text) else None:
            if start.start():
                yield text[: start.start()]
            self._end_row()
            self._pending = _Pending(stream, [*start.groups()])
            text = self._take_cells(self._pending, text[start.start() :], len(start[0]))
        if self.is_open and _LEFT_OUT.match(text):
            self._add_bad(f"rows are left out: {text.strip()}")
        elif text.strip():
            yield text

    def finish(self) -> None:
        """Ends the table."""
        self._end_row()
        self.is_open = False

    def _end_row(self) -> None:
        if self._pending:
            self._add_bad(self._pending.text)
            self._pending = None

    def _take_header(self, text: str, header: re.Match[str]) -> Iterator[str]:
        self._end_row()
        self._prefix = text[: header.start()]
        names = ["size", "count", "type"]
        end = header.end()
        while column := _COLUMN.match(text, end):
            names.append("#wrong" if column[1] == "wrong" else column[1])
            end = column.end()
        self.columns, self.is_open = tuple(names), True
        self.tables += 1
        for part in (text[: header.start()], text[end:]):
            if part.strip():
                yield part

    def _take_cells(self, pending: _Pending, text: str, end: int) -> str:
        names, known = list(self.columns), "".join(pending.cells[_AT_REDOP : _AT_REDOP + 1])
        if "redop" in names and (known == "N/A" or number(known) is not None):
            names.remove("redop")
        while len(pending.cells) < len(names) and (cell := _CELL.match(text, end)):
            if names[len(pending.cells)] == "redop" and cell[1]:
                # Rows of hypercube and of old alltoall lack this column of the header.
                names.remove("redop")
            if (names[len(pending.cells)] == "redop") == (cell[2] is None):
                break
            pending.cells.append(cell[cell.lastindex or 0])
            end = cell.end()
        pending.text = f"{pending.text} {text[:end].strip()}".strip()
        if len(pending.cells) == len(names):
            self._pending = None
            more = _NEXT_NUMBER.match(text, end) and not _ROW_START.match(text[end:].lstrip())
            row = None if more else parse_row(names, pending.cells, self.share)
            if row is not None and len(self.rows) < _MOST_ROWS:
                self.rows.append(row)
            else:
                self._add_bad(f"more than {_MOST_ROWS} rows" if row else pending.text)
        return text[end:]

    def _add_bad(self, text: str) -> None:
        if len(self.bad_rows) < _MOST_BAD_ROWS:
            self.bad_rows.append(" ".join(text.split())[:_KEPT])


def has_type(text: str) -> bool:
    """Check cheaply whether a line may contain a row."""
    return any(start in text for start in _TYPE_STARTS)


def parse_row(
    names: Sequence[str], words: Sequence[str], share: float | None = 1.0
) -> NcclRow | None:
    """One row by its column names; None when it does not fit them or contradicts itself."""
    size, count = int(words[0]), int(words[1])
    starts = [index for index, name in enumerate(names) if name in _TIMES]
    ends = [*starts[1:], len(names)]
    counted = None if share is None else size * share
    parts = (
        dict(zip(names[start:end], words[start:end], strict=True))
        for start, end in zip(starts, ends, strict=False)
    )
    halves = [_parse_half(each, counted) for each in parts]
    whole = [half for half in halves if half is not None]
    part = count * _TYPE_BYTES[words[2]]
    # The size is that of one rank, or of all ranks together if a collective gathers.
    counts = size == 0 if part == 0 else size % part == 0 and size > 0
    if not whole or len(whole) != len(halves) or not counts:
        return None
    return NcclRow(
        size_bytes=size,
        parts=max(size // max(part, 1), 1),
        out_of_place=whole[0],
        in_place=whole[1] if len(whole) > 1 else None,
    )


def _parse_half(words: Mapping[str, str], size: float | None) -> Measure | None:
    shown = next(name for name in words if name in _TIMES)
    time, algbw, busbw = (number(words.get(name, "")) for name in (shown, "algbw", "busbw"))
    if time is None or algbw is None or busbw is None or min(time, algbw, busbw) < 0:
        return None
    wrong = words.get("#wrong", "N/A")
    # A count; large ones are printed with an exponent (`%g`).
    count = number(wrong)
    half = Measure(
        time_us=time,
        algbw_gb_s=algbw,
        busbw_gb_s=busbw,
        wrong=None if count is None or count < 0 else math.ceil(count),
        error=number(words.get("error", "")),
        slowest_us=number(words.get("i_max", "")),
        varies_percent=number(words.get("i_cv%", "")),
    )
    if half.wrong is None and wrong != "N/A":
        return None
    if shown == _PROCESSOR_TIME or size is None:
        return half
    unsure, digits = last_digit(words[shown]) / 2, last_digit(words["algbw"]) / 2
    return half if fits(size, (time - unsure, time + unsure), algbw, digits) else None


def fits(
    size: float, time_us: tuple[float, float], algbw_gb_s: float, unsure_gb_s: float = 0.0
) -> bool:
    """Whether bandwidth is size over time: otherwise the row was cut, mixed or edited.

    The printed time may mean any time between the two of `time_us`. `unsure_gb_s` is half of the
    last printed digit of the bandwidth, if larger than usual.
    """
    shortest, longest = time_us
    if longest <= 0:
        return size == 0
    least, most = size / longest / 1e3, size / max(shortest, 1e-9) / 1e3
    slack = max(rounding(algbw_gb_s), unsure_gb_s) + _RELATIVE_SLACK * least
    return least - slack <= algbw_gb_s <= most + slack


def rounding(bandwidth: float) -> float:
    """Half of the last digit that nccl-tests prints of a bandwidth (`getFloatStr`, width 6)."""
    return next(half for limit, half in _ROUNDING if bandwidth < limit)


def bus_factor(collective: str, ranks: int) -> float:
    """The factor of `all_reduce` (or of its program, `all_reduce_perf`) over 1 and more ranks."""
    name = collective.partition("_perf")[0]
    if name in _WHOLE:
        return 1.0
    once = (ranks - 1) / ranks
    return 2 * once if name in _TWICE else once


def families(collective: str) -> tuple[str, ...]:
    """The collectives whose factor a table may have: one of each factor if it shows no name."""
    return (collective,) if collective else ("all_reduce", "all_gather", "broadcast")
