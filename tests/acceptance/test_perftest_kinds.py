"""Logs of perftest that look good and are not: what the tool says itself, raw packets, lost ends.

The texts of failures are those of perftest's sources at its tags (recorded/perftest_words.tsv), the
tables those of `RESULT_FMT_*` in src/perftest_parameters.h.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from components.acceptance.evidence import RailLimit
from components.acceptance.judge.log import judge_perftest_text
from components.acceptance.judge.perftest_findings import PerftestAsked, judge_perftest_runs
from components.acceptance.logs.lines import causes_of
from components.acceptance.logs.log_model import PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log

RULE: Final = "-" * 87 + "\n"
HEAD: Final = """                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
"""
LOCAL: Final = " local address: LID 0000 QPN 0x0117 PSN 0x6c4f7a RKey 0x1800b6 VAddr 0x007f3c\n"
REMOTE: Final = LOCAL.replace("local", "remote").replace("0117", "0118")
ONE: Final = "00:00:00:00:00:00:00:00:00:00:255:255:10:10:01:01"
OTHER: Final = ONE[:-2] + "02"
LINK_LOCAL: Final = "254:128:00:00:00:00:00:00:186:206:246:255:254:00:17:34"
COLUMNS: Final = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
ROW: Final = " 65536      5000             392.20             392.10 \t\t     0.747871\n"
ENDS: Final = f"{LOCAL} GID: {ONE}\n{REMOTE} GID: {OTHER}\n"
GOOD: Final = f"{RULE}{HEAD}{RULE}{ENDS}{RULE}{COLUMNS}\n{ROW}{RULE}"
PER_PORT: Final = COLUMNS + "".join(
    f"   BW Port{n}[Gb/sec]   MsgRate Port{n}[Mpps]" for n in (1, 2)
)
LATENCY: Final = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
)

RECORDED_WORDS: Final = [
    line.split("\t")
    for line in (Path(__file__).parent / "recorded" / "perftest_words.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def test_each_word_is_in_the_source() -> None:
    texts = [text for *_, text in RECORDED_WORDS]
    words = causes_of("perftest")
    assert [word for word in words if not any(map(word.pattern.search, texts))] == []


@pytest.mark.parametrize("text", [text for *_, text in RECORDED_WORDS])
def test_what_the_tool_says_of_a_failure_outweighs_a_whole_table(text: str) -> None:
    assert judge_perftest_text(GOOD, "roce", 350).exit_code == 0
    assert judge_perftest_text(f"{GOOD}{text}\n", "roce", 350).exit_code == 1


def test_a_validation_that_passed_is_no_failure() -> None:
    said = "VALIDATION: PASSED (server) - 640 chunks, 41943040 bytes\n"
    assert judge_perftest_text(GOOD + said, "roce", 350).exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("RC\t", "XRC\t", 0),
        ("RC\t", "DC\t", 0),
        ("RC\t", "RawEth\t", 1),
        ("RC\t", "SRD\t", 1),
        ("RC\t", "Future\t", 1),
        # The line is lost: a write is no raw packet, and a test called Send may be one.
        (" Connection type : RC\t\tUsing SRQ      : OFF\n", "", 0),
        ("RDMA_Write BW", "Send BW", 0),
    ],
)
def test_only_connections_of_rdma_are_roce(old: str, new: str, code: int) -> None:
    assert judge_perftest_text(GOOD.replace(old, new), "roce").exit_code == code
    assert judge_perftest_text(GOOD.replace(old, new)).exit_code == 0


def test_a_send_without_its_connection_may_be_raw() -> None:
    lost = GOOD.replace(" Connection type : RC\t\tUsing SRQ      : OFF\n", "")
    assert judge_perftest_text(lost.replace("RDMA_Write", "Send"), "roce").exit_code == 4
    assert judge_perftest_text(lost.replace("RDMA_Write", "Send_imm"), "roce").exit_code == 4
    assert judge_perftest_text(lost.replace("RDMA_Write", "RDMA_Write_imm"), "roce").exit_code == 0


@pytest.mark.parametrize(
    ("before", "floor", "code"),
    [
        ("", 350, 4),
        ("", 196.05, 0),
        ("", 392.2, 1),
        ("$ ib_write_bw -d mlx5_0 -F --report_gbits 10.10.1.2\n", 350, 0),
        ("$ ib_write_bw -d mlx5_0 -b --report_gbits 10.10.1.2\n", 350, 1),
        ("$ ib_send_bw --bidirectional 10.10.1.2\n", 190, 0),
    ],
)
def test_a_table_without_its_title_may_be_of_both_directions(
    before: str, floor: float, code: int
) -> None:
    tail = f"{before}{RULE}{COLUMNS}\n{ROW}{RULE}"
    assert judge_perftest_text(tail, None, floor).exit_code == code


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ("196.00 0.373840 196.10 0.374030", 0),
        ("196.00 0.373840 160.00 0.305176", 0),
        ("196.00 0.373840 150.00 0.286102", 1),
        ("392.10 0.747871 0.00 0.000000", 1),
        ("0.00 0.000000 0.00 0.000000", 1),
    ],
)
def test_each_port_of_a_card_carries_its_share(cells: str, code: int) -> None:
    table = GOOD.replace(COLUMNS, PER_PORT).replace("0.747871\n", f"0.747871   {cells}\n")
    assert judge_perftest_text(table, "roce", 350).exit_code == code


def test_a_row_without_the_ports_of_its_header_is_unreadable() -> None:
    assert judge_perftest_text(GOOD.replace(COLUMNS, PER_PORT), "roce", 350).exit_code == 4


def _latency(*rows: str) -> str:
    return f"{RULE}{HEAD.replace('BW', 'Latency')}{RULE}{ENDS}{RULE}{LATENCY}{''.join(rows)}{RULE}"


CALM: Final = " 2 1000 1.78 9.10 1.82 1.83 0.10 2.01 2.50\n"
STORM: Final = " 2 1000 1.78 4200000.00 1.82 4202.00 132000.00 2.01 4200000.00\n"


@pytest.mark.parametrize(
    ("log", "most", "tail", "code"),
    [
        (_latency(CALM), 1.82, 2.5, 0),
        (_latency(CALM), 1.81, None, 1),
        (_latency(CALM), None, 2.49, 1),
        (_latency(STORM), 2.0, None, 0),
        (_latency(STORM), 2.0, 50.0, 1),
        # Both ends of a test are in one log, and the worse one counts.
        (_latency(CALM, STORM), None, 50.0, 1),
        (GOOD, 2.0, None, 4),
        (GOOD, None, 50.0, 4),
    ],
)
def test_the_tail_of_a_latency(log: str, most: float | None, tail: float | None, code: int) -> None:
    asked = PerftestAsked(most_us=most, most_tail_us=tail)
    assert judge_perftest_text(log, "roce", None, asked).exit_code == code


def test_a_tail_in_any_row_of_one_packet_counts_and_longer_ones_are_slower_by_nature() -> None:
    rows = [f" {2**n} 1000 1.78 9.10 1.82 1.83 0.10 2.01 2.50\n" for n in range(1, 24)]
    storm = [*rows[:3], rows[3].replace("9.10", "9000").replace("2.50", "8000"), *rows[4:]]
    long = [*rows[:12], rows[12].replace("9.10", "9000").replace("2.50", "8000"), *rows[13:]]
    asked = PerftestAsked(most_tail_us=50.0)
    assert judge_perftest_text(_latency(*storm), "roce", None, asked).exit_code == 1
    assert judge_perftest_text(_latency(*long), "roce", None, asked).exit_code == 0


def test_a_duration_has_no_percentiles() -> None:
    head = " #bytes        #iterations       t_avg[usec]    tps average\n"
    log = _latency().replace(LATENCY, f"{head} 2 1000 1.50 600000.00\n")
    assert judge_perftest_text(log, "roce", None, PerftestAsked(most_us=2.0)).exit_code == 0
    assert judge_perftest_text(log, "roce", None, PerftestAsked(most_tail_us=9.0)).exit_code == 4


RAIL: Final = RailLimit(name="rail-0", line_rate_gbit_s=400, networks=("10.10.1.0/24",))
CARDS: Final = RAIL.model_copy(update={"devices": ("roce_r0",)})


@pytest.mark.parametrize(
    ("old", "new", "rail", "failed"),
    [
        ("", "", RAIL, []),
        (OTHER, ONE, RAIL, ["gid"]),
        (ONE, LINK_LOCAL, RAIL, ["gid"]),
        (OTHER, LINK_LOCAL, RAIL, ["gid"]),
        # Another rail's address, hexadecimal as documents have it, and an address of IPv6.
        ("10:10:01:02", "10:10:02:02", RAIL, ["gid"]),
        (OTHER, "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:0a:01:02", RAIL, []),
        (OTHER, "253:00:00:00:00:00:00:00:00:00:00:00:10:10:01:02", RAIL, ["gid"]),
        (OTHER, "00:00:00:00:00:00:00:00:00:00:255:255:10:10:01:999", RAIL, ["gid"]),
        ("mlx5_0", "mlx5_bond_0", RAIL, ["device"]),
        ("mlx5_0", "mlx5_bond_0", CARDS, ["device"]),
        ("mlx5_0", "roce_r0", CARDS, []),
        ("mlx5_0", "roce_r1", CARDS, ["device"]),
        ("392.10 \t\t     0.747871", "400.10 \t\t     0.763130", RAIL, ["line rate"]),
    ],
)
def test_a_planned_rail_is_compared(old: str, new: str, rail: RailLimit, failed: list[str]) -> None:
    log = parse_perftest_log(GOOD.replace(old, new) if old else GOOD)
    assert isinstance(log, PerftestLog)
    found = judge_perftest_runs(log, "p", PerftestAsked("roce", 300, "the file", rail=rail))
    assert [each.check for each in found if each.verdict == "failed"] == failed


def test_many_connections_have_two_gids_and_are_no_loopback() -> None:
    many = f"{LOCAL} GID: {ONE}\n" * 100 + f"{REMOTE} GID: {OTHER}\n" * 100
    log = parse_perftest_log(GOOD.replace(ENDS, many))
    assert isinstance(log, PerftestLog)
    assert log.gids == (ONE, OTHER)
