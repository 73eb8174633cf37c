from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.acceptance.logs.log_model import ParseProblem, PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from tests.acceptance.recordings import load_perftest

HEAD = " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
RULE = "-" * 87 + "\n"


def parsed(text: str) -> PerftestLog:
    log = parse_perftest_log(text)
    assert isinstance(log, PerftestLog)
    return log


def table(unit: str, *rows: str) -> str:
    return HEAD.format(unit=unit) + "".join(f"{row}\n" for row in rows) + RULE


def test_reads_the_flattened_document() -> None:
    log = parsed(load_perftest("deepops_dgx1_roce_flattened"))
    assert [(row.size_bytes, row.iterations) for row in log.rows] == [(65536, 5000)]
    assert (log.rows[0].peak_gbit_s, log.rows[0].average_gbit_s) == (92.42, 92.40)
    assert (log.mtu_bytes, log.link_type, log.gid_index, log.rdma_cm) == (
        4096,
        "Ethernet",
        3,
        True,
    )
    assert log.device == "mlx5_0"
    assert len(log.gids) == 2
    assert log.notes
    assert log.ended


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec"])
def test_both_names_of_a_mebibyte_are_gigabits(unit: str) -> None:
    log = parsed(table(unit, " 8388608    20000   24056.74   24056.72   0.003007"))
    assert log.rows[0].average_gbit_s == pytest.approx(201.8, abs=0.05)


def test_tabs_noise_and_both_ends_in_one_log() -> None:
    row = " 65536      5000             194.39             193.21\t\t   0.368459"
    noise = (
        "Conflicting CPU frequency values detected: 1200.535000 != 1251.336000. "
        "CPU Frequency is not max."
    )
    log = parsed(table("Gb/sec", noise, row, row))
    assert [item.average_gbit_s for item in log.rows] == [193.21]


def test_all_sizes_and_duration_mode() -> None:
    log = parsed(
        table(
            "Gb/sec",
            " 65536      560960           0.00               98.03              0.186974",
            " 8388608    5000             196.56             196.55             0.002929",
        )
    )
    assert [row.peak_gbit_s for row in log.rows] == [0.0, 196.56]


def test_a_number_that_contradicts_the_rate_is_a_bad_row() -> None:
    log = parsed(table("Gb/sec", " 65536      5000      92.42      192.40      0.176230"))
    assert log.rows == ()
    assert len(log.bad_rows) == 1


def test_latency_table() -> None:
    text = (
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
        "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
        " 2       1000          1.42           1.93         1.47                1.47"
        "             0.00            1.57                    1.93\n" + RULE
    )
    log = parsed(text)
    assert [(row.size_bytes, row.typical_us) for row in log.latency] == [(2, 1.47)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device", "no_device"),
        (" Port number 1 state is Down\n Couldn't set the link layer", "link_down"),
        ("Received 10 times ADDR_ERROR\n Unable to perform rdma_client function", "no_route"),
        (" Completion with error at client\n Failed status 12: wr_id 0", "retry_exceeded"),
        ("Failed status-transport retry counter exceeded (12): wr_id 0", "retry_exceeded"),
        ("Couldn't connect to 10.0.0.1:18515", "control_connection"),
        (" Couldn't create CQ\n Couldn't create IB resources", "memory"),
    ],
)
def test_failures_have_a_first_cause(text: str, kind: str) -> None:
    causes = [item for item in parsed(text).failures if not item.is_consequence]
    assert causes[0].kind == kind


@given(st.text(max_size=400))
def test_never_raises_on_any_text(text: str) -> None:
    assert isinstance(parse_perftest_log(text), PerftestLog | ParseProblem)


_WORDS = load_perftest("deepops_dgx1_roce_flattened").split(" ")


@given(st.lists(st.sampled_from([*_WORDS, "\n"]), max_size=80))
def test_never_raises_on_torn_logs(words: list[str]) -> None:
    assert isinstance(parse_perftest_log(" ".join(words)), PerftestLog | ParseProblem)
