from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.acceptance.logs.log_model import NcclLog, ParseProblem
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import load_nccl


def parsed(text: str) -> NcclLog:
    log = parse_nccl_log(text)
    assert isinstance(log, NcclLog)
    return log


@pytest.mark.parametrize(
    ("name", "rows", "largest_busbw", "peer", "nets"),
    [
        ("all_reduce_nvlink", 30, 344.94, 48, {}),
        ("all_reduce_socket", 6, 4.62, 0, {"Socket": 8}),
        ("h200x4_all_reduce_4gpu", 6, 356.09, 96, {}),
        ("h200x4_alltoall_4gpu", 6, 338.93, 384, {}),
        ("h200x4_sendrecv_4gpu", 6, 360.19, 128, {}),
        ("h200x4_two_hosts_tagged", 3, 6.0, 8, {"Socket": 16}),
        ("torch_two_hosts_rank0", 1, 4.85, 0, {"Socket": 4}),
        ("deepops_dgx1_roce", 29, 22.92, 0, {}),
        ("crusoe_h100_ib", 2, 388.26, 0, {"IBext": 3}),
    ],
)
def test_reads_every_recorded_log(
    name: str, rows: int, largest_busbw: float, peer: int, nets: dict[str, int]
) -> None:
    log = parsed(load_nccl(name))
    assert len(log.rows) == rows
    assert log.rows[-1].out_of_place.busbw_gb_s == largest_busbw
    assert log.bad_rows == ()
    assert log.failures == ()
    assert (log.channels.peer, log.channels.net) == (peer, nets)


def test_reads_devices_and_gdr_of_the_crusoe_lines() -> None:
    log = parsed(load_nccl("crusoe_h100_ib"))
    assert log.nccl_version == "2.19.3+cuda12.2"
    assert [hca.device for hca in log.hosts[0].hcas][:5] == [
        "mlx5_0",
        "mlx5_1",
        "mlx5_2",
        "mlx5_3",
        "mlx5_5",
    ]
    assert log.channels.gdr == 3
    assert log.networks == {"IBext": 1}


def test_old_error_column_is_not_taken_for_a_count() -> None:
    row = parsed(load_nccl("deepops_dgx1_roce")).rows[-1]
    assert row.out_of_place.error == 5e-07
    assert row.out_of_place.wrong is None
    assert row.out_of_place.time_us == 175667


def test_tags_do_not_change_the_rows() -> None:
    text = load_nccl("all_reduce_nvlink")
    for tag in ("[1,0]<stdout>:", "[1,0]<stdout>: ", "[ns@1,3][vm:77]<stdout>: "):
        tagged = "".join(f"{tag}{line}\n" for line in text.splitlines())
        assert parsed(tagged).rows == parsed(text).rows


def test_labels_inside_a_row_are_removed() -> None:
    head = (
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "# Out of bounds values : 0 OK\n"
    )
    row = (
        "[0]     1048576        262144     float     sum      -1[0]    1626.5    0.64    1.24"
        "      0[0]    2302.3    0.46    0.88      0\n"
    )
    log = parsed(head.replace("# Out", row + "# Out"))
    assert [item.out_of_place.busbw_gb_s for item in log.rows] == [1.24]


def test_a_row_cut_by_another_rank_is_joined() -> None:
    text = load_nccl("all_reduce_nvlink")
    start = "  4294967296    1073741824     float     sum      -1"
    cut = text.replace(start, f"{start}\nvm:1:1 [1] NCCL INFO hello\n")
    assert cut != text
    assert parsed(cut).rows == parsed(text).rows


@pytest.mark.parametrize("column", range(5, 13))
def test_a_changed_number_is_a_bad_row(column: int) -> None:
    text = load_nccl("all_reduce_nvlink")
    line = next(line for line in text.splitlines() if line.lstrip().startswith("1073741824"))
    words = line.split()
    words[column] = "7777"
    broken = parsed(text.replace(line, " ".join(words)))
    if column in (5, 6, 9, 10):
        assert len(broken.bad_rows) == 1
    else:
        assert broken != parsed(text)


def test_old_alltoall_rows_lack_a_column_that_the_header_has() -> None:
    text = (
        "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
        "8589934592 268435456 float 33646 255.31 223.39 N/A 32669 262.94 230.07 N/A\n"
    )
    log = parsed(text)
    assert log.bad_rows == ()
    assert log.rows[0].out_of_place.time_us == 33646


def test_time_stamps_of_rows_are_ignored() -> None:
    text = load_nccl("all_reduce_nvlink")
    stamped = re.sub(r"(?m)^(\s+\d+\s+\d+ +float.*)$", r"\1  2026-11-21 10:00:00", text)
    assert parsed(stamped).rows == parsed(text).rows


def test_failed_start_names_its_first_cause() -> None:
    log = parsed(load_nccl("h200x4_no_interface"))
    assert log.failures[0].kind == "no_interface"
    assert log.rows == ()


def json_document() -> dict[str, object]:
    half = {"time": 88429.0, "alg_bw": 12.14, "bus_bw": 22.77, "nwrong": 0}
    return {
        "version": 2,
        "args": ["/opt/all_reduce_perf", "-b", "1G"],
        "env": ["SECRET_TOKEN=hunter2"],
        "nccl_version": 22803,
        "config": {"maximum_bytes": 1 << 30, "devices": [{"rank": 0, "hostname": "w0"}]},
        "results": [
            {"size": 1 << 30, "type": "float", "root": "    -1", "out_of_place": half,
             "in_place": half}
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 22.77, "okay": "unchecked"},
        "end_time": "2026-11-21",
    }  # fmt: skip


def test_reads_json_and_leaves_the_environment_out() -> None:
    log = parsed(json.dumps(json_document()))
    assert log.collective == "all_reduce_perf"
    assert log.rows[0].worst_busbw_gb_s == 22.77
    assert log.has_footer
    assert "hunter2" not in log.model_dump_json()


@pytest.mark.parametrize("text", ["", "  \n\n", "hello\nworld", "{", '{"results": 3}', "[1,0]"])
def test_other_texts_are_problems(text: str) -> None:
    assert isinstance(parse_nccl_log(text), ParseProblem)


@given(st.text(max_size=400))
def test_never_raises_on_any_text(text: str) -> None:
    assert isinstance(parse_nccl_log(text), NcclLog | ParseProblem)


_LINES = load_nccl("h200x4_two_hosts_tagged").splitlines() + load_nccl("deepops_dgx1_roce").split(
    "\n"
)


@given(st.lists(st.tuples(st.sampled_from(_LINES), st.integers(0, 60)), max_size=40))
def test_never_raises_on_torn_logs(pieces: list[tuple[str, int]]) -> None:
    text = "".join(f"{line[cut:]}\n" if cut % 3 else line[: cut + 1] for line, cut in pieces)
    assert isinstance(parse_nccl_log(text), NcclLog | ParseProblem)
