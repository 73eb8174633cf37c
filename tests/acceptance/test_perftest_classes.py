"""The ways in which a log of perftest deceives, and its tables of every age."""

from __future__ import annotations

import pytest

from components.acceptance.judge.log import judge_perftest_text
from components.acceptance.judge.perftest_findings import PerftestLink
from tests.acceptance.recordings import load_perftest

DEEPOPS = load_perftest("deepops_dgx1_roce_flattened")
RULE = "-" * 87 + "\n"
RATE = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"


@pytest.mark.parametrize(
    ("old", "new", "expect", "code"),
    [
        ("RC", "RC", "roce", 0),
        ("RC", "RC", "ib", 1),
        # iWARP has Ethernet links too; EFA prints IB for the link that it does not name.
        ("Transport type : IB", "Transport type : IW", "roce", 1),
        ("Transport type : IB", "Transport type : Unknown", "roce", 1),
        ("Transport type : IB", "", "roce", 4),
        ("Connection type : RC", "Connection type : SRD", "roce", 1),
        ("Connection type : RC", "Connection type : SRD", "ib", 1),
        ("Link type : Ethernet", "", "roce", 4),
    ],
)
def test_the_transport_is_more_than_the_link(
    old: str, new: str, expect: PerftestLink, code: int
) -> None:
    assert judge_perftest_text(DEEPOPS.replace(old, new), expect).exit_code == code


def test_each_run_of_a_file_is_judged() -> None:
    cut = DEEPOPS.partition("65536")[0]
    other = DEEPOPS.replace("Link type : Ethernet", "Link type : IB")
    slow = DEEPOPS.replace("92.40", "12.40").replace("0.176230", "0.023651")
    assert judge_perftest_text(DEEPOPS + DEEPOPS, "roce", 90.0).exit_code == 0
    assert judge_perftest_text(f"{DEEPOPS}\n{cut}").exit_code == 4
    assert judge_perftest_text(f"{DEEPOPS}\n{other}", "roce").exit_code == 1
    assert judge_perftest_text(f"{DEEPOPS}\n{slow}", "roce", 90.0).exit_code == 1


def test_one_direction_of_two_is_judged() -> None:
    both = DEEPOPS.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
    both = both.replace("92.42 92.40 0.176230", "110.10 110.00 0.209808")
    assert judge_perftest_text(both, "roce", 54.9).exit_code == 0
    assert judge_perftest_text(both, "roce", 90.0).exit_code == 1


@pytest.mark.parametrize(
    ("table", "code"),
    [
        # Releases 1.5 to 3.x print no rate.
        ((" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n"
         " 65536      5000           11010.05           11008.02\n"), 0),
        # With service levels, and with the processor's share.
        (RATE.replace("#iterations", "#sl      #iterations")
         + " 65536   3   5000   92.42   92.40   0.176230\n", 0),
        (RATE.rstrip() + "    CPU_Util[%]\n 65536  5000  92.42  92.40  0.176230  3.12\n", 0),
        # Latency, by iterations and by duration.
        ((" #bytes        #iterations       t_avg[usec]    tps average\n"
         " 2             1000              2.03           492610.84\n"), 0),
        # A row that contradicts its rate, also where the rate has few digits.
        (RATE + " 65536      5000      92.42     192.40      0.176230\n", 4),
        (RATE + " 1073741824 5         300.00    300.00      0.000011\n", 4),
        (RATE + " 1073741824 5         94.48     94.48       0.000011\n", 0),
        # A row that lacks a number, and one that has one too many.
        (RATE + " 65536      5000      92.42     92.40\n", 4),
        (RATE + " 65536      5000      92.42     92.40      0.176230   7\n", 4),
        # A size of -a that is lost.
        (RATE + " 65536 5000 92.42 92.40 0.176230\n 262144 5000 92.42 92.40 0.044060\n", 4),
        # A row that its launcher cut.
        (RATE + "[1,0]<stdout>: 65536  5000 [1,1]<stdout>:hello\n[1,0]<stdout>:92.42  92.40  "
         "0.176230\n", 4),
    ],
)  # fmt: skip
def test_tables_are_read_by_their_header(table: str, code: int) -> None:
    verdict = judge_perftest_text(table + RULE)
    assert verdict.exit_code == code, verdict.lines


def test_a_table_without_its_rule_is_cut() -> None:
    assert judge_perftest_text(RATE + " 65536 5000 92.42 92.40 0.176230\n").exit_code == 4
