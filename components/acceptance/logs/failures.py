"""The failure texts of NCCL, nccl-tests and what launchers start, one table for each.

Those of perftest are in `perftest_words`. Sources: NCCL's sources and issue threads (2.4-2.30);
those of harmless lines are named beside them, all in docs/explanation/sources.md#logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from components.acceptance.logs.causes import Cause, FailureFinder, Harmless
from components.acceptance.logs.launchers import LAUNCHERS


def _compile(table: Iterable[tuple[str, str, str, bool]]) -> tuple[Cause, ...]:
    return tuple(Cause(re.compile(regex), kind, text, late) for regex, kind, text, late in table)


_NCCL = _compile(
    (
        (
            r"Call to ibv_modify_qp failed.*timed out",
            "ibv_modify_qp",
            (
                "no neighbour answers on that rail: VLAN, rail subnet or cabling "
                "(on a rail-only fabric also NCCL_CROSS_NIC=0)"
            ),
            False,
        ),
        (
            r"Call to ibv_modify_qp failed",
            "ibv_modify_qp",
            "wrong GID index, or no IP route between the rail subnets",
            False,
        ),
        (
            r"read failed in ncclIbRoceGetVersionNum: Invalid argument",
            "hidden_gid",
            (
                "the driver hides GIDs of the host and of other pods, and NCCL before 2.26.2 fails "
                "at them (NVIDIA/nccl#1573): take an image with a newer NCCL"
            ),
            False,
        ),
        (
            r"Call to ibv_(?:reg_mr\w*|create_cq|create_qp) failed",
            "ibv_memory",
            "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem",
            False,
        ),
        (r"Call to ibv_\w+ failed", "ibv", "the RDMA device refused the call", False),
        (
            r"Got completion .*(?:status=12|error 12)\b",
            "retry_exceeded",
            "packets of that rail do not arrive: MTU of a switch port, VLAN, GID, or loss",
            False,
        ),
        (
            r"Got completion .*(?:status=4|error 4)\b",
            "local_protection",
            "the NIC may not reach GPU memory: nvidia_peermem, ACS or IOMMU",
            False,
        ),
        (r"Got completion .*(?:status=|error )\d+", "completion_error", "an RDMA error", False),
        (
            r"socketFinalizeAccept: wrong type",
            "mixed_transports",
            "some hosts use RDMA and some sockets, or they run different NCCL builds",
            False,
        ),
        (r"no socket interface found", "no_interface", "NCCL_SOCKET_IFNAME names none", False),
        (r"Got async (?:fatal )?event\s*:", "async_event", "a port went down in the test", False),
        (
            r"Connection closed by remote peer|socketProgress|retcode [1-9]",
            "peer_lost",
            "another rank died first: read its log",
            True,
        ),
        (
            r"\bcomm \S{1,30} .{0,160}- Abort COMPLETE",
            "aborted",
            "NCCL gave up this communicator; an earlier line says why",
            True,
        ),
        (
            r"Avg bus bandwidth\s*:\s*\S{1,30}\s+FAILED",
            "below_limit",
            "nccl-tests' own bandwidth limit was missed (NCCL_TESTS_MIN_BW)",
            False,
        ),
        (r"^#\s*error: \S", "nccl_tests", "nccl-tests saw an error of NCCL", False),
        (
            r"NCCL WARN .{0,200}[Cc]uda failure.{0,20}out of memory|CUDA out of memory",
            "memory",
            "no memory was left on the GPU or for the process: `nvidia-smi` names who has it",
            False,
        ),
        (
            r"NCCL WARN .{0,200}(?:[Cc]uda failure|CUDA failure|Cuda error)",
            "cuda",
            "the GPU or its driver failed",
            False,
        ),
        (r"Test CUDA failure", "cuda", "the GPU or its driver failed", False),
        (r"Test NCCL failure", "nccl_failure", "NCCL gave up; an earlier line says why", True),
        (r"unhandled (?:system|cuda) error", "unhandled", "an earlier line says why", True),
        (r"Test timeout \(\d+s\)", "timeout", "the test hung", False),
        (r"\.\. \S+ pid \d+: Test failure", "test_failure", "an earlier line says why", True),
        (r"Incompatible NCCL versions", "versions", "built with one NCCL, run with another", False),
        (r"Invalid number of GPUs", "gpus", "fewer GPUs in the pod than asked for", False),
        (
            (
                r"torch\.distributed\.\w*Error|DistBackendError|ncclSystemError|ncclInternalError"
                r"|ncclRemoteError|ncclUnhandledCudaError"
            ),
            "framework",
            "the framework's NCCL call failed",
            True,
        ),
        (r"CUDA error:", "cuda", "the GPU or its driver failed", False),
    )
)
HARMLESS = tuple(
    Harmless(re.compile(regex), source)
    for regex, source in (
        (r"iommu=pt", "NCCL's own advice: graph/topo.cc and RCCL's init.cc"),
        (r"NUMA auto balancing", "RCCL's advice, init.cc"),
        (r"Could not find: libnccl", "NCCL's INFO without a plugin, plugin/net.cc"),
        (r"disabling NCHANNELS", "NCCL, transport/nvls.cc"),
        (r"OpenFabrics device", "NVIDIA/nccl issue 1705: Open MPI's openib beside NCCL"),
        (r"Failed to open libibverbs\.so", "NVIDIA/nccl-tests issue 82: one host, whole table"),
        (r"NET/OFI .*Could not find nccl\w+ symbol|Could not find ncclGetVersion",
         "aws/aws-ofi-nccl: a plugin older than its NCCL, runs that completed"),
        (r"Could not find a path for pattern \d", "NCCL, graph/search.cc: a simple order"),
        (r"Failed to find ncclNet\w* symbol|Failed to find ncclCollNet\w* symbol",
         "NCCL, plugin/net.cc: it tries the next version of the plugin's interface"),
        (r"Failed to initialize NET plugin|NET/IB : No device found", "judged as the transport"),
    )
)  # fmt: skip
"""Lines that look like failures and come from runs that completed, each with its source."""
_LAUNCHED = _compile(
    (
        (
            r"unrecognized arguments|the following arguments are required",
            "usage",
            "an argument that the program does not know",
            False,
        ),
        (
            r"command not found|No such file or directory|executable file not found",
            "missing_program",
            "the image lacks the program, or a mount is missing",
            False,
        ),
        (
            r"ModuleNotFoundError: No module named",
            "missing_module",
            "the image's Python lacks that module",
            False,
        ),
        (r"failed to initialize NVML|NVIDIA-SMI has failed", "no_driver", "no GPU driver", False),
    )
)


def nccl_finder() -> FailureFinder:
    """Looks for what NCCL, nccl-tests, their launchers and their hosts say of failures."""
    return FailureFinder(_NCCL + LAUNCHERS, HARMLESS, warning="NCCL WARN")


def launched_finder() -> FailureFinder:
    """Looks for the failures of a program that launchers start on other hosts, and of its NCCL."""
    return FailureFinder(_LAUNCHED + _NCCL + LAUNCHERS, HARMLESS)
