"""Every recorded and public log gets the verdict that its document gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.judge.nccl_findings import Expectation
from components.acceptance.judge.perftest_findings import PerftestLink
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import load_nccl, load_perftest

RECORDED = Path(__file__).parent / "recorded"
NCCL = {
    # name: transport, floor just under and just above its slowest large row in GB/s
    "superbench_allreduce": (None, 229.8, 229.9),
    "superbench_allgather": (None, 212.8, 212.9),
    "superbench_alltoall": (None, 216.7, 216.8),
    "superbench_broadcast": (None, 225.1, 225.2),
    "superbench_reduce": (None, 225.6, 225.7),
    "superbench_reducescatter": (None, 223.3, 223.4),
    "aks_a100_ib": (None, 184.3, 184.4),
    "aks_a100_ipoib": (None, 3.08, 180.0),
    "crusoe_h100_ib": ("ib", 386.6, 386.7),
    "deepops_dgx1_roce": (None, 22.7, 22.8),
    "all_reduce_nvlink": ("nvlink", 327.5, 327.6),
    "all_reduce_socket": ("socket", 4.6, 4.7),
    "h200x4_all_reduce_4gpu": ("nvlink", 352.5, 352.6),
    "h200x4_alltoall_4gpu": ("nvlink", 338.9, 339.0),
    "h200x4_sendrecv_4gpu": ("nvlink", 359.7, 359.8),
    "h200x4_two_hosts_tagged": ("socket", 5.9, 6.1),
    "torch_two_hosts_rank0": ("socket", 4.8, 4.9),
    "h100_all_gather": ("socket", 1.7, 1.9),
    "h100_alltoall": ("socket", 1.1, 1.2),
    "h100_broadcast": ("socket", 3.4, 3.5),
    "h100_cputime_ring_tagged": ("socket", 1.8, 1.9),
    "h100_gather": ("socket", 1.9, 2.0),
    "h100_hypercube": ("socket", 1.1, 1.2),
    "h100_reduce": ("socket", 3.1, 3.2),
    "h100_reduce_scatter": ("socket", 1.8, 1.9),
    "h100_scatter": ("socket", 1.9, 2.0),
    "h100_sendrecv": ("socket", 1.1, 1.2),
    "h100_step_of_3m": ("socket", 0.9, 1.0),
    "h100x2_all_reduce": ("nvlink", 310.7, 310.8),
    "h100x2_alltoall": ("nvlink", 277.5, 277.6),
    "h100x2_broadcast": ("nvlink", 362.6, 362.7),
    "h100x2_fp8_average": ("nvlink", 299.6, 299.7),
    "h100x2_hypercube": ("nvlink", 249.7, 249.8),
    "h100x2_no_p2p": (None, 26.7, 26.8),
    "h100x2_one_channel": (None, 20.9, 21.1),
    "h100x2_sendrecv": ("nvlink", 355.3, 355.4),
    "h100x2_tree": ("nvlink", 340.9, 341.0),
    "h100x2_two_threads": ("nvlink", 282.4, 282.5),
    "h100_tree_mixed_tagged": ("socket", 2.0, 2.1),
    "h100_values_unchecked": (None, 1.8, 1.9),
    "h200x2_all_gather": ("nvlink", 266.4, 266.5),
    "h200x2_alltoallv": ("nvlink", 179.9, 180.0),
    "h200x2_beside_others": ("nvlink", 123.4, 123.5),
    "h200x2_gather": ("nvlink", 368.4, 368.5),
    "h200x2_host_ids": ("socket", 2.8, 2.9),
    "h200x2_host_names": ("socket", 1.79, 1.81),
    "h200x2_mpi_all_reduce": ("nvlink", 329.5, 329.6),
    "h200x2_mpi_no_p2p": (None, 23.5, 23.6),
    "h200x2_reduce_scatter": ("nvlink", 272.4, 272.5),
}
FAILED = {
    # name: exit code, what its report must name
    "h100_cut_off": (4, "cut off"),
    "h100_fewer_gpus": (1, "2 requested but only 1"),
    "h100_mpirun_no_pipes": (1, "PRTE ERROR"),
    "h100_no_gpu": (1, "no CUDA-capable device"),
    "h100_no_memory": (1, "out of memory"),
    "h100_one_gpu": (4, "a single rank"),
    "h100_one_gpu_25g": (4, "a single rank"),
    "h100_rank_killed": (1, "closed by remote peer"),
    "h100_rank_stopped": (1, "Test timeout"),
    "h100x2_few_files": (1, "busy or unavailable"),
    "h100x2_killed": (4, "no result row"),
    "h100x2_no_gpu_memory": (1, "`nvidia-smi` names who has it"),
    "h100x2_three_gpus": (1, "3 requested but only 2"),
    "h200x2_as_root": (1, "--allow-run-as-root"),
    "h200x2_no_algorithm": (1, "NCCL_ALGO or NCCL_PROTO"),
    "h200x2_no_network": (1, "NCCL_NET"),
    "h200x2_no_program": (1, "lacks the program"),
    "h200x2_no_slots": (1, "more ranks than GPU slots"),
    "h200x2_no_slots_left": (1, "more ranks than GPU slots"),
    "h200x2_one_gpu_twice": (1, "two ranks got one GPU"),
    "h200x2_rank_crashed": (1, "exited on signal 11"),
    "h200x2_rank_killed": (1, "exited on signal 9"),
    "h200x2_too_large": (1, "an argument that the program does not take"),
    "h200x2_two_releases": (1, "different releases of NCCL"),
    "h200x2_unknown_algorithm": (1, "NCCL_ALGO or NCCL_PROTO"),
    "h200x2_unknown_option": (1, "an argument that the program does not take"),
    "h200x4_no_interface": (1, "no socket interface"),
}
PERFTEST = {
    # name: link, floor just under and just above its largest size in Gb/s
    "aks_read_bw": (None, 197.4, 197.5),
    "aks_write_bw": (None, 196.5, 196.6),
    "superbench_loopback_8m": ("ib", 201.7, 201.9),
    "superbench_loopback_all": ("ib", 194.9, 195.0),
    "deepops_dgx1_roce_flattened": ("roce", 92.3, 92.5),
    "rxe_between_pods": ("roce", 0.07, 0.08),
    "rxe_on_igb_vf": ("roce", 0.07, 0.08),
}


def test_every_file_is_judged_here() -> None:
    there = {path.stem for path in RECORDED.glob("nccl/*.txt")}
    assert there == {*NCCL, *FAILED}
    there = {path.stem for path in RECORDED.glob("perftest/*.txt")}
    assert there == {*PERFTEST, "aks_read_lat", "rxe_clock_unknown"}
    readme = (RECORDED / "README.md").read_text()
    families = ("h100_", "h100x2_", "h200x2_")
    shown = [name for name in (*NCCL, *PERFTEST) if not name.startswith(families)]
    assert all(name in readme for name in (*shown, *(f"{family}*.txt" for family in families)))


@pytest.mark.parametrize(("name", "said"), NCCL.items())
def test_nccl(name: str, said: tuple[Expectation | None, float, float]) -> None:
    text, (transport, under, over) = load_nccl(name), said
    assert judge_nccl_text(text, transport, under).exit_code == 0
    assert judge_nccl_text(text, transport, over).exit_code == 1


@pytest.mark.parametrize(("name", "said"), FAILED.items())
def test_runs_that_failed_name_why(name: str, said: tuple[int, str]) -> None:
    verdict = judge_nccl_text(load_nccl(name))
    assert (verdict.exit_code, said[1] in "\n".join(verdict.lines)) == (said[0], True)


def test_json_of_a_real_run() -> None:
    text = (RECORDED / "nccl" / "h100_two_hosts.json").read_text()
    assert judge_nccl_text(text, None, 1.8).exit_code == 0
    assert judge_nccl_text(text, None, 1.82).exit_code == 1
    assert judge_nccl_text(text, "ib").exit_code == 4
    assert judge_nccl_text(text.replace("1.024275", "2.0")).exit_code == 4


def test_json_of_one_process_names_one_of_its_two_gpus() -> None:
    """nccl-tests 2.19.6 lists rank 0 alone: how many there were is not known, and no failure."""
    text = (RECORDED / "nccl" / "h200x2_iterations.json").read_text()
    assert judge_nccl_text(text, None, 327.3).exit_code == 0
    assert judge_nccl_text(text, None, 327.4).exit_code == 1
    assert judge_nccl_text(text, "nvlink").exit_code == 4


@pytest.mark.parametrize("way", ["ib", "roce", "nvlink"])
@pytest.mark.parametrize("name", ["h200x2_host_ids", "h200x2_host_names"])
def test_sockets_between_pretended_hosts_pass_as_nothing_else(name: str, way: Expectation) -> None:
    assert judge_nccl_text(load_nccl(name), way).exit_code == 1


@pytest.mark.parametrize(("name", "said"), PERFTEST.items())
def test_perftest(name: str, said: tuple[PerftestLink | None, float, float]) -> None:
    text, (link, under, over) = load_perftest(name), said
    assert judge_perftest_text(text, link, under).exit_code == 0
    assert judge_perftest_text(text, link, over).exit_code == 1


def test_latency_and_a_clock_that_is_not_known() -> None:
    lines = judge_perftest_text(load_perftest("aks_read_lat")).lines
    assert lines[0] == "passed: perftest, 5.49 us at 2 B"
    assert judge_perftest_text(load_perftest("rxe_clock_unknown")).exit_code == 4


def test_no_public_log_proves_a_transport_that_it_does_not_show() -> None:
    # These show one: the memory of the host.
    within = {"h100x2_no_p2p", "h100x2_one_channel", "h200x2_mpi_no_p2p"}
    silent = [name for name, (way, *_) in NCCL.items() if way is None and name not in within]
    for name in silent:
        text = load_nccl(name)
        assert {judge_nccl_text(text, way).exit_code for way in ("ib", "roce", "socket")} == {4}


@pytest.mark.parametrize(
    ("name", "way", "exit_code"),
    [
        ("h100x2_no_p2p", "nvlink", 1),
        ("h100x2_no_p2p", "socket", 1),
        ("h100x2_one_channel", "nvlink", 4),
        ("h100x2_one_channel", "roce", 1),
        ("h200x2_mpi_no_p2p", "nvlink", 1),
        ("h200x2_mpi_no_p2p", "ib", 1),
    ],
)
def test_two_gpus_without_nvlink_to_be_seen(name: str, way: Expectation, exit_code: int) -> None:
    verdict = judge_nccl_text(load_nccl(name), way)
    said = "\n".join(verdict.lines)
    assert (verdict.exit_code, "nvidia-smi topo -m" in said) == (exit_code, way == "nvlink")


QUOTES = [
    # NVIDIA/nccl-tests issue 29 (NCCL 2.4): channels were rings, ranks had no device.
    ("server2:1:2 [7] NCCL INFO Ring 00 : 15 -> 16 [send] via NET/IB/0", {"IB": 1}, 0),
    # NVIDIA/nccl-tests issue 82 (NCCL 2.9).
    ("a:1:2 [0] NCCL INFO Channel 01 : 0[4000] -> 1[5000] [receive] via NET/Socket/0",
     {"Socket": 1}, 0),
    # The article of Crusoe (NCCL 2.19).
    (("[1,1]<stdout>:w-0:43:101 [1] NCCL INFO Channel 01/0 : 24[0] -> 1[1] [receive] via "
     "NET/IBext/5/GDRDMA."), {"IBext": 1}, 1),
    # PXN and shared buffers (NCCL 2.12 to 2.23), C2C systems (2.28).
    ("a:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0(8)/GDRDMA/Shared",
     {"IB": 1}, 1),
    ("a:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/2/GDRDMA(PCI)",
     {"IB": 1}, 1),
    ("a:1:2 [0] NCCL INFO Channel 02/1 : 3[3] -> 9[1] [send] via NET/AWS Libfabric/1/GDRDMA",
     {"AWS Libfabric": 1}, 1),
    ("a:1:2 [0] NCCL INFO CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0/GDRDMA",
     {"COLLNET/SHARP": 1}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("line", "nets", "gdr"), QUOTES)
def test_channels_of_every_age(line: str, nets: dict[str, int], gdr: int) -> None:
    log = parse_nccl_log(line)
    assert isinstance(log, NcclLog)
    assert (log.channels.net, log.channels.gdr) == (nets, gdr)


DEVICES: list[tuple[str, list[str]]] = [
    ("[0]mlx5_0:1/IB/SHARP [1]mlx5_8:1/IB/SHARP [RO]; OOB", ["IB", "IB"]),
    ("[0]mlx5_0:1/RoCE [1]mlx5_bond_0:1/RoCE ; OOB eth0:10.0.0.1<0>", ["RoCE", "RoCE"]),
    ("[0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [RO]; OOB eth0:1<0>", ["RoCE", "RoCE"]),
    ("[0]mlx5_0:1::2/RoCE [1]mlx5_1:1:0:1/RoCE [RO]; OOB eth0:1<0>", ["RoCE", "RoCE"]),
    ("[0]bnxt_re0:1/RoCE [1]rocep23s0f0:1/RoCE ; OOB x", ["RoCE", "RoCE"]),
    ("[RO]; OOB lo:127.0.0.1<0>", []),
]


@pytest.mark.parametrize(("listed", "layers"), DEVICES)
def test_devices_of_every_age(listed: str, layers: list[str]) -> None:
    log = parse_nccl_log(f"a:1:2 [0] NCCL INFO NET/IB : Using {listed}")
    assert isinstance(log, NcclLog)
    assert [hca.link_layer for host in log.hosts for hca in host.hcas] == layers
