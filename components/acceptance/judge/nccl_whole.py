"""Is a run of an NCCL program whole, and do its numbers agree with each other?

A table must have every size between its own begin and end; the bus bandwidth of a row follows from
its bandwidth, the collective and the ranks; the footer's average is that of the rows. A log with a
contradiction was cut, mixed or edited, and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from components.acceptance.judge.verdict import Verdict
from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, Sizes
from components.acceptance.logs.nccl_table import bus_factor, families, rounding
from components.core.plain_text import counted

LARGE_BYTES: Final = 1 << 30
"""Rows from 1 GiB on show bandwidth; smaller ones show latency (16 MiB: 12 % of the plateau)."""
_ALIGNMENT_BYTES: Final = 16
"""nccl-tests rounds the part of one rank down to it (`getCollByteCount` of each collective)."""
_MOST_RANKS: Final = 65_536
"""Ranks that a log without a list may have."""
_MOST_SIZES: Final = 10_000
_LARGEST_STEP: Final = 16
"""Largest factor between the only two sizes of a log without the line of the wanted sizes: more is
a gap."""
_AVERAGE_SLACK_GB_S: Final = 0.0055
"""Rows are printed with two decimals, the average with six digits."""
_RELATIVE_SLACK: Final = 5e-4
_LEAST_RATIO_GB_S: Final = 0.2
"""Below it, two decimals are too few to compare two bandwidths."""

LogVerdict = tuple[Verdict, str, str]
"""Verdict, the log's state, and details."""


def completeness_of(log: NcclLog) -> LogVerdict:
    """Whether one run is whole, what its log shows, and details."""
    if log.overlaps:
        what = "several runs began at the same time"
        return "failed", what, "the binary was built without MPI, or the launcher is not its own"
    if log.bad_rows:
        return "error", f"{len(log.bad_rows)} unreadable rows", f"the first: {log.bad_rows[0]}"
    if not log.rows:
        return "error", "no result row", "the log is cut, or the run hung or is still going on"
    frame = _frame_of_program(log) if log.program == "other" else _frame(log)
    if frame[0] != "passed":
        return frame
    for problem in (_ranks(log), _sizes(log), _ratios(log), _average(log)):
        if problem:
            return "error", *problem
    return frame


def is_alone(log: NcclLog) -> bool:
    """Whether a single rank took part: then no data was sent."""
    return len(log.ranks) == 1 or (not log.ranks and log.nranks == 1)


def _frame(log: NcclLog) -> LogVerdict:
    rows = counted(len(log.rows), "row")
    if log.has_footer:
        started = log.nranks is not None and 0 < log.init_complete < log.nranks
        said = f"{log.init_complete} of {log.nranks} ranks say that they started" if started else ""
        return "passed", f"{rows} and the footer", said
    # A quoted table lacks start and end, but its rows count and its values were checked.
    if (
        log.in_document
        and not log.has_preamble
        and all(
            (row.size_bytes or 0) >= LARGE_BYTES and row.out_of_place.wrong is not None
            for row in log.rows
        )
    ):
        return "passed", f"an excerpt with {rows}", "its start and end are not shown"
    return "error", "cut off: the footer is missing", f"{rows} before the cut"


def _frame_of_program(log: NcclLog) -> LogVerdict:
    missing = 1 < log.init_complete < (log.nranks or 0)
    if 0 < log.init_complete <= log.destroy_complete and not missing:
        ended = f"{log.destroy_complete} of {log.init_complete} communicators ended"
        return "passed", f"{counted(len(log.rows), 'result')}, {ended}", "not a log of nccl-tests"
    return "error", "cut off: not all communicators ended", "count of 'Destroy COMPLETE'"


def _ranks(log: NcclLog) -> tuple[str, str] | None:
    numbers = sorted(line.rank for line in log.ranks)
    listed = f"{counted(len(numbers), 'rank')} in the list"
    if numbers and numbers != list(range(len(numbers))):
        lacking = sorted(set(range(numbers[-1] + 1)) - set(numbers))
        what = f"rank {lacking[0]} is missing" if lacking else "a rank is there twice"
        return f"{listed}, and {what}", "lines of the list were lost"
    if numbers and log.nranks is not None and log.nranks > len(numbers):
        return f"{listed}, {log.nranks} by NCCL", "lines were lost"
    return None


def _sizes(log: NcclLog) -> tuple[str, str] | None:
    if log.program == "other":
        return None
    sizes = [row.size_bytes or 0 for row in log.rows]
    slack = _ALIGNMENT_BYTES * max(count_ranks(log) or 1, *(row.parts for row in log.rows))
    if log.sizes is not None:
        return _missing(sizes, list(_asked(log.sizes)), slack)
    sweeps = _sweeps(sizes)
    for sweep in sweeps:
        if gap := _gap(sweep, slack):
            return f"rows are missing: {gap}", "sizes grow by one step"
        ends = abs(sweep[0] - sweeps[0][0]), abs(sweep[-1] - sweeps[0][-1])
        if max(ends) > slack or len(sweep) != len(sweeps[0]):
            return f"sizes begin again at {sweep[0]} B", "and are not those of the first time"
    return None


def _asked(sizes: Sizes) -> Iterator[int]:
    """The sizes that nccl-tests runs through (`TimeTest` of src/common.cu)."""
    factor, step = max(sizes.factor or 1, 1), sizes.step_bytes or 0
    # Too little memory lowers both ends.
    size, last = min(sizes.least_bytes, sizes.most_bytes), -1
    for _ in range(_MOST_SIZES):
        if size > sizes.most_bytes or size == last:
            return
        yield size
        last, size = size, size * factor if factor > 1 else size + step


