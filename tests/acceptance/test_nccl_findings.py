"""What is found of one run of NCCL, thing by thing; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.judge.nccl import Members, NcclAsked, judge_run, judge_runs
from components.acceptance.judge.nccl_findings import (
    judge_busbw,
    judge_correctness,
    judge_gdr,
    judge_warnings,
    show_bytes,
)
from components.acceptance.judge.verdict import Finding, Verdict
from components.acceptance.logs.log_model import (
    Channels,
    LogFailure,
    Measure,
    NcclLog,
    NcclRow,
    RankLine,
)

GIB: Final = 1 << 30
ALGBW: Final = 100.0


def row(size: int | None = GIB, busbw: float = 150.0, **half: Any) -> NcclRow:  # noqa: ANN401 - any field
    of_half: dict[str, Any] = {"wrong": 0} | half
    return NcclRow(
        size_bytes=size, out_of_place=Measure(algbw_gb_s=ALGBW, busbw_gb_s=busbw, **of_half)
    )


RANKS: Final = tuple(RankLine(rank=each, host=f"w{each // 2}") for each in range(4))


def log(**changes: Any) -> NcclLog:  # noqa: ANN401 - any field of a log
    whole: dict[str, Any] = {
        "program": "nccl-tests",
        "collective": "all_reduce_perf",
        "has_footer": True,
        "rows": (row(),),
        "ranks": RANKS,
    }
    return NcclLog(**(whole | changes))


@pytest.mark.parametrize(
    ("changes", "verdict", "actual", "detail"),
    [
        ({}, "passed", "0 wrong values", "checked in 1 row"),
        ({"out_of_bounds": 3}, "failed", "3 wrong values", "data were corrupted"),
        ({"rows": (row(wrong=2), row(wrong=5))}, "failed", "7 wrong values", "data were corrupted"),
        (
            {"rows": (row(wrong=None),)},
            "skipped",
            "not checked",
            "the run did not check its values",
        ),
        ({"rows": ()}, "skipped", "not checked", "no row"),
        (
            {"rows": (row(wrong=None, error=5e-7),)},
            "passed",
            "0 wrong values",
            "checked in 1 row",
        ),
        (
            {"rows": (row(wrong=None, error=0.5),)},
            "failed",
            "a relative error of 0.5",
            "data were corrupted",
        ),
    ],
)
def test_correctness(changes: dict[str, Any], verdict: Verdict, actual: str, detail: str) -> None:
    assert judge_correctness(log(**changes)) == Finding(
        check="correctness",
        verdict=verdict,
        expected="0 wrong values",
        actual=actual,
        detail=detail,
        next_step="suspect memory, cable or NIC; run again" if verdict == "failed" else "",
    )


@pytest.mark.parametrize(
    ("channels", "verdict", "actual"),
    [
        (Channels(net={"IB": 4}, gdr=4), "passed", "4 of 4 channels"),
        (Channels(net={"IB": 4}, gdr=3), "failed", "3 of 4 channels"),
        (Channels(), "error", "0 of 0 channels"),
    ],
)
def test_gpudirect(channels: Channels, verdict: Verdict, actual: str) -> None:
    step = "load nvidia_peermem on every worker; look at NCCL_NET_GDR_LEVEL"
    assert judge_gdr(log(channels=channels)) == Finding(
        check="gpudirect",
        verdict=verdict,
        expected="GDRDMA on all network channels",
        actual=actual,
        next_step=step if verdict == "failed" else "",
    )


SLOW: Final = "compare ib_write_bw of each rail; look for a slow or lost rail"


@pytest.mark.parametrize(
    ("rows", "verdict", "actual", "detail", "step"),
    [
        (
            (row(), row(2 * GIB, 160.0), row(8, 1.0)),
            "passed",
            "150.00 GB/s at 1 GiB",
            "the lowest of 2 rows of 1 GiB and more; floor: the file",
            "",
        ),
        (
            (row(GIB, 160.0), row(2 * GIB, 149.9)),
            "failed",
            "149.90 GB/s at 2 GiB",
            "the lowest of 2 rows of 1 GiB and more; floor: the file",
            SLOW,
        ),
        (
            (row(GIB - 1, 160.0), row(8, 1.0), row(None, 2.0)),
            "passed",
            "160.00 GB/s at 1024 MiB",
            "no row reaches 1 GiB: the largest row, 1024 MiB; floor: the file",
            "",
        ),
        (
            (row(None, 160.0),),
            "passed",
            "160.00 GB/s at unstated size",
            "no row reaches 1 GiB: the largest row, unstated size; floor: the file",
            "",
        ),
        ((), "error", "no row with a bandwidth", "the file", ""),
    ],
)
def test_bandwidth(
    rows: tuple[NcclRow, ...], verdict: Verdict, actual: str, detail: str, step: str
) -> None:  # fmt: skip
    assert judge_busbw(log(rows=rows), 150.0, "the file") == Finding(
        check="bandwidth",
        verdict=verdict,
        expected="busbw >= 150.00 GB/s",
        actual=actual,
        detail=detail,
        next_step=step,
    )


@pytest.mark.parametrize(
    ("size", "shown"),
    [(None, "unstated size"), (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"),
     (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB")],
)  # fmt: skip
def test_sizes_in_binary_units(size: int | None, shown: str) -> None:
    assert show_bytes(size) == shown


def test_warnings_are_shown_and_fail_nothing() -> None:
    assert judge_warnings(log()) is None
    one, many = (
        judge_warnings(log(warnings=("a",))),
        judge_warnings(log(warnings=("a", "b", "c", "d", "e"))),
    )
    assert one is not None
    assert many is not None
    assert (one.verdict, one.actual, one.detail) == ("skipped", "1 unknown warning: a", "")
    assert (many.actual, many.detail) == ("5 unknown warnings: a", "b; c; d")


MEMBERS: Final = Members(ranks=4, hosts=2, devices=2)
BOTH: Final = Channels(devices_by_host={"w0": (0, 1), "w1": (0, 1)})


def found_of(check: str, seen: NcclLog, asked: NcclAsked) -> Finding | None:
    return next((each for each in judge_run(seen, asked) if each.check == check), None)


@pytest.mark.parametrize(
    ("ranks", "members", "verdict", "actual"),
    [
        (RANKS, MEMBERS, "passed", "4 ranks on 2 hosts (w0, w1)"),
        (RANKS[:2], MEMBERS, "failed", "2 ranks on 1 host (w0)"),
        (RANKS, Members(4, 3, 2), "failed", "4 ranks on 2 hosts (w0, w1)"),
        (RANKS, Members(5, 2, 2), "failed", "4 ranks on 2 hosts (w0, w1)"),
    ],
)
def test_ranks(ranks: tuple[RankLine, ...], members: Members, verdict: str, actual: str) -> None:
    seen = log(ranks=ranks, rows=(row(busbw=ALGBW * 2 * (len(ranks) - 1) / len(ranks)),))
    found = found_of("ranks", seen, NcclAsked(members=members))
    assert found is not None
    assert (found.verdict, found.actual) == (verdict, actual)
    assert found.expected == f"{members.ranks} ranks on {members.hosts} hosts"
    assert found.next_step == ("" if verdict == "passed" else "look at the hostfile and the slots")


@pytest.mark.parametrize(
    ("channels", "what", "verdict", "actual", "step"),
    [
        (BOTH, "rails", "passed", "2 on w0, 2 on w1", ""),
        (
            Channels(devices_by_host={"w0": (0, 1), "w1": (0,)}),
            "rails",
            "failed",
            "2 on w0, 1 on w1",
            "a rail is missing on w1: look at its link and its VF",
        ),
        (
            Channels(devices_by_host={"w0": (0,), "w1": (0, 1)}),
            "adapters",
            "failed",
            "1 on w0, 2 on w1",
            "an adapter carries nothing on w0: look at its link",
        ),
        (
            Channels(),
            "rails",
            "error",
            "no network channel",
            "a rail is missing on all hosts: look at its link and its VF",
        ),
        (
            Channels(devices_by_host={"w0": (0, 1)}),
            "rails",
            "error",
            "2 on w0",
            "a rail is missing on all hosts: look at its link and its VF",
        ),
    ],
)
def test_rails(channels: Channels, what: str, verdict: str, actual: str, step: str) -> None:
    members = Members(4, 2, 2, what)
    found = found_of("rails", log(channels=channels), NcclAsked(members=members))
    assert found is not None
    assert found.expected == f"2 {what} in the channels of every host"
    assert (found.verdict, found.actual, found.next_step) == (verdict, actual, step)


def test_what_is_not_asked_is_not_judged() -> None:
    assert [each.check for each in judge_run(log(), NcclAsked())] == [
        "completeness",
        "correctness",
        "transport",
    ]
    seen = log(channels=Channels(net={"IB": 4}, gdr=1))
    loose = found_of("gpudirect", seen, NcclAsked(gdr=False))
    assert loose is not None
    assert (loose.verdict, loose.actual) == ("skipped", "1 of 4 channels")
    strict = found_of("gpudirect", seen, NcclAsked(gdr=True))
    assert strict is not None
    assert strict.verdict == "failed"


def test_a_run_that_failed_or_is_not_whole_says_why_and_no_more() -> None:
    failure = LogFailure(kind="cuda", line="CUDA error", meaning="the GPU")
    (failed,) = judge_run(log(failures=(failure,)), NcclAsked())
    assert (failed.check, failed.verdict, failed.actual) == ("run", "failed", "cuda: CUDA error")
    cut = log(has_footer=False)
    (unfinished,) = judge_run(cut, NcclAsked())
    assert (unfinished.check, unfinished.verdict) == ("completeness", "error")
    (warned,) = judge_run(log(has_footer=False, warnings=("odd",)), NcclAsked())
    assert (warned.check, warned.actual) == ("run", "nccl_warning: odd")
    (whole,) = judge_run(log(nranks=9, warnings=("odd",)), NcclAsked())
    assert (whole.check, whole.verdict) == ("completeness", "error")
    corrupt = judge_run(log(has_footer=False, rows=(row(wrong=1),)), NcclAsked())
    assert [each.check for each in corrupt] == ["completeness", "correctness", "transport"]


def test_runs_that_knew_nothing_of_each_other() -> None:
    alone = log(ranks=RANKS[:1], rows=(row(busbw=0.0),))
    (apart,) = judge_runs(alone.model_copy(update={"other_runs": (alone,)}), "p", NcclAsked())
    assert (apart.verdict, apart.actual) == ("failed", "2 separate runs with a rank 0 each")
    two = log(other_runs=(log(),))
    subjects = {each.subject for each in judge_runs(two, "p", NcclAsked())}
    assert subjects == {"p, run 1 of 2", "p, run 2 of 2"}
    assert {each.subject for each in judge_runs(log(), "p", NcclAsked())} == {"p"}
