"""perftest's own JSON, as `write_test_info_to_file` and its formats print it, of both ages."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.judge.log import judge_perftest_text
from components.acceptance.logs.log_model import (
    LatencyRow,
    ParseProblem,
    PerftestLog,
    PerftestRow,
)
from components.acceptance.logs.perftest import parse_perftest_log

WRITE: Final = """\
{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Dual_port": "OFF",
"Device": "mlx5_0",
"Number_of_qps": 1,
"Transport_type": "IB",
"Connection_type": "RC",
"Using_SRQ": "OFF",
"PCIe_relax_order": "ON",
"ibv_wr_API": "ON",
"TX_depth": 128,
"CQ_Moderation": 1,
"Mtu": 4096,
"Link_type": "Ethernet",
"GID_index": 3,
"Max_inline_data": 0,
"rdma_cm_QPs": "ON",
"Use_ROCm_memory": "OFF",
"Use_MUSA_memory": "OFF",
"Data_ex_method": "rdma_cm",
"TOS": 106
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": 92.42,
"BW_average": 92.40,
"MsgRate": 0.176230
}
}
"""
OLD: Final = """\
{
test_info: {
test: RDMA_Write_BW_Test,
Dual_port: OFF,
Device: "mlx5_0",
Number_of_qps: 1,
Transport_type: IB,
Connection_type: RC,
Using_SRQ: OFF,
 PCIe_relax_order: Unsupported,
ibv_wr_API: ON,
TX_depth : 128,
CQ_Moderation: 1,
Mtu: 4096,
Link_type: Ethernet,
GID_index: 3,
Max_inline_data: 0,
rdma_cm_QPs: ON,
Use_ROCm_memory: OFF,
Data_ex_method: rdma_cm,
TOS: 106,
},
results: {
MsgSize: 65536,
n_iterations: 5000,
BW_peak: 92.42,
BW_average: 92.40,
MsgRate: 0.176230,
},
}
"""
LATENCY: Final = """\
{
"test_info": {
"test": "RDMA_Read_Latency_Test",
"Device": "mlx5_0",
"Transport_type": "IB",
"Connection_type": "RC",
"Mtu": 4096,
"Link_type": "IB",
"rdma_cm_QPs": "OFF",
"Data_ex_method": "Ethernet"
},
"results": {
"MsgSize": 2,
"n_iterations": 1000,
"t_min": 5.35,
"t_max": 11.78,
"t_typical": 5.49,
"t_avg": 5.50,
"t_stdev": 0.18,
"percentile_99": 5.74,
"percentile_99.9": 11.78
}
}
"""
MB: Final = '"BW_average": 11014.94'
"""92.40 Gb/s in units of 2^20 bytes a second."""


def read(text: str) -> PerftestLog:
    log = parse_perftest_log(text)
    assert isinstance(log, PerftestLog)
    return log


@pytest.mark.parametrize("text", [WRITE, OLD, WRITE.replace('"n_it', 'sl: 0,\n"n_it')])
def test_a_document_is_read_as_the_table_is(text: str) -> None:
    log = read(text)
    assert (log.test, log.device, log.link_type) == ("RDMA_Write BW Test", "mlx5_0", "Ethernet")
    assert (log.transport_type, log.connection_type) == ("IB", "RC")
    assert (log.mtu_bytes, log.gid_index, log.rdma_cm) == (4096, 3, True)
    assert (log.unit, log.bidirectional, log.has_table, log.ended) == ("Gb/sec", False, True, True)
    assert log.rows == (
        PerftestRow(
            size_bytes=65536,
            iterations=5000,
            peak_gbit_s=92.42,
            average_gbit_s=92.4,
            rate_mpps=0.17623,
        ),
    )
    assert judge_perftest_text(text, "roce", 92.4).exit_code == 0
    assert judge_perftest_text(text, "roce", 92.41).exit_code == 1
    assert judge_perftest_text(text, "ib", 92.4).exit_code == 1


def test_the_unit_follows_from_size_and_rate() -> None:
    text = WRITE.replace('"BW_average": 92.40', MB).replace(
        '"BW_peak": 92.42', '"BW_peak": 11017.32'
    )
    log = read(text)
    assert log.unit == "MB/sec"
    assert log.rows[0].average_gbit_s == pytest.approx(92.4, abs=0.001)
    assert judge_perftest_text(text, "roce", 92.3).exit_code == 0
    assert judge_perftest_text(text, "roce", 92.5).exit_code == 1


def test_a_row_without_messages_has_no_unit_and_is_a_failure() -> None:
    text = WRITE.replace("92.4", "0.0").replace("0.176230", "0.000000")
    text = text.replace("0.02", "0.00")
    verdict = judge_perftest_text(text, "roce")
    assert verdict.exit_code == 1
    assert verdict.findings[0].actual == "a row in which no message arrived"


@pytest.mark.parametrize(
    ("change", "actual"),
    [
        (("92.40", "192.40"), "1 unreadable rows"),
        (("92.40", "nan"), "it looks like JSON, but not that of perftest: "),
        (("92.40", "NaN"), "it looks like JSON, but not that of perftest: "),
        (("92.40", "1e400"), "1 unreadable rows"),
        (("92.40", "-92.40"), "1 unreadable rows"),
        (("92.40", "92,40"), "it looks like JSON, but not that of perftest: "),
        (('"MsgSize": 65536', '"MsgSize": 6.5'), "1 unreadable rows"),
        (
            ('"Mtu": 4096', '"Mtu": "big"'),
            "it looks like JSON, but not that of perftest: mtu: 'big'",
        ),
        (
            ('"Device": "mlx5_0"', '"Device": "a b"'),
            "it looks like JSON, but not that of perftest: ",
        ),
        (("results", "result"), "it looks like JSON, but not that of perftest: no results"),
        (
            ('"MsgSize": 65536,', ""),
            "it looks like JSON, but not that of perftest: results: no Msg",
        ),
        (
            ('"results": {', '"results": 3, "x": {'),
            "it looks like JSON, but not that of perftest: no",
        ),
        # 1 GiB: a rate of one or two millionths says neither Gb/s nor MB/s.
        (("0.176230", "0.000000"), "1 unreadable rows"),
    ],
)
def test_what_contradicts_itself_is_not_believed(change: tuple[str, str], actual: str) -> None:
    verdict = judge_perftest_text(WRITE.replace(*change), "roce", 1)
    assert verdict.exit_code == 4
    assert verdict.findings[0].actual.startswith(actual)


def test_a_rate_too_small_to_tell_the_unit() -> None:
    text = WRITE.replace("65536", "1073741824").replace("0.176230", "0.000000")
    text = text.replace("92.40", "0.04").replace("92.42", "0.04")
    verdict = judge_perftest_text(text, "roce", 1)
    assert verdict.exit_code == 4
    assert "no unit is shown" in verdict.findings[0].detail


@pytest.mark.parametrize("end", range(1, len(WRITE) - 2, 23))
def test_a_document_that_is_cut_is_none(end: int) -> None:
    for text in (WRITE, OLD):
        assert judge_perftest_text(text[: min(end, len(text) - 3)]).exit_code == 4


def test_latency_and_both_directions() -> None:
    log = read(LATENCY)
    assert log.test == "RDMA_Read Latency Test"
    assert log.latency == (
        LatencyRow(size_bytes=2, typical_us=5.49, average_us=5.5, tail_us=11.78),
    )
    assert judge_perftest_text(LATENCY, "ib").summary == "RDMA_Read Latency Test, 5.49 us at 2 B"
    both = WRITE.replace("Write_BW", "Write_Bidirectional_BW")
    assert read(both).bidirectional
    assert judge_perftest_text(both, "roce", 46.2).exit_code == 0
    assert judge_perftest_text(both, "roce", 46.3).exit_code == 1


def test_of_several_documents_each_counts() -> None:
    slow = WRITE.replace("92.4", "46.2").replace("0.176230", "0.088120")
    verdict = judge_perftest_text(WRITE + slow, "roce", 90)
    assert verdict.exit_code == 1
    assert verdict.summary.startswith("RDMA_Write BW Test, 46.20 Gb/s at 65536 B")
    assert verdict.summary.endswith("the slowest of 2 runs")
    assert isinstance(parse_perftest_log(WRITE * 201), ParseProblem)
    assert len(read(WRITE * 200).runs) == 200


def test_iwarp_and_efa_are_neither_in_json() -> None:
    assert judge_perftest_text(WRITE.replace('e": "IB"', 'e": "IW"'), "roce").exit_code == 1
    assert judge_perftest_text(WRITE.replace('"RC"', '"SRD"'), "roce").exit_code == 1
