"""The failure texts of NCCL, launchers and perftest, and what each usually means.

Sources: NCCL's and perftest's sources and issue threads, collected in the project's notes on
acceptance (NCCL 2.19-2.30, perftest 4.5-26.04, Open MPI 4 and 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from components.acceptance.logs.log_model import LogFailure

_LONGEST_LINE = 300
_MOST_FAILURES = 40
"""One broken link makes every rank complain; the first lines tell all."""


def _compile(
    table: Iterable[tuple[str, str, str, bool]],
) -> tuple[tuple[re.Pattern[str], str, str, bool], ...]:
    return tuple((re.compile(regex), kind, meaning, late) for regex, kind, meaning, late in table)


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
            r"Connection closed by remote peer|socketProgress|retcode \d+",
            "peer_lost",
            "another rank died first: read its log",
            True,
        ),
        (r"NCCL WARN", "nccl_warning", "NCCL warns", False),
        (r"Test CUDA failure", "cuda", "the GPU or its driver failed", False),
        (r"Test NCCL failure", "nccl_failure", "NCCL gave up; an earlier line says why", True),
        (r"unhandled (?:system|cuda) error", "unhandled", "an earlier line says why", True),
        (r"Test timeout \(\d+s\)", "timeout", "the test hung", False),
        (r"\.\. \S+ pid \d+: Test failure", "test_failure", "an earlier line says why", True),
        (r"Incompatible NCCL versions", "versions", "built with one NCCL, run with another", False),
        (r"Invalid number of GPUs", "gpus", "fewer GPUs in the pod than asked for", False),
        (
            r"railyard: (?:there is no RDMA device behind|no RoCE v2 GID with)",
            "no_device",
            "the line names the host and its interface: card, driver, address and link there",
            False,
        ),
        (r"There are not enough slots available", "slots", "more ranks than GPU slots", False),
        (
            (
                r"processes exited with non-zero status|returned\s*$.*non-zero exit code"
                r"|noticed that process rank \d+|MPI_ABORT was invoked|exited on signal \d+"
            ),
            "rank_failed",
            "a rank ended with an error; an earlier line says why",
            True,
        ),
        (r"ORTE was unable|ORTE has lost communication|PRTE has lost", "launcher", "ssh", False),
        (
            (
                r"torch\.distributed\.\w*Error|DistBackendError|ncclSystemError|ncclInternalError"
                r"|ncclRemoteError|ncclUnhandledCudaError"
            ),
            "framework",
            "the framework's NCCL call failed",
            True,
        ),
        (r"CUDA error:|CUDA out of memory", "cuda", "the GPU or its driver failed", False),
        (r"Segmentation fault|Bus error \(", "crash", "a rank crashed", False),
    )
)
_HARMLESS = re.compile(
    r"iommu=pt|NUMA auto balancing|Could not find: libnccl|OpenFabrics device|disabling NCHANNELS"
)
_PERFTEST = _compile(
    (
        (
            (
                r"IB device \S+ not found|Unable to find the Infiniband/RoCE device"
                r"|Did not detect devices"
            ),
            "no_device",
            "the RDMA device is not in the pod: no VF, or no SR-IOV resource",
            False,
        ),
        (r"Port number \d+ state is Down", "link_down", "the link of the device is down", False),
        (
            r"Couldn't set the link layer|Couldn't get context for the device",
            "link_down",
            "the link of the device is down",
            True,
        ),
        (
            r"ADDR_ERROR|unexpected CM event",
            "no_route",
            "no neighbour answers on that rail: VLAN, address or cabling",
            False,
        ),
        (
            (
                r"Unable to perform rdma_client function|Unable to init the socket connection"
                r"|Unable to open file descriptor"
            ),
            "not_connected",
            "an earlier line says why",
            True,
        ),
        (
            r"Couldn't connect to \S+",
            "control_connection",
            "the server does not listen there, or no route leads to it",
            False,
        ),
        (
            r"Failed status[ -](?:12\b|transport retry)|Failed status.*\(12\)",
            "retry_exceeded",
            "packets do not arrive: MTU of a switch port, VLAN, GID, or loss; never retry this",
            False,
        ),
        (
            r"Failed status[ -]4\b|Failed status.*\(4\)",
            "local_protection",
            "the NIC may not reach that memory: nvidia_peermem, ACS or IOMMU",
            False,
        ),
        (r"Failed status", "completion_error", "an RDMA error", False),
        (r"Completion with error at", "completion_error", "an RDMA error", True),
        (
            (
                r"Couldn't create CQ|Failed to create QP|Unable to create QP|Couldn't allocate MR"
                r"|failed to create mr|Couldn't create IB resources"
            ),
            "memory",
            "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem",
            False,
        ),
        (r"Failed to modify QP", "modify_qp", "no usable GID on the device", False),
        (
            r"Couldn't read remote address|Failed to exchange data between server and clients",
            "peer_lost",
            "the other end died: read its log",
            True,
        ),
        (r"below bw limit", "below_limit", "the tool's own bandwidth limit was missed", False),
        (r"invalid option|Invalid Command", "usage", "an option that this build lacks", False),
    )
)

_LAUNCHED = _compile(
    (
        (
            r"of /job/hostfile does not resolve|Could not resolve hostname",
            "dns",
            "the cluster's DNS does not know a worker: the headless Service of the job, or CoreDNS",
            False,
        ),
        (
            r"Host key verification failed",
            "host_key",
            "the host shows another key than the pinned one",
            False,
        ),
        (r"Permission denied \(", "ssh_login", "the job's key is not let in on that host", False),
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
        (r"failed to initialize NVML|NVIDIA-SMI has failed", "no_driver", "no GPU driver", False),
    )
)


def find_nccl_failures(lines: Iterable[str]) -> tuple[LogFailure, ...]:
    """The failures that an NCCL log tells of, in its order."""
    return _find(_NCCL, (line for line in lines if not _HARMLESS.search(line)))


def find_launched_failures(lines: Iterable[str]) -> tuple[LogFailure, ...]:
    """The failures of a program that a launcher starts on other hosts, and of its NCCL."""
    return _find(_LAUNCHED + _NCCL, (line for line in lines if not _HARMLESS.search(line)))


def find_perftest_failures(lines: Iterable[str]) -> tuple[LogFailure, ...]:
    """The failures that a perftest log tells of, in its order."""
    return _find(_PERFTEST, lines)


def first_cause(failures: Iterable[LogFailure]) -> LogFailure | None:
    """The first failure that is not a mere consequence of another; else the first."""
    every = list(failures)
    causes = [failure for failure in every if not failure.is_consequence]
    return next(iter(causes or every), None)


def _find(
    table: tuple[tuple[re.Pattern[str], str, str, bool], ...], lines: Iterable[str]
) -> tuple[LogFailure, ...]:
    found: list[LogFailure] = []
    for line in lines:
        for pattern, kind, meaning, late in table:
            if pattern.search(line):
                found.append(
                    LogFailure(
                        kind=kind,
                        line=line.strip()[:_LONGEST_LINE],
                        meaning=meaning,
                        is_consequence=late,
                    )
                )
                break
        if len(found) >= _MOST_FAILURES:
            break
    return tuple(found)
