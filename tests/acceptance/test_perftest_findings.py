"""What is found of one perftest; expectations are written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.acceptance.judge.perftest_findings import (
    PerftestAsked,
    judge_average,
    judge_gid,
    judge_link,
    judge_perftest_completeness,
    judge_perftest_run,
    judge_perftest_runs,
)
from components.acceptance.judge.verdict import Finding, Verdict
from components.acceptance.logs.log_model import (
    LatencyRow,
    LogFailure,
    PerftestLog,
    PerftestRow,
)

BUSY: Final = "run it again while the sending host is idle"
STILL: Final = "a row in which no message arrived"
AGAIN: Final = "take the log of the client again"
GID: Final = "00:00:00:00:00:00:00:00:00:00:255:255:10:10:111:11"
OTHER: Final = GID[:-2] + "12"
ZEROS: Final = ":".join(["00"] * 16)


def row(size: int = 65536, average: float = 90.0, rate: float | None = 0.17) -> PerftestRow:
    return PerftestRow(
        size_bytes=size, iterations=5000, peak_gbit_s=99.0, average_gbit_s=average, rate_mpps=rate
    )


def log(**changes: Any) -> PerftestLog:  # noqa: ANN401 - any field of a log
    whole: dict[str, Any] = {
        "test": "RDMA_Write BW Test",
        "link_type": "Ethernet",
        "transport_type": "IB",
        "connection_type": "RC",
        "mtu_bytes": 4096,
        "gids": (GID, OTHER),
        "rows": (row(),),
        "has_table": True,
        "ended": True,
    }
    return PerftestLog(**(whole | changes))


SCAN: Final = tuple(row(2**n) for n in range(1, 24))
"""What `-a` prints."""
ALL_SIZES: Final = ", and -a goes from 2 B to 8388608 B"
LATENCY_OF_4: Final = LatencyRow(size_bytes=4, typical_us=1, average_us=1)
LATENCY: Final = LatencyRow(size_bytes=2, typical_us=1.4, average_us=1.5)


@pytest.mark.parametrize(
    ("changes", "verdict", "actual", "detail"),
    [
        ({}, "passed", "1 row", ""),
        ({"rows": SCAN, "notes": ("one", "two")}, "passed", "23 rows", "one; two"),
        ({"rows": SCAN[1:]}, "error", f"rows are missing: 4 B to 8388608 B{ALL_SIZES}", ""),
        ({"rows": SCAN[:-1]}, "error", f"rows are missing: 2 B to 4194304 B{ALL_SIZES}", ""),
        ({"rows": SCAN[:12], "connection_type": "UD"}, "passed", "12 rows", ""),
        (
            {"rows": SCAN[:11], "connection_type": "UD"},
            "error",
            "rows are missing: 2 B to 2048 B, and -a goes from 2 B to 4096 B",
            "",
        ),
        ({"rows": (), "latency": (LATENCY,)}, "passed", "1 row", ""),
        ({"bad_rows": ("x", "y")}, "error", "2 unreadable rows", "the first: x"),
        ({"rows": ()}, "error", "no result row", ""),
        ({"ended": False}, "error", "cut off: the rule under the table is missing", ""),
        (
            {"contradictions": ("IB and Ethernet", "RC and UD")},
            "error",
            "the two ends differ: IB and Ethernet",
            "",
        ),
        ({"rows": (row(2), row(8))}, "error", "rows are missing: from 2 B to 8 B", ""),
        (
            {"rows": (SCAN[0], *SCAN[2:]), "latency": (LATENCY_OF_4,)},
            "passed",
            "22 rows",
            "",
        ),
        ({"rows": (row(average=0.0, rate=0.0),)}, "failed", STILL, ""),
        ({"rows": (row(average=0.0, rate=None),)}, "failed", STILL, ""),
        ({"rows": (row(average=0.0),)}, "passed", "1 row", ""),
        ({"rows": (row(rate=0.0),)}, "passed", "1 row", ""),
        ({"clock_unknown": True}, "passed", "1 row", ""),
    ],
)
def test_completeness(changes: dict[str, Any], verdict: Verdict, actual: str, detail: str) -> None:
    assert judge_perftest_completeness(log(**changes)) == Finding(
        check="completeness",
        verdict=verdict,
        expected="a whole table with a result",
        actual=actual,
        detail=detail,
        next_step="" if verdict == "passed" else AGAIN,
    )


@pytest.mark.parametrize(
    ("changes", "actual", "step"),
    [
        (
            {"rows": (row(average=0.0, rate=0.0),)},
            "no rate: perftest could not measure the processor's clock",
            BUSY,
        ),
        (
            {"bad_rows": ("x",)},
            "no rate: perftest could not measure the processor's clock",
            BUSY,
        ),
        ({"rows": ()}, "no result row", BUSY),
    ],
)
def test_completeness_without_a_clock(changes: dict[str, Any], actual: str, step: str) -> None:
    found = judge_perftest_completeness(log(clock_unknown=True, **changes))
    assert (found.verdict, found.actual, found.next_step) == ("error", actual, step)


@pytest.mark.parametrize(
    ("changes", "verdict", "actual", "step"),
    [
        ({}, "passed", GID, ""),
        (
            {"gids": (GID, ZEROS)},
            "failed",
            "a GID of zeros",
            "the interface lacks an address on that rail, or -x is wrong",
        ),
        ({"gids": ()}, "skipped", "not shown", ""),
        (
            {"gids": (GID, GID)},
            "error",
            f"{GID} at both ends: a port that sends to itself, over no cable",
            "run the server on another host, and call it by its address on that rail",
        ),
        ({"link_type": "IB"}, "skipped", "not shown", ""),
    ],
)
def test_gids(changes: dict[str, Any], verdict: Verdict, actual: str, step: str) -> None:
    assert judge_gid(log(**changes)) == Finding(
        check="gid",
        verdict=verdict,
        expected="a GID" if verdict == "skipped" else "a GID at both ends",
        actual=actual,
        next_step=step,
    )


@pytest.mark.parametrize(
    ("changes", "expect", "verdict", "actual", "detail"),
    [
        ({}, "roce", "passed", "Ethernet", ""),
        ({"link_type": "IB"}, "ib", "passed", "IB", ""),
        ({}, "ib", "failed", "Ethernet", ""),
        ({"link_type": "IB"}, "roce", "failed", "IB", ""),
        ({"link_type": ""}, "roce", "error", "not shown", ""),
        (
            {"connection_type": "SRD", "link_type": "IB"},
            "ib",
            "failed",
            "SRD",
            "Amazon's EFA, whose link type is printed as IB",
        ),
        (
            {"transport_type": "IW"},
            "roce",
            "failed",
            "iWARP",
            "the transport is neither InfiniBand nor RoCE",
        ),
        (
            {"transport_type": "USNIC"},
            "roce",
            "failed",
            "USNIC",
            "the transport is neither InfiniBand nor RoCE",
        ),
        (
            {"transport_type": ""},
            "roce",
            "error",
            "Ethernet",
            "no line 'Transport type' says that it is not iWARP",
        ),
    ],
)
def test_links(
    changes: dict[str, Any], expect: Any, verdict: Verdict, actual: str, detail: str  # noqa: ANN401 - words
) -> None:  # fmt: skip
    assert judge_link(log(**changes), expect) == Finding(
        check="transport",
        verdict=verdict,
        expected="link type IB" if expect == "ib" else "link type Ethernet",
        actual=actual,
        detail=detail,
        next_step="" if verdict == "passed" else "look at the lines above the table",
    )


SLOW: Final = "look at the RDMA MTU, the PCIe width and the link speed"


@pytest.mark.parametrize(
    ("changes", "verdict", "actual", "step"),
    [
        ({}, "passed", "90.00 Gb/s at 65536 B, MTU 4096", ""),
        ({"rows": (row(average=89.99),)}, "failed", "89.99 Gb/s at 65536 B, MTU 4096", SLOW),
        ({"rows": (row(2, 1.0), row(4, 95.0))}, "passed", "95.00 Gb/s at 4 B, MTU 4096", ""),
        (
            {"rows": (row(4, 95.0), row(2, 99.0)), "mtu_bytes": None},
            "passed",
            "95.00 Gb/s at 4 B",
            "",
        ),
        (
            {"bidirectional": True, "rows": (row(average=180.0),)},
            "passed",
            "90.00 Gb/s each way at 65536 B, MTU 4096",
            "",
        ),
        (
            {"test": "", "call": "ib_write_bw -d mlx5_0"},
            "passed",
            "90.00 Gb/s at 65536 B, MTU 4096",
            "",
        ),
        (
            {"test": "", "rows": (row(average=180.0),)},
            "passed",
            "180.00 Gb/s at 65536 B, MTU 4096",
            "",
        ),
        (
            {"test": "", "rows": (row(average=179.9),)},
            "error",
            "179.90 Gb/s one way or both together at 65536 B, MTU 4096",
            "take the log from its title on",
        ),
        (
            {"test": "", "rows": (row(average=89.9),)},
            "failed",
            "89.90 Gb/s at 65536 B, MTU 4096",
            SLOW,
        ),
        ({"bidirectional": True}, "failed", "45.00 Gb/s each way at 65536 B, MTU 4096", SLOW),
        ({"rows": ()}, "error", "no row with a bandwidth", ""),
    ],
)
def test_averages(changes: dict[str, Any], verdict: Verdict, actual: str, step: str) -> None:
    assert judge_average(log(**changes), 90.0, "the file") == Finding(
        check="bandwidth",
        verdict=verdict,
        expected="average >= 90.00 Gb/s",
        actual=actual,
        detail="floor: the file",
        next_step=step,
    )


@pytest.mark.parametrize(
    ("mtu", "verdict", "actual", "step"),
    [
        (4096, "passed", "4096", ""),
        (1024, "failed", "1024", "look at the MTU of VF, PF and switch port"),
        (None, "error", "not shown", "look at the MTU of VF, PF and switch port"),
    ],
)
def test_the_mtu(mtu: int | None, verdict: str, actual: str, step: str) -> None:
    found = judge_perftest_run(log(mtu_bytes=mtu), PerftestAsked(mtu_bytes=4096))
    (of_mtu,) = (each for each in found if each.check == "mtu")
    assert (of_mtu.verdict, of_mtu.actual, of_mtu.next_step) == (verdict, actual, step)
    assert of_mtu.expected == "RDMA MTU 4096"


def test_only_what_is_asked_is_judged() -> None:
    def checks(seen: PerftestLog, asked: PerftestAsked) -> list[str]:
        return [each.check for each in judge_perftest_run(seen, asked)]

    every = PerftestAsked("roce", 0.0, "the file", 4096)
    assert checks(log(), every) == ["completeness", "transport", "gid", "mtu", "bandwidth"]
    assert checks(log(), PerftestAsked()) == ["completeness", "gid"]
    assert checks(log(rows=()), every) == ["completeness"]
    still = log(rows=(row(average=0.0, rate=0.0),))
    assert checks(still, every) == ["completeness", "transport", "gid", "mtu", "bandwidth"]
    failed = LogFailure(kind="memory", line="no memory", meaning="memlock")
    assert checks(log(failures=(failed,)), every) == ["run"]


def test_each_run_has_a_name() -> None:
    two = log(other_runs=(log(),))
    subjects = {each.subject for each in judge_perftest_runs(two, "p", PerftestAsked())}
    assert subjects == {"p, run 1 of 2", "p, run 2 of 2"}
    assert {each.subject for each in judge_perftest_runs(log(), "p", PerftestAsked())} == {"p"}
