from __future__ import annotations

import pytest

from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.judge.nccl_findings import Expectation
from components.acceptance.judge.perftest_findings import PerftestLink
from tests.acceptance.recordings import load_nccl, load_perftest


@pytest.mark.parametrize(
    ("name", "expect", "floor", "code"),
    [
        ("all_reduce_nvlink", None, None, 0),
        ("all_reduce_nvlink", "nvlink", 300.0, 0),
        ("all_reduce_nvlink", "nvlink", 400.0, 1),
        ("all_reduce_nvlink", "roce", None, 1),
        ("all_reduce_socket", None, None, 0),
        ("all_reduce_socket", "socket", None, 0),
        ("all_reduce_socket", "roce", None, 1),
        ("all_reduce_socket", "nvlink", None, 1),
        ("h200x4_alltoall_4gpu", "nvlink", 330.0, 0),
        ("h200x4_sendrecv_4gpu", "nvlink", None, 0),
        ("h200x4_two_hosts_tagged", "socket", None, 0),
        ("h200x4_two_hosts_tagged", "ib", None, 1),
        ("h200x4_two_hosts_tagged", "nvlink", None, 1),
        ("torch_two_hosts_rank0", "roce", None, 1),
        ("h200x4_no_interface", None, None, 1),
        ("deepops_dgx1_roce", None, 22.5, 0),
        ("deepops_dgx1_roce", None, 22.8, 1),
        ("deepops_dgx1_roce", "roce", None, 4),
        ("crusoe_h100_ib", "ib", 360.0, 0),
        ("crusoe_h100_ib", "ib", 390.0, 1),
        ("crusoe_h100_ib", "roce", None, 1),
    ],
)
def test_recorded_logs_get_their_exit_code(
    name: str, expect: Expectation | None, floor: float | None, code: int
) -> None:
    assert judge_nccl_text(load_nccl(name), expect, floor).exit_code == code


@pytest.mark.parametrize(
    "name",
    ["all_reduce_nvlink", "h200x4_alltoall_4gpu", "deepops_dgx1_roce", "torch_two_hosts_rank0"],
)
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_a_cut_log_cannot_be_judged(name: str, share: float) -> None:
    text = load_nccl(name)
    text = text[: int(len(text) * share)]
    text = text.partition("# Out of bounds")[0].partition("Destroy COMPLETE")[0]
    assert judge_nccl_text(text).exit_code == 4


@pytest.mark.parametrize(
    "text", ["", "\n", "not a log", load_perftest("deepops_dgx1_roce_flattened")]
)
def test_another_kind_of_log_cannot_be_judged(text: str) -> None:
    verdict = judge_nccl_text(text)
    assert (verdict.verdict, verdict.exit_code) == ("error", 4)


def test_without_expectation_the_transport_is_said_to_be_unproven() -> None:
    lines = judge_nccl_text(load_nccl("all_reduce_socket")).lines
    assert any("NET/Socket (not proven)" in line for line in lines)


def test_the_largest_row_stands_in_when_none_reaches_a_gibibyte() -> None:
    lines = judge_nccl_text(load_nccl("all_reduce_socket"), "socket", 4.0).lines
    assert any("no row reaches 1 GiB: the largest row, 256 MiB" in line for line in lines)


def test_wrong_values_fail_whatever_the_bandwidth() -> None:
    text = load_nccl("all_reduce_nvlink").replace(
        "# Out of bounds values : 0 OK", "# Out of bounds values : 3 FAILED"
    )
    verdict = judge_nccl_text(text, "nvlink", 1.0)
    assert verdict.exit_code == 1
    assert "3 wrong values" in "\n".join(verdict.lines)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("a NCCL WARN Call to ibv_modify_qp failed with error Network is down", "ibv_modify_qp"),
        ("NET/IB : Got completion with error 12, opcode 1, len 0", "retry_exceeded"),
        ("w: Test NCCL failure common.cu:921 'unhandled system error'", "nccl_failure"),
        ("mpirun detected that one or more processes exited with non-zero status", "rank_failed"),
        ("railyard: there is no RDMA device behind ens224 on vm02", "no_device"),
        ("railyard: no RoCE v2 GID with an IPv4 address of ens224 on mlx5_0 of vm02", "no_device"),
    ],
)
def test_failure_text_fails_a_log_with_a_perfect_table(line: str, kind: str) -> None:
    verdict = judge_nccl_text(f"{load_nccl('all_reduce_nvlink')}{line}\n")
    assert verdict.exit_code == 1
    assert kind in "\n".join(verdict.lines)


def test_the_first_cause_is_named_not_its_consequence() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL version 2.28.3\n"
        "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer b<41109>\n"
        "misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is down\n"
    )
    assert "ibv_modify_qp" in judge_nccl_text(text).findings[0].actual


def test_separate_single_rank_runs_fail() -> None:
    one = _single_rank_run()
    verdict = judge_nccl_text(one + one)
    assert verdict.exit_code == 1
    assert "2 separate runs" in "\n".join(verdict.lines)


def _single_rank_run() -> str:
    """What nccl-tests without MPI prints on each host: nothing is sent, and busbw is 0."""
    row = f"{1 << 30} {1 << 28} float sum -1 400.00 2684.4 0.00 0 400.00 2684.4 0.00 0"
    return (
        f"# nThread 1 nGpus 1 minBytes {1 << 30} maxBytes {1 << 30} step: 2(factor) "
        "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
        "#  Rank  0 Group  0 Pid   77 on worker-0 device  0 [0x06] NVIDIA H100\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong\n"
        f"{row}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n"
    )


def test_programs_that_one_launcher_started_apart_fail() -> None:
    single = _single_rank_run()
    head, table = single[: single.index("#       size")], single[single.index("#       size") :]
    assert judge_nccl_text(head + head + table + table).exit_code == 1
    whole = load_nccl("all_reduce_nvlink")
    head, table = whole[: whole.index("vm:1453")], whole[whole.index("vm:1453") :]
    assert judge_nccl_text(head + head + table + table).exit_code == 1
    # A job that hung and was started again is another thing.
    assert judge_nccl_text(head + whole).exit_code == 4


def test_a_single_rank_proves_nothing() -> None:
    verdict = judge_nccl_text(_single_rank_run())
    assert (verdict.exit_code, "a single rank" in "\n".join(verdict.lines)) == (4, True)


@pytest.mark.parametrize(
    ("expect", "floor", "code"),
    [(None, None, 0), ("roce", 90.0, 0), ("ib", None, 1), ("roce", 92.41, 1)],
)
def test_the_seed_pair_gets_its_exit_code(
    expect: PerftestLink | None, floor: float | None, code: int
) -> None:
    text = load_perftest("deepops_dgx1_roce_flattened")
    assert judge_perftest_text(text, expect, floor).exit_code == code


def test_perftest_faults() -> None:
    text = load_perftest("deepops_dgx1_roce_flattened")
    zeros = ":".join(["00"] * 16)
    no_gid = text.replace("00:00:00:00:00:00:00:00:00:00:255:255:10:10:11:12", zeros)
    assert judge_perftest_text(no_gid).exit_code == 1
    assert judge_perftest_text(text.partition("65536")[0]).exit_code == 4
    assert judge_perftest_text("").exit_code == 4
    assert judge_perftest_text(load_nccl("all_reduce_nvlink")).exit_code == 4
    assert judge_perftest_text("Couldn't connect to 10.0.0.1:18515").exit_code == 1
