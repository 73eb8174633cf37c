"""Lines by which public logs of failed and of good runs were misread; names are changed."""

from __future__ import annotations

import pytest

from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.judge.nccl_findings import judge_hcas
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import FOLDER, load_nccl


@pytest.mark.parametrize("suffix", ["_mpi", "_mpi_cuda13"])
@pytest.mark.parametrize(
    "name",
    [
        "h100x2_all_reduce", "h100x2_broadcast", "h100x2_alltoall", "h100x2_sendrecv",
        "h100_reduce", "h100_hypercube", "h100_all_gather",
    ],
)  # fmt: skip
def test_a_suffix_of_the_program_changes_nothing(name: str, suffix: str) -> None:
    """`NAME_SUFFIX` of nccl-tests, as NGC's images and odissei-benchmarks/nccl-tests have it."""
    text = load_nccl(name)
    plain, named = judge_nccl_text(text), judge_nccl_text(text.replace("_perf", f"_perf{suffix}"))
    assert (named.exit_code, len(named.findings)) == (plain.exit_code, len(plain.findings))
    assert named.exit_code == 0


def test_a_suffix_of_the_program_changes_nothing_in_json() -> None:
    text = (FOLDER / "nccl/h100_two_hosts.json").read_text()
    named = text.replace('"all_reduce_perf"', '"/opt/all_reduce_perf_mpi"')
    assert judge_nccl_text(named, None, 1.8).exit_code == 0


@pytest.mark.parametrize("start", ["nThread: 1 nGpus: 8", "nThreads: 1 nGpus: 8 nRanks: 1"])
def test_the_first_line_of_older_rccl_tests(start: str) -> None:
    """ROCm/rccl-tests before and after 0500f2f; its issue 50."""
    rest = "minBytes: 8 maxBytes: 128 step: 2(factor) warmupIters: 5 iters: 20 validation: 1 "
    log = parse_nccl_log(f"# {start} {rest}")
    assert isinstance(log, NcclLog)
    assert log.sizes is not None
    assert (log.sizes.least_bytes, log.sizes.most_bytes, log.iterations) == (8, 128, 20)


def test_adapters_that_no_channel_uses_are_not_named() -> None:
    """odissei-benchmarks/nccl-tests, 2nodes/all_reduce_stresstest.log: mlx5_0 is its RoCE card."""
    using = "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_2:1/IB [RO]; OOB eno2:172.18.62.151<0>"
    channel = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA"
    log = parse_nccl_log("".join(f"w1:1:2 [0] NCCL INFO {each}\n" for each in (using, channel)))
    assert isinstance(log, NcclLog)
    assert judge_hcas(log, "log", 1).actual == "1 on each of 1 hosts: mlx5_2"