def _missing(sizes: Sequence[int], asked: Sequence[int], slack: int) -> tuple[str, str] | None:
    """Each type, operation and cycle goes through all sizes."""
    for index, size in enumerate(sizes):
        wanted = asked[index % len(asked)]
        if not wanted - slack < size <= wanted:
            return f"the row of {wanted} B is missing", f"{size} B is in its place"
    if len(sizes) % len(asked):
        wanted = asked[len(sizes) % len(asked)]
        return f"the row of {wanted} B is missing", f"{len(sizes)} of {len(asked)} rows"
    return None


def _sweeps(sizes: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for size in sizes:
        if found[-1] and size < found[-1][-1]:
            found.append([])
        found[-1].append(size)
    return found


def _gap(sizes: Sequence[int], slack: int) -> str:
    """The first gap between neighbouring sizes, or an empty text."""
    shown = [size for size in sizes if size > slack * _LARGEST_STEP] or list(sizes)
    pairs = [(one, other) for one, other in pairwise(shown) if one > 0]
    if not pairs:
        return ""
    last, largest = pairs[-1]
    factor, step = largest / last, largest - last
    if len(pairs) == 1 and factor > _LARGEST_STEP:
        return f"from {last} B to {largest} B"
    grown = [pair for pair in pairs if abs(pair[1] - pair[0] * factor) > slack * (factor + 1)]
    added = any(abs(other - one - step) > 2 * slack for one, other in pairs)
    return f"from {grown[0][0]} B to {grown[0][1]} B" if grown and added else ""


def count_ranks(log: NcclLog) -> int | None:
    """Ranks of one collective: those of the first group of the list, or by NCCL's own lines."""
    first = log.ranks[0].group if log.ranks else 0
    listed = sum(line.group == first for line in log.ranks)
    return listed or log.nranks


def _ratios(log: NcclLog) -> tuple[str, str] | None:
    """Bus bandwidth over bandwidth must be the factor of the collective over these ranks."""
    ranks = count_ranks(log)
    shown = [(row, half) for row in log.rows for half in row.halves]
    if ranks is None:
        return _ratios_of_unknown_ranks(log.collective, [half for _, half in shown])
    factors = [bus_factor(name, ranks) for name in families(log.collective)]
    wrong: list[tuple[NcclRow, Measure]] = []
    for factor in factors:
        odd = next((each for each in shown if not _is_ratio(each[1], factor)), None)
        if odd is None:
            return None
        wrong.append(odd)
    row, half = wrong[0]
    odd_row = f"{half.busbw_gb_s:g} of {half.algbw_gb_s:g} GB/s at {row.size_bytes} B"
    known = " or ".join(f"{each:.4g}" for each in factors)
    what = f"a bus bandwidth that contradicts its row: {odd_row}"
    return what, f"{ranks} ranks: factor {known}"


def _is_ratio(half: Measure, factor: float) -> bool:
    slack = rounding(half.busbw_gb_s) + factor * rounding(half.algbw_gb_s)
    expected = half.algbw_gb_s * factor
    return abs(half.busbw_gb_s - expected) <= slack + _RELATIVE_SLACK * expected


def _ratios_of_unknown_ranks(collective: str, halves: Sequence[Measure]) -> tuple[str, str] | None:
    shown = [half for half in halves if half.algbw_gb_s >= _LEAST_RATIO_GB_S]
    if not shown:
        return None
    least = max(_ratio(half, -1) for half in shown)
    most = min(_ratio(half, +1) for half in shown)
    if any(_fits_some_ranks(name, least, most) for name in families(collective)):
        return None
    return "bus bandwidths that fit no number of ranks", "rows were changed, or are of several runs"


def _ratio(half: Measure, sign: int) -> float:
    """The least or the most that the ratio of two printed bandwidths may be."""
    busbw = half.busbw_gb_s + sign * rounding(half.busbw_gb_s)
    algbw = half.algbw_gb_s - sign * rounding(half.algbw_gb_s)
    return busbw / algbw * (1 + sign * _RELATIVE_SLACK)


def _fits_some_ranks(collective: str, least: float, most: float) -> bool:
    if least > most:
        return False
    if bus_factor(collective, 2) == bus_factor(collective, 4) == 1.0:
        return least <= 1.0 <= most
    # The factor is `whole` (n-1)/n.
    whole = 2 * bus_factor(collective, 2)
    if least >= whole:
        return False
    smallest = max(2, math.ceil(whole / (whole - least) - 1e-9)) if least > 0 else 2
    return smallest <= _MOST_RANKS and whole * (smallest - 1) / smallest <= most


def _average(log: NcclLog) -> tuple[str, str] | None:
    """The footer's average is over all rows and both halves."""
    if log.average_busbw_gb_s is None:
        return None
    every = [half.busbw_gb_s for row in log.rows for half in row.halves]
    mean = sum(every) / len(every)
    if abs(mean - log.average_busbw_gb_s) <= _AVERAGE_SLACK_GB_S + 2e-5 * mean:
        return None
    what = f"the footer's average is {log.average_busbw_gb_s:g} GB/s, that of the rows {mean:.5g}"
    return what, "a row was lost, or a number was changed"
