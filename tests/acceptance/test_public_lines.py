"""Lines by which public logs of failed and of good runs were misread; names are changed."""

from __future__ import annotations

import re

import pytest

from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.judge.nccl import NcclAsked
from components.acceptance.judge.nccl_findings import judge_hcas
from components.acceptance.judge.perftest_findings import PerftestAsked
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import FOLDER, load_nccl, load_perftest

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


STARTS = [
    # NVIDIA/nccl issue 1611, and malloc.c of glibc
    ("free(): corrupted unsorted chunks", "crash"),
    ("malloc(): unaligned tcache chunk detected", "crash"),
    ("corrupted size vs. prev_size", "crash"),
    ("[gpu01:77] *** Process received signal ***", "crash"),
    # NVIDIA/nccl-tests issue 92 (MPICH), Open MPI's help-mpi-runtime.txt
    (
        "Abort(3712399) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error",
        "mpi",
    ),
    ("It looks like MPI_INIT failed for some reason; your parallel process is", "mpi"),
    # ld.so, shells, Open MPI
    ("all_reduce_perf: error while loading shared libraries: libnccl.so.2: no", "missing_library"),
    ("/x/all_reduce_perf: symbol lookup error: /x/all_reduce_perf: x", "missing_library"),
    ("/x/perf: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /x)", "missing_library"),
    ("bash: line 1: all_reduce_perf_mpi: command not found", "missing_program"),
    ("mpirun was unable to launch it as it could not find an executable:", "missing_program"),
    # ROCm/rccl-tests src/common.h, ROCm/rccl issue 908
    ("gpu01: Test HIP failure common.cu:963 'hipErrorInvalidDevice'", "cuda"),
    ("gpu01:1:2 [0] p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument", "p2p"),
    # modelscope/ms-swift issue 7992, om-ai-lab/VLM-R1 issue 257
    ("[rank4]:[E] ProcessGroupNCCL's watchdog got stuck for 480 seconds without", "watchdog"),
    ("[rank6]:[F] Terminating the process after dump, due to ProcessGroupNCCL", "watchdog"),
    # pytorch/pytorch, ProcessGroupNCCL.cpp and socket.cpp; the last one before 2.1
    ("[E socket.cpp:922] [c10d] The client socket has timed out after 60s", "socket"),
    ("RuntimeError: [2] is setting up NCCL communicator and retrieving ncclUniqueId", "socket"),
    ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:825, invalid usage", "framework"),
]


@pytest.mark.parametrize(("line", "kind"), STARTS)
def test_a_run_without_a_table_says_why(line: str, kind: str) -> None:
    begun = (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20\n"
    )
    verdict = judge_nccl_text(f"{begun}{line}\n")
    assert (verdict.exit_code, f"actual {kind}: " in verdict.lines[1]) == (1, True)


def test_a_rank_that_lost_another_is_not_explained_by_its_own_warnings() -> None:
    """NVIDIA/nccl issue 1814 and others: what the living ranks warn of is no cause."""
    lost = "gpu01:1:2 [0] x.cc:1 NCCL WARN socketProgress: Connection closed by remote peer gpu02\n"
    verdict = judge_nccl_text(f"gpu01:1:2 [0] x.cc:1 NCCL WARN strange\n{lost}{GAVE_UP}")
    assert "actual peer_lost: " in verdict.lines[1]


def test_a_failed_run_without_warnings_says_how_to_get_them() -> None:
    """xxrjun/nccl-tests-cluster has 23 such logs."""
    verdict = judge_nccl_text(GAVE_UP)
    assert (verdict.exit_code, "NCCL_DEBUG=WARN" in verdict.lines[-1]) == (1, True)
    assert "on gpu01; the first cause" in verdict.lines[2]


