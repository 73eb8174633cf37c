"""What makes a run of NCCL whole, at the borders of each rule; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.judge.nccl_findings import (
    completeness_of,
    count_ranks,
    judge_completeness,
)
from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, RankLine, Sizes
from components.core.plain_text import counted

GIB: Final = 1 << 30
_LIST_LOST: Final = "lines of the list were lost"
_OTHER: Final = "not a log of nccl-tests"
_NOT_ENDED: Final = (
    "error",
    "cut off: not all communicators ended",
    "count of 'Destroy COMPLETE'",
)


def row(size: int | None, algbw: float = 100.0, busbw: float = 150.0, **more: Any) -> NcclRow:  # noqa: ANN401 - any field
    half = Measure(algbw_gb_s=algbw, busbw_gb_s=busbw, wrong=0)
    return NcclRow(size_bytes=size, out_of_place=half, **more)


def ranks(*numbers: int, group: int = 0) -> tuple[RankLine, ...]:
    return tuple(RankLine(rank=number, host=f"w{number}", group=group) for number in numbers)


def log(**changes: Any) -> NcclLog:  # noqa: ANN401 - any field of a log
    """Four ranks of an all-reduce, whose factor is 1.5, with one row of 1 GiB and the footer."""
    whole: dict[str, Any] = {
        "program": "nccl-tests",
        "collective": "all_reduce_perf",
        "has_preamble": True,
        "has_footer": True,
        "rows": (row(GIB),),
        "ranks": ranks(0, 1, 2, 3),
    }
    return NcclLog(**(whole | changes))


def test_a_whole_run() -> None:
    assert completeness_of(log()) == ("passed", "1 row and the footer", "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"overlaps": True},
            (
                "failed",
                "several runs began at the same time",
                "the binary was built without MPI, or the launcher is not its own",
            ),
        ),
        ({"bad_rows": ("first", "second")}, ("error", "2 unreadable rows", "the first: first")),
        (
            {"rows": ()},
            ("error", "no result row", "the log is cut, or the run hung or is still going on"),
        ),
        (
            {"has_footer": False},
            ("error", "cut off: the footer is missing", "1 row before the cut"),
        ),
        (
            {"has_footer": False, "nranks": 5},
            ("error", "cut off: the footer is missing", "1 row before the cut"),
        ),
        (
            {"nranks": 4, "init_complete": 1},
            ("passed", "1 row and the footer", "1 of 4 ranks say that they started"),
        ),
        (
            {"nranks": 4, "init_complete": 3},
            ("passed", "1 row and the footer", "3 of 4 ranks say that they started"),
        ),
        ({"nranks": 4, "init_complete": 4}, ("passed", "1 row and the footer", "")),
        ({"nranks": 4, "init_complete": 0}, ("passed", "1 row and the footer", "")),
        (
            {"ranks": ranks(0, 1, 3)},
            ("error", "3 ranks in the list, and rank 2 is missing", _LIST_LOST),
        ),
        (
            {"ranks": ranks(1, 2)},
            ("error", "2 ranks in the list, and rank 0 is missing", _LIST_LOST),
        ),
        (
            {"ranks": ranks(0, 1, 1)},
            ("error", "3 ranks in the list, and a rank is there twice", _LIST_LOST),
        ),
        (
            {"nranks": 5},
            ("error", "4 ranks in the list, 5 by NCCL", "lines were lost"),
        ),
        ({"nranks": 3}, ("passed", "1 row and the footer", "")),
    ],
)
def test_what_is_said_of_a_run(changes: dict[str, Any], said: tuple[str, str, str]) -> None:
    assert completeness_of(log(**changes)) == said


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "passed"),
        ({"in_document": False}, "error"),
        ({"has_preamble": True}, "error"),
        ({"rows": (row(GIB - 1),)}, "error"),
        ({"rows": (row(GIB), row(None))}, "error"),
        ({"rows": (row(GIB), row(2 * GIB))}, "passed"),
    ],
)
def test_an_excerpt_of_a_document(changes: dict[str, Any], verdict: str) -> None:
    quoted = {"has_footer": False, "has_preamble": False, "in_document": True}
    said = completeness_of(log(**(quoted | changes)))
    assert said[0] == verdict
    if changes == {}:
        assert said[1:] == ("an excerpt with 1 row", "its start and end are not shown")


def test_an_excerpt_whose_values_were_not_checked_is_none() -> None:
    half = Measure(algbw_gb_s=100.0, busbw_gb_s=150.0)
    rows = (NcclRow(size_bytes=GIB, out_of_place=half),)
    quoted = log(has_footer=False, has_preamble=False, in_document=True, rows=rows)
    assert completeness_of(quoted)[0] == "error"


@pytest.mark.parametrize(
    ("started", "ended", "nranks", "said"),
    [
        (4, 4, 4, ("passed", "1 result, 4 of 4 communicators ended", _OTHER)),
        (4, 5, None, ("passed", "1 result, 5 of 4 communicators ended", _OTHER)),
        (1, 1, 4, ("passed", "1 result, 1 of 1 communicators ended", _OTHER)),
        (2, 2, 4, _NOT_ENDED),
        (3, 3, 4, _NOT_ENDED),
        (4, 3, 4, _NOT_ENDED),
        (0, 0, 4, _NOT_ENDED),
    ],
)
def test_a_program_of_its_own_ends_its_communicators(
    started: int, ended: int, nranks: int | None, said: tuple[str, str, str]
) -> None:
    seen = log(
        program="other",
        has_footer=False,
        ranks=(),
        init_complete=started,
        destroy_complete=ended,
        nranks=nranks,
    )
    assert completeness_of(seen) == said


def test_a_program_of_its_own_may_print_any_sizes() -> None:
    rows = (row(GIB), row(8), row(GIB), row(9))
    seen = log(program="other", rows=rows, init_complete=1, destroy_complete=1)
    assert completeness_of(seen)[0] == "passed"


@pytest.mark.parametrize(
    ("listed", "nranks", "alone"),
    [
        (ranks(0), None, True),
        (ranks(0), 2, False),
        (ranks(0, 1), 1, False),
        ((), 1, True),
        ((), 2, False),
        ((), None, False),
    ],
)
def test_a_single_rank(listed: tuple[RankLine, ...], nranks: int | None, *, alone: bool) -> None:
    found = judge_completeness(log(ranks=listed, nranks=nranks, rows=(row(GIB, busbw=0.0),)))
    assert (found.actual == "a single rank, without traffic") is alone


def test_ranks_are_those_of_the_first_collective() -> None:
    assert count_ranks(log(ranks=(*ranks(0, 1, group=2), *ranks(2, group=1)), nranks=9)) == 2
    assert count_ranks(log(ranks=(), nranks=9)) == 9
    assert count_ranks(log(ranks=())) is None


def sized(*sizes: int, asked: Sizes | None = None, **changes: Any) -> tuple[str, str, str]:  # noqa: ANN401 - any field
    return completeness_of(log(rows=tuple(row(size) for size in sizes), sizes=asked, **changes))


@pytest.mark.parametrize(
    ("asked", "sizes", "what", "more"),
    [
        ((8, 64, 2, None), (8, 16, 32, 64), None, ""),
        ((8, 64, 2, None), (8, 16, 32, 64, 8, 16, 32, 64), None, ""),
        ((8, 64, 2, None), (8, 16, 32), "the row of 64 B is missing", "3 of 4 rows"),
        ((8, 64, 2, None), (8, 16, 32, 64, 8), "the row of 16 B is missing", "5 of 4 rows"),
        ((8, 63, 2, None), (8, 16, 32), None, ""),
        (
            (2048, 8192, 2, None),
            (2048, 8192),
            "the row of 4096 B is missing",
            "8192 B is in its place",
        ),
        ((2048, 4096, 2, None), (2048, 4033), None, ""),
        (
            (2048, 4096, 2, None),
            (2048, 4032),
            "the row of 4096 B is missing",
            "4032 B is in its place",
        ),
        (
            (2048, 4096, 2, None),
            (2048, 4097),
            "the row of 4096 B is missing",
            "4097 B is in its place",
        ),
        ((1000, 3000, None, 1000), (1000, 2000, 3000), None, ""),
        ((1000, 3000, None, 1000), (1000, 2000), "the row of 3000 B is missing", "2 of 3 rows"),
        ((8192, 4096, 2, None), (4096,), None, ""),
        ((4096, 4096, None, 0), (4096,), None, ""),
        ((4096, 8192, 1, 0), (4096, 4096), None, ""),
        ((0, 0, 2, None), (0,), None, ""),
    ],
)
def test_every_size_that_was_asked_for_has_its_row(
    asked: tuple[int, int, int | None, int | None],
    sizes: tuple[int, ...],
    what: str | None,
    more: str,
) -> None:
    least, most, factor, step = asked
    wanted = Sizes(least_bytes=least, most_bytes=most, factor=factor, step_bytes=step)
    footer = ("passed", f"{counted(len(sizes), 'row')} and the footer", "")
    assert sized(*sizes, asked=wanted) == (footer if what is None else ("error", what, more))


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ((1 << 20, 1 << 21, 1 << 22), None),
        ((1 << 20, 1 << 22, 1 << 23), "rows are missing: from 1048576 B to 4194304 B"),
        ((1 << 20, 1 << 21, 1 << 23, 1 << 24), "rows are missing: from 2097152 B to 8388608 B"),
        ((10_000, 20_000, 30_000, 40_000), None),
        ((10_000, 20_000, 40_000, 50_000), "rows are missing: from 10000 B to 20000 B"),
        ((1 << 20, 1 << 24), None),
        ((1 << 20, (1 << 24) + 1), "rows are missing: from 1048576 B to 16777217 B"),
        ((1 << 20,), None),
        ((8, 512, 1 << 20, 1 << 21), None),
        ((0, 0), None),
        ((1025, 2050, 4100), None),
        ((0, 16, 512), "rows are missing: from 16 B to 512 B"),
        ((0, 16, 256), None),
        ((1, 16), None),
        ((1, 17), "rows are missing: from 1 B to 17 B"),
        ((100_000, 200_095, 400_000), None),
        ((100_000, 200_097, 400_000), "rows are missing: from 100000 B to 200097 B"),
        ((100_000, 200_064, 300_000), None),
        ((100_000, 200_065, 300_000), "rows are missing: from 100000 B to 200065 B"),
        ((100_000, 200_000, 400_000), None),
    ],
)
def test_sizes_grow_by_one_step(sizes: tuple[int, ...], what: str | None) -> None:
    """Four ranks round a size down by up to 64 B; sizes of up to 1,024 B are not looked at."""
    passed = ("passed", f"{counted(len(sizes), 'row')} and the footer", "")
    assert sized(*sizes) == (passed if what is None else ("error", what, "sizes grow by one step"))


@pytest.mark.parametrize(
    ("sizes", "begins"),
    [
        ((4096, 8192, 16384, 4096, 8192, 16384), None),
        ((4096, 8192, 16384, 4096, 8192), 4096),
        ((4096, 8192, 16384, 4160, 8192, 16384), None),
        ((4096, 8192, 16384, 4161, 8192, 16384), 4161),
        ((4096, 8192, 16384, 4096, 8192, 16448), None),
        ((4096, 8192, 16384, 4096, 8192, 16449), 4096),
    ],
)
def test_sizes_that_begin_again_are_the_same(sizes: tuple[int, ...], begins: int | None) -> None:
    said = sized(*sizes)
    if begins is None:
        assert said == ("passed", f"{counted(len(sizes), 'row')} and the footer", "")
    else:
        words = f"sizes begin again at {begins} B"
        assert said == ("error", words, "and are not those of the first time")


def test_the_parts_of_ranks_widen_what_a_size_may_lack() -> None:
    wanted = Sizes(least_bytes=4096, most_bytes=4096, factor=2)
    rows = (row(4096 - 127, parts=8),)
    assert completeness_of(log(rows=rows, sizes=wanted))[0] == "passed"
    assert completeness_of(log(rows=(row(4096 - 127),), sizes=wanted))[0] == "error"
    unknown = log(rows=(row(4096 - 15),), sizes=wanted, ranks=())
    assert completeness_of(unknown)[0] == "passed"
    unknown = log(rows=(row(4096 - 16),), sizes=wanted, ranks=())
    assert completeness_of(unknown)[0] == "error"


@pytest.mark.parametrize(
    ("algbw", "busbw", "passes"),
    [
        (100.0, 150.0, True),
        # 0.0051 of the one, 1.5 x 0.0051 of the other, and 0.075 of 150.
        (100.0, 150.08, True),
        (100.0, 150.09, False),
        (100.0, 149.92, True),
        (100.0, 149.91, False),
        (0.0, 0.01, True),
        (0.0, 0.02, False),
        # From 1,000 on there is one decimal less.
        (1000.0, 1500.87, True),
        (1000.0, 1500.89, False),
    ],
)
def test_bus_bandwidth_follows_from_bandwidth_and_ranks(
    algbw: float, busbw: float, *, passes: bool
) -> None:
    said = completeness_of(log(rows=(row(GIB, algbw, busbw),)))
    what = f"a bus bandwidth that contradicts its row: {busbw:g} of {algbw:g} GB/s at {GIB} B"
    wrong = ("error", what, "4 ranks: factor 1.5")
    assert said == (("passed", "1 row and the footer", "") if passes else wrong)


def test_the_row_that_contradicts_itself_is_named() -> None:
    inside = Measure(algbw_gb_s=100.0, busbw_gb_s=151.0)
    rows = (row(GIB), row(2 * GIB, in_place=inside))
    _, what, _ = completeness_of(log(rows=rows))
    assert what == f"a bus bandwidth that contradicts its row: 151 of 100 GB/s at {2 * GIB} B"


def test_without_a_name_every_family_may_be_meant() -> None:
    for busbw in (150.0, 75.0, 100.0):
        assert completeness_of(log(collective="", rows=(row(GIB, 100.0, busbw),)))[0] == "passed"
    said = completeness_of(log(collective="", rows=(row(GIB, 100.0, 120.0),)))
    what = f"a bus bandwidth that contradicts its row: 120 of 100 GB/s at {GIB} B"
    assert said == ("error", what, "4 ranks: factor 1.5 or 0.75 or 1")


@pytest.mark.parametrize(
    ("collective", "rows", "passes"),
    [
        # 2 (n-1)/n of an all-reduce: 1, 1.3333, 1.5, 1.6, … below 2.
        ("all_reduce", [(100.0, 100.0)], True),
        ("all_reduce", [(100.0, 133.33)], True),
        ("all_reduce", [(100.0, 120.0)], False),
        ("all_reduce", [(100.0, 99.0)], False),
        ("all_reduce", [(100.0, 199.9)], True),
        ("all_reduce", [(100.0, 200.5)], False),
        ("all_reduce", [(100.0, 150.0), (100.0, 160.0)], False),
        ("all_reduce", [(100.0, 150.0), (0.19, 0.01)], True),
        ("all_reduce", [(100.0, 150.0), (0.2, 0.01)], False),
        ("all_reduce", [(0.1, 9.0)], True),
        # (n-1)/n of an all-gather: 0.5, 0.6667, 0.75, …
        ("all_gather", [(100.0, 50.0)], True),
        ("all_gather", [(100.0, 60.0)], False),
        ("all_gather", [(100.0, 49.0)], False),
        ("broadcast", [(100.0, 100.0)], True),
        ("broadcast", [(100.0, 101.0)], False),
        ("broadcast", [(100.0, 99.0)], False),
        ("broadcast", [(100.0, 133.33)], False),
        # What rounding allows.
        ("all_reduce", [(1.0, 1.34)], True),
        ("all_reduce", [(1.0, 1.33)], True),
        ("all_reduce", [(100.0, 133.42)], False),
        ("all_reduce", [(100.0, 133.25)], False),
        ("", [(100.0, 133.33)], True),
        ("", [(100.0, 66.67)], True),
        ("", [(100.0, 55.0)], False),
    ],
)
def test_where_no_rank_is_listed_some_number_of_ranks_must_fit(
    collective: str, rows: list[tuple[float, float]], *, passes: bool
) -> None:
    shown = tuple(row(GIB, algbw, busbw) for algbw, busbw in rows)
    said = completeness_of(log(collective=collective, ranks=(), rows=shown))
    if passes:
        assert said == ("passed", f"{counted(len(rows), 'row')} and the footer", "")
    else:
        what = "bus bandwidths that fit no number of ranks"
        assert said == ("error", what, "rows were changed, or are of several runs")


@pytest.mark.parametrize(
    ("average", "passes"),
    [(165.0, True), (165.0087, True), (165.0089, False), (164.9913, True), (164.9911, False)],
)
def test_the_footers_average_is_that_of_all_halves(average: float, *, passes: bool) -> None:
    """(150 + 150 + 180 + 180) / 4; two decimals and six digits allow 0.0055 + 0.0033."""
    rows = tuple(
        row(
            size,
            busbw / 1.5,
            busbw,
            in_place=Measure(algbw_gb_s=busbw / 1.5, busbw_gb_s=busbw),
        )
        for size, busbw in ((GIB, 150.0), (2 * GIB, 180.0))
    )
    said = completeness_of(log(rows=rows, average_busbw_gb_s=average))
    what = f"the footer's average is {average:g} GB/s, that of the rows 165"
    wrong = ("error", what, "a row was lost, or a number was changed")
    assert said == (("passed", "2 rows and the footer", "") if passes else wrong)
