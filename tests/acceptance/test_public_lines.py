"""Lines by which public logs of failed and of good runs were misread; names are changed."""

from __future__ import annotations

import pytest

from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.judge.nccl_findings import judge_hcas
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import FOLDER, load_nccl

GOOD = load_nccl("h100x2_all_reduce")
GAVE_UP = "gpu01: Test NCCL failure common.cu:958 'internal error / '\n"
CAUSES = [
    # sparticlesteve/podman-nccl-testing, podman-nccl-tests-30743802.out: Slingshot in a container
    ("NET/OFI Unable to register memory (type = 2) for device 3. RC: -22", "ibv_memory"),
    # aws/aws-ofi-nccl issue 346 and the plugin's sources
    ("NET/OFI Request 0x7f completed with error. RC: 5. Error: 7", "completion_error"),
    ("NET/OFI Couldn't enable endpoint. RC: -12, ERROR: No memory", "libfabric"),
    # NVIDIA/nccl-tests issue 166; misc/shmutils.cc of 2.18 and 2.28
    ("Error while creating shared memory segment /dev/shm/nccl-x (size 7)", "shm"),
    ("Error: failed to extend /dev/shm/nccl-x to 96 bytes, error: No space (28)", "shm"),
    # NVIDIA/nccl-tests issue 294, NVIDIA/nccl graph/topo.cc: no row of the table has these
    ("Net : connecting to address  with family 33621 is neither A nor B", "nccl_warning"),
    ("Fusing NET devices from different NUMA domains is no option", "nccl_warning"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind"), CAUSES)
def test_a_failed_run_is_explained_by_the_warning_before_it(line: str, kind: str) -> None:
    ended = "srun: error: gpu01: task 3: Exited with exit code 3\n"
    verdict = judge_nccl_text(f"gpu01:1:2 [3] x.cc:1 NCCL WARN {line}\n{GAVE_UP}{ended}")
    assert verdict.exit_code == 1
    assert f"actual {kind}: gpu01:1:2 [3] " in verdict.lines[1]
    assert "on gpu01" in verdict.lines[2]


def test_a_rank_that_lost_another_is_not_explained_by_its_own_warnings() -> None:
    """NVIDIA/nccl issue 1814 and others: what the living ranks warn of is no cause."""
    lost = "gpu01:1:2 [0] x.cc:1 NCCL WARN socketProgress: Connection closed by remote peer gpu02\n"
    verdict = judge_nccl_text(f"gpu01:1:2 [0] x.cc:1 NCCL WARN strange\n{lost}{GAVE_UP}")
    assert "actual peer_lost: " in verdict.lines[1]


def test_a_failed_run_without_warnings_says_how_to_get_them() -> None:
    """xxrjun/nccl-tests-cluster has 23 such logs."""
    verdict = judge_nccl_text(GAVE_UP)
    assert (verdict.exit_code, "NCCL_DEBUG=WARN" in verdict.lines[-1]) == (1, True)


@pytest.mark.parametrize(
    "line",
    [
        "NCCL TRACE NET/OFI fi_setopt(FI_OPT_MAX_MSG_SIZE) RC: -92",
        "NCCL INFO NET/OFI Set endpoint option FI_OPT_EFA_X. optval: 0, RC: -92, ERROR: no option",
        'init.cc:125 NCCL WARN Missing "amd_iommu=on" from kernel command line which can lead to',
    ],
)
def test_an_option_that_libfabric_lacks_is_no_failure(line: str) -> None:
    assert judge_nccl_text(f"{GOOD}gpu01:1:2 [0] {line}\n").exit_code == 0


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