@pytest.mark.parametrize(
    "line",
    [
        "NCCL TRACE NET/OFI fi_setopt(FI_OPT_MAX_MSG_SIZE) RC: -92",
        "NCCL INFO NET/OFI Set endpoint option FI_OPT_EFA_X. optval: 0, RC: -92, ERROR: no option",
        "NCCL INFO [rocprofiler-sdk-rccl][ = 0 ] rocprofiler-register returned code = 7 : none",
        'init.cc:125 NCCL WARN Missing "amd_iommu=on" from kernel command line which can lead to',
        "init.cc:132 NCCL WARN Missing HSA_FORCE_FINE_GRAIN_PCIE=1 from environment, instablity",
        "NCCL INFO NET/Plugin: x.so: /lib/libc.so: version `GLIBC_2.34' not found (required by x)",
        "mca_base_component_repository_open: mca_pml_ucx.so: undefined symbol: ucp_nbx (ignored)",
    ],
)
def test_what_good_runs_say_too_is_no_failure(line: str) -> None:
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
    assert judge_hcas(log, 1).actual == "1 on each of 1 host: mlx5_2"


def test_an_ethernet_port_that_is_shown_as_infiniband_proves_none() -> None:
    """Two DGX Sparks: `ib_write_bw -d rocep1s0f1 -R --force-link IB` prints `Link type : IB`."""
    whole = load_perftest("rxe_between_pods")
    forced = re.sub(r"(?m)^ GID.*\n", "", whole).replace("type       : Ethernet", "type : IB")
    assert judge_perftest_text(whole, "roce").exit_code == 0
    assert judge_perftest_text(forced, "ib").exit_code == 4
    assert judge_perftest_text(forced.replace("LID 0000", "LID 0x18"), "ib").exit_code == 0


@pytest.mark.parametrize(("least", "code"), [("2.28.7", 0), ("2.29", 1)])
def test_the_release_that_nccl_tests_asked_for_counts(least: str, code: int) -> None:
    """xxrjun/nccl-tests-cluster: 403 logs without NCCL_DEBUG, all with `nccl-library=`."""
    lines = [line for line in GOOD.splitlines() if "NCCL" not in line]
    assert not any("NCCL version" in line for line in lines)
    text = re.sub(r"nccl-library=\d+", "nccl-library=22807", "\n".join(lines))
    asked = NcclAsked.of([f"version={least}"])
    assert judge_nccl_text(text, asked=asked).exit_code == code
    unknown = text.replace("nccl-library=22807", "")
    assert judge_nccl_text(unknown, asked=asked).exit_code == 4


@pytest.mark.parametrize(
    "line", ["RCCL version 2.17.1+hip5.7 HEAD:cbbb3d8+", "rccl-tests: Version develop:5272cd1"]
)
def test_a_library_of_amd_is_known_by_its_own_lines(line: str) -> None:
    """ROCm/rccl issue 908 and hisohara/ai-scripts, whose list of 16 MI355X names no GPU."""
    text = re.sub(r"(device +\d+ \[\S+\]).*", r"\1", GOOD)
    assert judge_nccl_text(text, "nvlink").exit_code == 0
    verdict = judge_nccl_text(f"{line}\n{text}", "nvlink")
    assert (verdict.exit_code, "AMD's xGMI" in "\n".join(verdict.lines)) == (1, True)


@pytest.mark.parametrize(
    ("least_gbit_s", "most_us", "code"), [(190.0, 6.0, 0), (199.0, 6.0, 1), (190.0, 5.0, 1)]
)
def test_bandwidth_and_latency_in_one_log_are_each_asked_for_their_own(
    least_gbit_s: float, most_us: float, code: int
) -> None:
    """A page of two ConnectX-3 hosts shows ib_read_bw, ib_read_lat and ib_atomic_lat in turn."""
    text, asked = load_perftest("aks_write_bw"), PerftestAsked(most_us=most_us)
    both = f"{text}\n{load_perftest('aks_read_lat')}"
    assert judge_perftest_text(both, None, least_gbit_s, asked).exit_code == code
    assert judge_perftest_text(text, None, 190.0, asked).exit_code == 4
