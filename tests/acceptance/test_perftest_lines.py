"""Rows, fields and runs of perftest, one by one; expectations are written by hand."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.judge.log import judge_perftest_text
from components.acceptance.logs.log_model import LatencyRow, PerftestLog, PerftestRow
from components.acceptance.logs.perftest import bandwidth_row, parse_perftest_log

GID: Final = "00:00:00:00:00:00:00:00:00:00:255:255:10:10:111:11"
CUT: Final = " 65536 5000 92.42 92.40"
ODD: Final = " 65536 5000 92.42 95.40 0.176239"
CELLS: Final = {
    "bytes": "65536",
    "iterations": "5000",
    "peak": "92.42",
    "average": "92.40",
    "MsgRate": "0.176239",
}


def test_a_bandwidth_row() -> None:
    """0.176239 million messages of 65,536 B a second are 92.400 Gb/s."""
    assert bandwidth_row("Gb/sec", CELLS) == PerftestRow(
        size_bytes=65536,
        iterations=5000,
        peak_gbit_s=92.42,
        average_gbit_s=92.4,
        rate_mpps=0.176239,
    )
    old = {key: word for key, word in CELLS.items() if key != "MsgRate"} | {"CPU_Util": "7.5"}
    found = bandwidth_row("Gb/sec", old)
    assert found is not None
    assert (found.rate_mpps, found.cpu_percent) == (None, 7.5)
    mebi = bandwidth_row("MB/sec", CELLS | {"peak": "1000", "average": "1000", "MsgRate": "0.016"})
    assert mebi is not None
    assert (mebi.peak_gbit_s, mebi.average_gbit_s) == pytest.approx((8.388608, 8.388608))


@pytest.mark.parametrize(
    ("unit", "changes"),
    [
        ("furlong", {}),
        ("Gb/sec", {"bytes": "1.5"}),
        ("Gb/sec", {"iterations": "x"}),
        ("Gb/sec", {"average": "92.51"}),
        ("Gb/sec", {"average": "92.29"}),
        ("Gb/sec", {"MsgRate": "0.1765"}),
    ],
)
def test_a_bandwidth_row_that_cannot_be(unit: str, changes: dict[str, str]) -> None:
    assert bandwidth_row(unit, CELLS | changes) is None
    for name in ("bytes", "iterations", "peak", "average"):
        assert bandwidth_row("Gb/sec", {k: word for k, word in CELLS.items() if k != name}) is None


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        # 0.1 % of 92.4, and half of a digit of each: 0.0924 + 0.005 + 0.0003.
        ({"average": "92.49"}, True),
        ({"average": "92.31"}, True),
        # A rate of two digits may be 0.175 to 0.185: 91.8 to 97.0.
        ({"MsgRate": "0.18", "average": "91.70"}, True),
        ({"MsgRate": "0.18", "average": "91.50"}, False),
        ({"average": "92"}, True),
        ({"average": "93"}, False),
    ],
)
def test_digits_that_are_not_printed_are_not_known(changes: dict[str, str], *, fits: bool) -> None:
    assert (bandwidth_row("Gb/sec", CELLS | changes) is not None) is fits


HEAD: Final = " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
RULE: Final = "-" * 60 + "\n"
GOOD: Final = " 65536 5000 92.42 92.40 0.176239\n"
SLOWER: Final = " 65536 5000 90.00 89.00 0.169754\n"
TITLE: Final = "                    RDMA_Write BW Test\n"


def parsed(text: str) -> PerftestLog:
    found = parse_perftest_log(text)
    assert isinstance(found, PerftestLog)
    return found


@pytest.mark.parametrize(
    ("text", "averages", "bad", "ended"),
    [
        (HEAD + GOOD + RULE, [92.4], (), True),
        (HEAD + GOOD, [92.4], (), False),
        (HEAD + GOOD + SLOWER + RULE, [89.0], (), True),
        (HEAD + SLOWER + GOOD + RULE, [89.0], (), True),
        (HEAD + " 65536 5000 92.42\n" + RULE, [], ("65536 5000 92.42",), True),
        (HEAD + " 65536 5000 92.42", [], ("65536 5000 92.42",), False),
        (f"{HEAD}{CUT}\nnote\n{GOOD}", [92.4], (CUT.strip(),), False),
        (HEAD + " 65536\nnote\n" + GOOD + RULE, [92.4], (), True),
        (HEAD + " 65536 5000\n 92.42 92.40 0.176239\n" + RULE, [92.4], (), True),
        (
            HEAD + " 65536 5000 92.42 92.40 0.176239 7\n" + RULE,
            [92.4],
            ("65536 5000 92.42 92.40 0.176239 7",),
            True,
        ),
        (f"{HEAD}{ODD}\n", [], (ODD.strip(),), False),
        (HEAD + RULE + GOOD, [], (), True),
        (HEAD + GOOD + RULE + SLOWER, [89.0], (), True),
        (HEAD.strip() + GOOD.rstrip() + RULE, [92.4], (), True),
        (GOOD + HEAD + GOOD + RULE, [92.4], (), True),
    ],
)
def test_rows_of_a_table(
    text: str, averages: list[float], bad: tuple[str, ...], *, ended: bool
) -> None:
    found = parsed(text)
    assert [each.average_gbit_s for each in found.rows] == averages
    assert (found.bad_rows, found.ended) == (bad, ended)


LATENCIES: Final = " #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n"


@pytest.mark.parametrize(
    ("line", "rows", "bad"),
    [
        ("2 1000 1.40 1.90 1.45 1.50", [(2, 1.45, 1.5)], 0),
        ("2 1000 1.45 1.50 1.45 1.50", [(2, 1.45, 1.5)], 0),
        ("2 1000 1.46 1.90 1.45 1.50", [], 1),
        ("2 1000 1.51 1.90 1.55 1.50", [], 1),
        ("2 1000 1.40 1.44 1.45 1.50", [], 1),
        ("2 1000 1.40 1.48 1.45 1.50", [(2, 1.45, 1.5)], 0),
    ],
)
def test_rows_of_a_latency_table(line: str, rows: list[tuple[int, float, float]], bad: int) -> None:
    """The smaller of typical and average lies between least and most."""
    found = parsed(f"{LATENCIES}{line}\n{RULE}")
    assert [(each.size_bytes, each.typical_us, each.average_us) for each in found.latency] == rows
    assert len(found.bad_rows) == bad


def test_a_latency_table_without_least_most_and_typical() -> None:
    found = parsed(f" #bytes #iterations t_avg[usec] tps average\n2 1000 1.50 600000\n{RULE}")
    assert found.latency == (LatencyRow(size_bytes=2, typical_us=1.5, average_us=1.5),)


FIELDS: Final = (
    f"{TITLE} Dual-port       : OFF          Device         : mlx5_0\n"
    " Connection type : RC           Using SRQ      : OFF\n"
    " Mtu             : 4096[B]\n Link type       : Ethernet\n GID index       : 3\n"
    " Transport type  : IB\n rdma_cm QPs     : OFF\n"
    f" GID: {GID}\n GID: {GID}\n"
)


def test_fields_above_the_table() -> None:
    found = parsed(FIELDS + HEAD + GOOD + RULE)
    assert (found.test, found.device, found.mtu_bytes) == ("RDMA_Write BW Test", "mlx5_0", 4096)
    assert (found.link_type, found.transport_type, found.connection_type) == (
        "Ethernet",
        "IB",
        "RC",
    )
    assert (found.gid_index, found.rdma_cm, found.unit) == (3, False, "Gb/sec")
    assert (found.gids, found.bidirectional, found.has_table) == ((GID, GID), False, True)
    assert (found.contradictions, found.notes, found.clock_unknown) == ((), (), False)


def test_what_is_not_shown_is_not_known() -> None:
    found = parsed(HEAD + GOOD + RULE)
    assert (found.mtu_bytes, found.gid_index, found.rdma_cm) == (None, None, None)
    assert (found.test, found.device, found.link_type) == ("", "", "")
    assert parsed(TITLE).has_table is False


def test_ends_that_differ_contradict_each_other() -> None:
    other = " Link type : IB\n Connection type : UD\n Transport type : IW\n Device : mlx5_9\n"
    found = parsed(FIELDS + other + TITLE.replace("Write", "Read") + HEAD + GOOD + RULE)
    assert found.contradictions == (
        "Ethernet and IB",
        "RC and UD",
        "IB and IW",
        "RDMA_Write BW Test and RDMA_Read BW Test",
    )
    assert found.device == "mlx5_0"


def test_a_test_of_both_ways_and_one_of_a_duration() -> None:
    text = "  Send Bidirectional BW Test\n WARNING: BW peak won't be measured in this run.\n"
    found = parsed(text + HEAD + GOOD + RULE)
    assert (found.bidirectional, found.test) == (True, "Send Bidirectional BW Test")
    assert found.notes == ("duration mode: no peak is measured",)


def test_where_another_run_begins() -> None:
    """A server shows a header and a rule and no row: it is no run of its own."""
    one = TITLE + HEAD + GOOD + RULE
    assert [len(each.rows) for each in parsed(one + one).runs] == [1, 1]
    assert len(parsed(HEAD + GOOD + RULE + HEAD + SLOWER + RULE).runs) == 2
    assert len(parsed(TITLE + TITLE + HEAD + GOOD + RULE).runs) == 1
    assert [len(each.rows) for each in parsed(HEAD + RULE + one).runs] == [1]
    assert [len(each.rows) for each in parsed(HEAD + RULE).runs] == [0]


def test_the_summary_is_of_the_slowest_run() -> None:
    text = TITLE + HEAD + GOOD + RULE + TITLE + HEAD + SLOWER + RULE
    assert judge_perftest_text(text).summary == (
        "RDMA_Write BW Test, 89.00 Gb/s at 65536 B; the slowest of 2 runs"
    )
    assert judge_perftest_text(HEAD + GOOD + RULE).summary == "perftest, 92.40 Gb/s at 65536 B"
    line = f"{LATENCIES}2 1000 1.40 1.90 1.45 1.50\n{RULE}"
    assert judge_perftest_text(line).summary == "perftest, 1.45 us at 2 B"
    assert judge_perftest_text(HEAD + RULE).summary == "cannot be judged"
