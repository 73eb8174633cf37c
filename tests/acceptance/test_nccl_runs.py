"""The parts of a run of NCCL, and where another one begins; expectations are written by hand."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, RankLine, Sizes
from components.acceptance.logs.nccl import Run, is_comment, parse_nccl_log

HEADER: Final = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
ROW: Final = "1048576 262144 float sum -1 100.0 10.49 15.73 0\n"
FOOTER: Final = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 15.73\n"


def parsed(text: str) -> NcclLog:
    log = parse_nccl_log(text)
    assert isinstance(log, NcclLog)
    return log


def test_the_frame_of_a_run() -> None:
    log = parsed(
        "# nccl-tests version 2.17.1 nccl-headers=22700 nccl-library=22700\n"
        "# Collective test starting: all_reduce_perf\n"
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 "
        "iters: 20 agg iters: 1 validation: 1 graph: 0\n"
        "#  Rank  0 Group  0 Pid  11 on  w0 device  0 [0x01] NVIDIA H100\n"
        "#  Rank  1 Group  3 Pid  12 on  w1 device  0 [0x01] NVIDIA H100\n"
        "# Reducing maxBytes to 1048576 due to memory limitation\n" + HEADER + ROW + FOOTER
    )
    assert (log.program, log.collective) == ("nccl-tests", "all_reduce_perf")
    assert (log.has_preamble, log.has_footer, log.iterations) == (True, True, 20)
    assert log.sizes == Sizes(least_bytes=1048576, most_bytes=1048576, factor=2)
    gpu = "0 [0x01] NVIDIA H100"
    assert log.ranks == (
        RankLine(rank=0, host="w0", gpu=gpu),
        RankLine(rank=1, host="w1", group=3, gpu=gpu),
    )
    assert (log.gpus_known, log.shared_gpus) == (2, ())
    assert (log.out_of_bounds, log.average_busbw_gb_s, log.tables) == (0, 15.73, 1)
    assert (log.overlaps, log.in_document, log.other_runs) == (False, False, ())


@pytest.mark.parametrize(
    ("footer", "wrong"),
    [
        ("# Out of bounds values : 0 OK\n", 0),
        ("# Out of bounds values : 0 FAILED\n", 1),
        ("# Out of bounds values : 7 FAILED\n", 7),
        ("# Out of bounds values : 2 OK\n# Out of bounds values : 3 OK\n", 5),
        ("", None),
    ],
)
def test_values_out_of_bounds_add_up(footer: str, wrong: int | None) -> None:
    log = parsed(HEADER + ROW + footer)
    assert (log.out_of_bounds, log.has_footer) == (wrong, False)


def test_a_step_in_bytes() -> None:
    line = "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 8(bytes) validation: 1\n"
    log = parsed(line + HEADER)
    assert log.sizes == Sizes(least_bytes=8, most_bytes=64, step_bytes=8)
    assert (log.iterations, log.has_preamble, log.has_footer) == (None, True, False)


STARTING: Final = "# Collective test starting: all_reduce_perf\n"
RANKS: Final = (
    "#  Rank  0 Group  0 Pid  11 on  w0 device  0 [0x01] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid  12 on  w0 device  1 [0x02] NVIDIA H100\n"
)


@pytest.mark.parametrize(
    ("text", "runs", "overlaps"),
    [
        (STARTING + RANKS + HEADER + ROW + FOOTER, 1, False),
        ((STARTING + RANKS + HEADER + ROW + FOOTER) * 2, 2, False),
        (STARTING + STARTING + RANKS + HEADER + ROW + FOOTER, 2, True),
        (RANKS + RANKS + HEADER + ROW + FOOTER, 2, True),
        (HEADER + ROW + HEADER + ROW + FOOTER, 2, False),
        (HEADER + ROW + FOOTER + HEADER + ROW + FOOTER, 2, False),
        (HEADER + HEADER + ROW + FOOTER, 1, False),
        (STARTING + RANKS + HEADER + ROW + HEADER + ROW + FOOTER, 2, False),
        (RANKS + HEADER + ROW + RANKS + HEADER + ROW, 2, False),
    ],
)
def test_where_another_run_begins(text: str, runs: int, *, overlaps: bool) -> None:
    log = parsed(text)
    assert (len(log.runs), log.overlaps) == (runs, overlaps)


@pytest.mark.parametrize(
    ("line", "is_one"),
    [("# x", True), ("Avg bus bandwidth : 3", True), ("rank 0 : algbw 1 GB/s", False)],
)
def test_comments_of_nccl_tests(line: str, *, is_one: bool) -> None:
    assert is_comment(line) is is_one


def test_of_a_programs_own_rows_the_slowest_of_each_size_counts() -> None:
    def line(rank: int, size: int, busbw: float) -> str:
        return f"rank {rank} bytes {size} : algbw 1.00 GB/s busbw {busbw:.2f} GB/s\n"

    start = "w0:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n"
    log = parsed(start + line(0, 64, 4.0) + line(1, 64, 3.0) + line(0, 8, 2.0) + line(1, 64, 5.0))
    assert log.program == "other"
    assert [(row.size_bytes, row.out_of_place.busbw_gb_s) for row in log.rows] == [
        (8, 2.0),
        (64, 3.0),
    ]
    without = parsed(start + "rank 0 : algbw 1.50 GB/s busbw 2.25 GB/s\n")
    (only,) = without.rows
    assert only == NcclRow(size_bytes=None, out_of_place=Measure(algbw_gb_s=1.5, busbw_gb_s=2.25))


@pytest.mark.parametrize(
    ("ranks", "nranks", "share"), [(2, None, 0.5), (0, 4, 0.75), (8, 4, 0.875)]
)
def test_hypercube_leaves_out_a_ranks_own_part(
    ranks: int, nranks: int | None, share: float
) -> None:
    run = Run(ranks=[RankLine(rank=each, host="w0") for each in range(ranks)])
    run.paths.nranks = nranks
    run.set_share("./hypercube_perf -b 8")
    assert (run.collective, run.table.share) == ("hypercube_perf", share)
    other = Run(collective="all_reduce_perf")
    other.set_share("./hypercube_perf -b 8")
    assert (other.collective, other.table.share) == ("all_reduce_perf", 1.0)
