"""What one run of an NCCL program said: its frame, its ranks and its results.

A run of nccl-tests is a sequence of parts that come in one order: version, name, sizes, devices,
header, footer. A part that comes again, or too early, begins another run.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.logs.causes import FailureFinder
from components.acceptance.logs.failures import nccl_finder
from components.acceptance.logs.log_model import Measure, NcclRow, RankLine, Sizes
from components.acceptance.logs.nccl_paths import Paths
from components.acceptance.logs.nccl_table import Table

_RANK = re.compile(
    r"(?:#|\b)\s{0,20}Rank\s{1,20}(\d{1,9})\s{1,20}(?:Group\s{1,20}(\d{1,9})\s{1,20})?"
    r"Pid\s{1,20}\d{1,12}\s{1,20}on\s{1,20}(\S{1,253})\s{1,20}device"
)
_PREAMBLE = re.compile(
    r"(?:#|\b)\s{0,20}nThread \d{1,9} .{0,80}?minBytes (\d{1,18}) maxBytes (\d{1,18}) "
    r"step:? ?(\d{1,18})\s?\((factor|bytes)\)(?:.{0,80}?\biters: \d{1,9} iters: (\d{1,9}))?"
)
_REDUCED = re.compile(r"(?:#|\b)\s{0,20}Reducing maxBytes to (\d{1,18})")
_VERSION_LINE = re.compile(r"(?:#|\b)\s{0,20}nccl-tests version ")
_STARTING = re.compile(r"(?:#|\b)\s{0,20}Collective test starting: (\w{1,80})")
_CONCLUDED = re.compile(r"(?:#|\b)\s{0,20}Collective test concluded")
_BOUNDS = re.compile(
    r"(?:#|\b)\s{0,20}Out of bounds values\s{0,20}:\s{0,20}(\d{1,18})\s{0,20}(OK|FAILED)?"
)
_AVERAGE = re.compile(
    r"(?:#|\b)\s{0,20}Avg bus bandwidth\s{0,20}:\s{0,20}"
    r"(\d{1,18}(?:\.\d{0,18})?(?:e[+-]?\d{1,3})?)(?![\d.])"
)
_OWN_ROW = re.compile(
    r"rank\s{1,20}\d{1,9}(?:\s{1,20}bytes\s{1,20}(?P<size>\d{1,18}))?\s{0,20}:\s{0,20}"
    r"algbw\s{1,20}(?P<algbw>\d{1,9}\.?\d{0,9})\s{0,20}GB/s\s{1,20}"
    r"busbw\s{1,20}(?P<busbw>\d{1,9}\.?\d{0,9})\s{0,20}GB/s"
)
_STARTS: Final = ("#", "nThread", "Rank", "Out of bounds", "Avg bus", "Collective test", "size  ")
"""Documents lose the `#`, which their markup takes for a heading."""
_MOST_RANKS: Final = 100_000
_MOST_OWN_ROWS: Final = 10_000
_PARTS: Final = ("version", "name", "sizes", "devices", "header", "footer")


@dataclass(slots=True)
class Run:
    """What was found so far of one run."""

    table: Table = field(default_factory=Table)
    paths: Paths = field(default_factory=Paths)
    finder: FailureFinder = field(default_factory=nccl_finder)
    collective: str = ""
    sizes: Sizes | None = None
    iterations: int | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    out_of_bounds: int | None = None
    average: float | None = None
    ranks: list[RankLine] = field(default_factory=list[RankLine])
    own_rows: dict[int | None, NcclRow] = field(default_factory=dict[int | None, NcclRow])
    overlaps: bool = False
    _part: int = -1

    def begins_again(self, line: str) -> bool:
        """Does this comment of nccl-tests belong to a run after this one?"""
        part = _part_of(line)
        if part is None or part > self._part:
            # One run has one table, whatever its types and operations are.
            return part == _PARTS.index("header") and bool(self.table.rows)
        return part < self._part or _PARTS[part] not in ("devices", "footer") or self._repeats(line)

    def overlaps_with(self, line: str) -> bool:
        """Does the run of this comment begin while this one has only begun?"""
        return self.is_open and (_part_of(line) == self._part or self._repeats(line))

    def _repeats(self, line: str) -> bool:
        """Another rank 0: this one's list is whole."""
        rank = _RANK.search(line)
        return bool(rank and int(rank[1]) == 0 and any(each.rank == 0 for each in self.ranks))

    @property
    def is_open(self) -> bool:
        """It has begun and printed no row yet."""
        return self._part >= 0 and not self.table.rows and not self.counts["footer"]

    def feed_comment(self, line: str) -> None:
        """Takes a line that has a `#` in it."""
        part = _part_of(line)
        if part is not None:
            self._part = max(part, self._part)
            self.counts[_PARTS[part]] += 1
        if rank := _RANK.search(line):
            if len(self.ranks) < _MOST_RANKS:
                self.ranks.append(
                    RankLine(rank=int(rank[1]), host=rank[3], group=int(rank[2] or 0))
                )
        elif preamble := _PREAMBLE.search(line):
            self._take_preamble(preamble)
        elif starting := _STARTING.search(line):
            self.collective = starting[1]
        else:
            self._feed_footer(line)

    def _take_preamble(self, preamble: re.Match[str]) -> None:
        by = int(preamble[3])
        self.sizes = Sizes(
            least_bytes=int(preamble[1]),
            most_bytes=int(preamble[2]),
            factor=by if preamble[4] == "factor" else None,
            step_bytes=by if preamble[4] == "bytes" else None,
        )
        self.iterations = int(preamble[5]) if preamble[5] else None

    def _feed_footer(self, line: str) -> None:
        if bounds := _BOUNDS.search(line):
            self.table.finish()
            wrong = int(bounds[1]) or int(bounds[2] == "FAILED")
            self.out_of_bounds = (self.out_of_bounds or 0) + wrong
        elif average := _AVERAGE.search(line):
            self.average = float(average[1])
        elif (reduced := _REDUCED.search(line)) and self.sizes:
            self.sizes = self.sizes.model_copy(update={"most_bytes": int(reduced[1])})

    def feed_own_row(self, line: str) -> None:
        """Takes a line of a program that prints bandwidths in its own way."""
        row = _OWN_ROW.search(line)
        if row is None:
            return
        size = int(row["size"]) if row["size"] else None
        half = Measure(algbw_gb_s=float(row["algbw"]), busbw_gb_s=float(row["busbw"]))
        known = self.own_rows.get(size)
        full = known is None and len(self.own_rows) >= _MOST_OWN_ROWS
        if not full and (known is None or half.busbw_gb_s < known.out_of_place.busbw_gb_s):
            self.own_rows[size] = NcclRow(size_bytes=size, out_of_place=half)

    def set_share(self, line: str) -> None:
        """What of a size counts, once the collective and its ranks are known (hypercube.cu)."""
        if "hypercube_perf" in line and not self.collective:
            self.collective = "hypercube_perf"
        if "hypercube" in self.collective:
            ranks = max(len(self.ranks), self.paths.nranks or 1)
            self.table.share = (ranks - 1) / ranks

    @property
    def is_nccl_tests(self) -> bool:
        """The run has a part that only nccl-tests prints."""
        return self._part >= 0 or bool(self.table.tables)


def is_comment(line: str) -> bool:
    """Can a line be one of those that nccl-tests begins with `#`?"""
    return any(start in line for start in _STARTS)


def _part_of(line: str) -> int | None:
    """The place in a run of a comment of nccl-tests."""
    for part, pattern in enumerate((_VERSION_LINE, _STARTING, _PREAMBLE, _RANK)):
        if pattern.search(line):
            return part
    if "size" in line and "count" in line and "type" in line:
        return _PARTS.index("header")
    ends = _BOUNDS.search(line) or _AVERAGE.search(line) or _CONCLUDED.search(line)
    return _PARTS.index("footer") if ends else None
