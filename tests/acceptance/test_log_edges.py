"""Lines and tables at the edges of a reader; expectations follow from what the fields mean."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.digest import parse_training_log
from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.logs.lines import LONGEST_LINE, last_digit, read_lines
from components.acceptance.logs.log_model import NcclLog, PerftestLog, TrainingLog
from components.acceptance.logs.nccl import Run, parse_nccl_log
from components.acceptance.logs.nccl_lines import Paths, Table
from components.acceptance.logs.perftest import parse_perftest_log
from tests.acceptance.recordings import load_nccl

HEADER: Final = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
ROW: Final = "1048576 262144 float sum -1 100.0 10.49 15.73 0\n"
END: Final = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 15.73\n"
RANK: Final = "#  Rank  {0} Group  0 Pid  1{0} on  w0 device  {0} [0x01] NVIDIA H100\n"


def test_a_rank_that_is_listed_twice_is_no_other_run() -> None:
    ranks = [RANK.format(number) for number in (0, 1, 1)]
    log = parse_nccl_log("".join(ranks) + HEADER + ROW + END)
    assert isinstance(log, NcclLog)
    assert len(log.runs) == 1
    verdict = judge_nccl_text("".join(ranks) + HEADER + ROW + END)
    assert verdict.findings[0].actual == "3 ranks in the list, and a rank is there twice"


def test_runs_of_one_rank_each_are_one_launch_without_mpi() -> None:
    alone = RANK.format(0) + HEADER + ROW + END
    verdict = judge_nccl_text(alone + alone)
    assert (verdict.exit_code, len(verdict.findings)) == (1, 1)
    assert verdict.findings[0].actual == "2 separate runs with a rank 0 each"


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (load_nccl("all_reduce_socket"), "all_reduce_perf, 4.62 GB/s busbw (no row reaches 1 GiB"),
        (load_nccl("all_reduce_nvlink"), "all_reduce_perf, 327.55 GB/s busbw (the lowest of 3"),
        (load_nccl("h200x4_no_interface"), "the run failed"),
        (load_nccl("all_reduce_socket")[:6000], "cannot be judged"),
        (HEADER + ROW + END + "\n", "collective, 15.73 GB/s busbw (no row reaches 1 GiB"),
    ],
)
def test_the_numbers_of_a_log_in_one_line(text: str, summary: str) -> None:
    assert judge_nccl_text(text).summary.startswith(summary)


def test_a_number_that_no_float_holds_is_no_crash() -> None:
    """`0e999` in place of a time; a log can be damaged anywhere."""
    assert [last_digit(each) for each in ("0e999", "0e-999", "12.50", "3e2")] == [
        float("inf"), 0.0, 0.01, 100.0,
    ]  # fmt: skip


def test_a_row_without_the_operation_that_its_header_has_may_be_cut() -> None:
    header = "#  size  count  type  redop  time  algbw  busbw  #wrong"
    table = Table()
    assert [*table.feed("", header)] == []
    assert [*table.feed("", "1048576 262144 float")] == []
    assert [*table.feed("", " 100.0")] == []
    assert [*table.feed("", " 10.49 15.73 0")] == []
    assert [row.out_of_place.busbw_gb_s for row in table.rows] == [15.73]
    assert table.bad_rows == []


def test_what_is_around_a_row_is_given_back_and_nothing_else() -> None:
    table = Table()
    assert [*table.feed("", HEADER.strip())] == []
    assert [*table.feed("", ROW.strip())] == []
    assert [*table.feed("", f"before {ROW.strip()} behind")] == ["before ", " behind"]
    assert len(table.rows) == 2


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\rb\r\nc\n\rd", ["a", "b", "c", "d"]),
        ("\r\r\n \n\t\na", ["a"]),
        ("[pod/x-1/mpi] a", ["a"]),
        ("w-1  | a", ["a"]),
        ("w-1  | | a", ["| a"]),
        ("2026-11-25T10:00:00.1Z a", ["a"]),
        ("[1,0]<stdout>: a[1,1]<stderr>:b", ["a", "b"]),
        ("> > > > > a", ["> a"]),
        ('{"log":"a\\n","stream":"stdout"}', ["a"]),
        ('{"log":"a","log":7}', []),
        ('{"log":"a"} x', ['a"} x']),
        ('{"log":"a', ["a"]),
        ("a\x1b[31mb\x1b[0m\x00c", ["abc"]),
        ("3: a", ["a"]),
        ("[3] a", ["a"]),
        ("[rank3]: a", ["a"]),
        ("   a", ["   a"]),
        ("a  ", ["a"]),
    ],
)
def test_what_is_before_and_between_lines(text: str, lines: list[str]) -> None:
    assert [each.text for each in read_lines(text)] == lines
    assert [each.text for each in read_lines(iter(text))] == lines


def test_long_lines_are_cut_after_a_blank_of_their_second_half() -> None:
    half = LONGEST_LINE // 2
    early = "x" * (half - 10) + " " + "y" * LONGEST_LINE
    assert [len(each) for _, each in read_lines(early)] == [LONGEST_LINE, half - 9]
    late = "x" * (half + 10) + " " + "y" * half
    assert [len(each) for _, each in read_lines(late)] == [half + 10, half]
    twice = "a" * LONGEST_LINE + "b" * (half - 5) + " " + "c" * LONGEST_LINE
    assert [len(each) for _, each in read_lines(twice)] == [LONGEST_LINE, LONGEST_LINE, half - 4]
    assert [text for _, text in read_lines("z" * LONGEST_LINE)] == ["z" * LONGEST_LINE]


def test_so_much_is_kept_of_what_repeats() -> None:
    paths = Paths()
    for number in range(3000):
        ends = f"{2 * number}[0] -> {2 * number + 1}[0]"
        line = f"h{number}:1:1 [0] NCCL INFO Channel 00/0 : {ends} [send] via NET/N{number}/0"
        assert paths.feed_channels(line)
        paths.feed(f"h{number}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB")
    for number in range(5000):
        paths.feed_channels(f"g{number}:1:1 [0] NCCL INFO Channel 00/0 : 0 -> 1 via WAY{number}/0")
    for number in range(70_000):
        paths.feed_channels(f"h0:1:1 [0] NCCL INFO Channel 00/0 : {number} -> 1 via NET/N0/0")
    assert (paths.counts["ends"], len(paths.nets), len(paths.names["other"])) == (65536, 64, 64)
    assert (len(paths.ways), len(paths.hosts), len(paths.starts)) == (4096, 3000, 4096)


def test_of_hypercube_without_ranks_nothing_is_known() -> None:
    run = Run()
    run.set_share("hypercube_perf")
    assert run.table.share == 0.0


LATENCY: Final = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
    " 2       1000          5.35           11.78        5.49               5.50\n"
)


def test_latencies_may_be_broken_into_lines() -> None:
    rows = " 4       1000          5.35\n           11.78        5.49               5.50\n"
    log = parse_perftest_log(LATENCY + rows + "-" * 60)
    assert isinstance(log, PerftestLog)
    assert [row.size_bytes for row in log.latency] == [2, 4]
    assert (log.bad_rows, log.ended) == ((), True)


def test_a_perftest_has_so_many_rows_and_no_more() -> None:
    row = " {} 1000 5.35 11.78 5.49 5.50\n"
    log = parse_perftest_log(LATENCY + "".join(row.format(n) for n in range(3, 1003)) + "-" * 60)
    assert isinstance(log, PerftestLog)
    assert len(log.latency) == 1000
    assert log.bad_rows == ("more than 1000 rows",)
    torn = parse_perftest_log(LATENCY + " 9 1000 5.35 1.78 5.49 5.50\n" * 1200 + "-" * 60)
    assert isinstance(torn, PerftestLog)
    assert len(torn.bad_rows) == 1000


@pytest.mark.parametrize(
    ("text", "program", "totals", "steps", "gpus"),
    [
        ("total images/sec: 7.5\n", "tf_cnn_benchmarks", (7.5,), (), None),
        ("12total images/sec: 7\n", "tf_cnn_benchmarks", (7.0,), (), None),
        ("1\timages/sec: 5.0 +/- 0.1 (jitter)\n", "tf_cnn_benchmarks", (), (5.0,), None),
        ("Iter #3: 9.5 img/sec per GPU\n", "horovod", (), (9.5,), None),
        ("Total img/sec on 4 GPU(s): 8.5 +-1\n", "horovod", (8.5,), (), 4),
        (
            "Total img/sec on 4 GPU(s): 8.5\nIter #0: 2 img/sec per CPU\ntotal images/sec: 3\n",
            "tf_cnn_benchmarks",
            (3.0,),
            (),
            None,
        ),
        ("Done warm up\n", "tf_cnn_benchmarks", (), (), None),
    ],
)
def test_the_numbers_of_a_training(
    text: str,
    program: str,
    totals: tuple[float, ...],
    steps: tuple[float, ...],
    gpus: int | None,
) -> None:
    log = parse_training_log(text)
    assert isinstance(log, TrainingLog)
    assert (log.program, log.totals_images_s) == (program, totals)
    assert (log.steps_images_s, log.gpus) == (steps, gpus)
