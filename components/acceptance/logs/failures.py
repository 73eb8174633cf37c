"""The failure texts of NCCL, nccl-tests and what launchers start, one table for each.

Those of perftest are in `perftest_words`. Sources: NCCL's sources and issue threads (2.4-2.30);
those of harmless lines are named beside them, all in docs/explanation/sources.md#logs.
"""

from __future__ import annotations

import re

from components.acceptance.logs.causes import HARMLESS, Cause, FailureFinder
from components.acceptance.logs.launchers import LAUNCHERS


def _rows(*rows: tuple[str, str, str, str, str]) -> tuple[Cause, ...]:
    return tuple(
        Cause(re.compile(regex), kind.removeprefix(_LATE), text, kind.startswith(_LATE), *span)
        for *span, regex, kind, text in rows
    )


_LATE = "late "
"""Before the kind of a row that follows from a failure elsewhere."""
_STATUS = r"Got completion .{0,200}(?:status=|error )(?:[\w ()-]{1,60}\()?"
"""`error 12` (2.4), `status=12` (2.20), `status=transport retry counter exceeded(12)` (2.28)."""
_EARLIER = "an earlier line says why"
_GAVE_UP = f"NCCL gave up; {_EARLIER}, or none without NCCL_DEBUG=WARN"
_GPU = "the GPU or its driver failed"
_PIN = "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem"
_ARRIVE = "packets of that rail do not arrive: MTU of a switch port, VLAN, GID, or loss"
_REACH = "the NIC may not reach GPU memory: nvidia_peermem, ACS or IOMMU"
_CONNECT = "no TCP connection between the two hosts: route, firewall, NCCL_SOCKET_IFNAME"

NCCL: tuple[Cause, ...] = _rows(
    ("", "", r"NCCL INFO .{0,80}Call to (?:ibv|mlx5dv)_\w+ failed",
     HARMLESS, "NCCL, misc/ibvwrap.cc: optional since 2.19, or tried again (2.30)"),
    ("", "", r"NCCL (?:INFO|TRACE) .{0,300}(?:\bRC: |returned code = )",
     HARMLESS, "aws/aws-ofi-nccl: options tried; RCCL, misc/api_trace.cc: no profiler"),
    ("", "", r"iommu=(?:pt|on)", HARMLESS, "NCCL's own advice: graph/topo.cc and RCCL's init.cc"),
    ("", "", r"NUMA auto balancing|HSA_FORCE_FINE_GRAIN_PCIE", HARMLESS, "RCCL's advice, init.cc"),
    ("", "", r"Could not find: libnccl", HARMLESS, "NCCL's INFO without a plugin, plugin/net.cc"),
    ("", "", r"disabling NCHANNELS", HARMLESS, "NCCL, transport/nvls.cc"),
    ("", "", r"OpenFabrics device",
     HARMLESS, "NVIDIA/nccl issue 1705: Open MPI's openib beside NCCL"),
    ("", "", r"Failed to open libibverbs\.so",
     HARMLESS, "NVIDIA/nccl-tests issue 82: one host, whole table"),
    ("", "", r"NET/OFI .*Could not find nccl\w+ symbol|Could not find ncclGetVersion",
     HARMLESS, "aws/aws-ofi-nccl: a plugin older than its NCCL, runs that completed"),
    ("", "", r"Could not find a path for pattern \d",
     HARMLESS, "NCCL, graph/search.cc: a simple order"),
    ("", "", r"Failed to find ncclNet\w* symbol|Failed to find ncclCollNet\w* symbol",
     HARMLESS, "NCCL, plugin/net.cc: it tries the next version of the plugin's interface"),
    ("", "", r"Failed to initialize NET plugin|NET/IB : No device found",
     HARMLESS, "judged as the transport"),
    ("2.4.2", "2.30.7",
     r"Got (?:async(?: error)?|non-fatal async) event ?: (?:port error|path migration request)",
     "port_down", "a port went down in the run: its cable, transceiver or switch port"),
    ("2.4.2", "2.30.7",
     (r"async fatal event"
     r"|Got async event : (?:CQ error|local |invalid request|SRQ catastrophic|WQ fatal)"),
     "device_fatal", "the RDMA device or a queue of it failed: read the kernel's log of that host"),
    ("2.29.7", "2.30.7",
     (r"Device \d+ marked as failed|Detected \d+ failed devices|The error is fatal \("
     r"|Could not find a (?:functional device|replacement QP)|not on a functional device"
     r"|Maximum number of probing|Got CQE with error|stale CQE with error"
     r"|Unsupported completion status|Failed to initialize a resiliency|GoToPrevState result"
     r"|outstanding recovery operations"),
     "port_failed", "NCCL lost an RDMA device in the run, also if others carried its data on"),
    ("2.20.3", "2.30.7",
     r"Detected mixed local (?:Net|CollNet) device counts|has a different number of devices=",
     "rails_differ", "a host has fewer network devices than others: a rail is missing there"),
    ("", "", r"NET/IB : \S+ speed change detected",
     "speed_change", "the link of that port came to another speed in the run (NCCL 2.30.7)"),
    ("2.4.2", "2.30.7", r"Call to ibv_modify_qp failed.*timed out",
     "ibv_modify_qp", ("no neighbour answers on that rail: VLAN, rail subnet or cabling "
     "(on a rail-only fabric also NCCL_CROSS_NIC=0)")),
    ("2.4.2", "2.30.7", r"Call to ibv_modify_qp failed",
     "ibv_modify_qp", "wrong GID index, or no IP route between the rail subnets"),
    ("2.23.4", "2.30.7", r"(?:read|open) failed in ncclIbRoceGetVersionNum",
     "hidden_gid", ("the driver hides GIDs of the host and of other pods, and NCCL before 2.26.2 "
     "fails at them (NVIDIA/nccl#1573): take an image with a newer NCCL")),
    ("2.4.2", "2.30.7", r"Call to ibv_(?:reg_mr\w*|create_cq|create_qp) failed",
     "ibv_memory", _PIN),
    ("2.4.2", "2.30.7",
     (r"Call to ibv_\w+(?: failed|\(\) returned)|ibv_post_(?:send|recv)\(\) failed"
     r"|NET/MLX5: Call to |mlx5dv_create_qp failed"),
     "ibv", "the RDMA device refused the call"),
    ("2.4.2", "2.30.7", rf"{_STATUS}12\b", "retry_exceeded", _ARRIVE),
    ("2.4.2", "2.30.7", rf"{_STATUS}4\b", "local_protection", _REACH),
    ("2.4.2", "2.30.7", rf"{_STATUS}5\b", "late flushed", _EARLIER),
    ("2.4.2", "2.30.7", rf"{_STATUS}\d+", "completion_error", "an RDMA error"),
    ("", "", r"NET/OFI .{0,80}completed with error", "completion_error",
     "libfabric lost data: EFA's security group must let in and out all traffic of its own"),
    ("", "", r"NET/OFI .{0,20}(?:[Uu]nable to (?:register|enable|bind)|[Cc]ouldn't register) [mM]",
     "ibv_memory", _PIN),
    ("", "", r"NET/OFI .{0,200}\bRC: -?[1-9]", "libfabric", "libfabric refused the call"),
    ("2.16.2", "2.30.4", r"socketFinalizeAccept(?: from \S{1,300})?: wrong type",
     "mixed_transports",
     "some hosts use RDMA and some sockets, or they run different NCCL builds"),
    ("2.20.3", "2.30.7",
     (r"(?:connect|merge) (?:incompatible|net) devices|device is incompatible with the local"
     r"|devices together with different link_layer"),
     "mixed_transports", "some ports are InfiniBand and some Ethernet: NCCL_IB_HCA chooses"),
    ("2.4.2", "2.30.7",
     r"[Nn]o socket interface found|NET/Socket : no interface found|No usable listening",
     "no_interface", "NCCL_SOCKET_IFNAME names none"),
    ("2.10.3", "2.30.7", r"Failed to initialize any NET plugin|Error: network \S+ not found",
     "no_network", "NCCL_NET names a network that this host lacks: its card, or NCCL's plugin"),
    ("", "", r"Unrecognized (?:element|prefix) token|no algorithm/protocol available",
     "setting", "NCCL_ALGO or NCCL_PROTO names what this NCCL, or this job, cannot use"),
    ("2.4.2", "2.30.7", r"P2P is disabled between NVLINK connected GPUs|NVswitch links mismatch",
     "nvlink", "two GPUs with an NVLink between them cannot use it: the GPUs, or NVSwitch"),
    ("2.25.1", "2.30.7", r"MNNVL \(cliqueSize \d+\) is available but not",
     "nvlink", "NVLink between hosts does not work: IMEX and its channels"),
    ("2.27.3", "2.30.7", r"Failed to bind NVLink SHARP",
     "nvlink", "NVSwitch's multicast does not work: Fabric Manager, or NVSwitch"),
    ("2.4.2", "2.30.7", (r"[Ff]ailed to peer with device|(?:cuda|hip)IpcGetMemHandle failed"
     r"|failed to (?:get|open) CUDA IPC handle"),
     "p2p", "a GPU cannot reach another one of its host: ACS, IOMMU, or /dev/shm"),
    ("2.4.2", "2.30.7",
     (r"Error while \w+ shared memory segment|Error: failed to (?:extend|create shared memory)"
     r"|Could not map \S{1,300} size|posix_fallocate failed"),
     "shm", "no room in /dev/shm: a pod needs an emptyDir of medium Memory, Docker --shm-size"),
    ("2.4.2", "2.30.7", r"No transport found",
     "no_transport", "two ranks have no way to each other: a host without network devices"),
    ("2.4.2", "2.30.7",
     (r"NCCL WARN .{0,200}(?:[Cc]onnect to .{0,300} (?:failed|returned)"
     r"|[Pp]ollConnect.{0,300}(?:failed|returned)"
     r"|Call to (?:recv|send|connect|accept|bind|poll)\b.{0,300}failed"
     r"|exceeded (?:error )?(?:retr|timeouts)|Accept failed)"),
     "socket", _CONNECT),
    ("", "", r"client socket has timed out|retrieving ncclUniqueId", "socket", _CONNECT),
    ("2.4.2", "2.30.7",
     r"Connection closed by remote peer|socketProgress|socket progress error|retcode [1-9]",
     "late peer_lost", "another rank died first: read its log"),
    ("2.23.4", "2.30.7", r"communicator encountered a fatal error", "late aborted", _EARLIER),
    ("", "", r"\bcomm \S{1,30} .{0,160}- Abort COMPLETE", "late aborted",
     "NCCL gave up this communicator; an earlier line says why"),
    ("", "", r"Avg bus bandwidth\s*:\s*\S{1,30}\s+FAILED",
     "below_limit", "nccl-tests' own bandwidth limit was missed (NCCL_TESTS_MIN_BW)"),
    ("", "", r"^#\s*error: \S", "nccl_tests", "nccl-tests saw an error of NCCL"),
    ("2.4.2", "2.30.7",
     r"NCCL WARN .{0,200}[Cc]uda failure.{0,20}out of memory|CUDA out of memory",
     "memory", "no memory was left on the GPU or for the process: `nvidia-smi` names who has it"),
    ("2.4.2", "2.30.7", r"NCCL WARN .{0,200}(?:(?:[Cc]uda|CUDA|HIP) failure|Cuda error)",
     "cuda", _GPU),
    ("", "", r"Test (?:CUDA|HIP) failure|(?:CUDA|HIP) error:", "cuda", _GPU),
    ("", "", r"Test NCCL failure", "late nccl_failure", _GAVE_UP),
    ("", "", r"unhandled (?:system|cuda) error", "late unhandled", _EARLIER),
    ("", "", r"Test timeout \(\d+s\)", "timeout", "the test hung"),
    ("", "", r"\.\. \S+ pid \d+: Test failure", "late test_failure", _EARLIER),
    ("2.5.6", "2.30.7", r"Duplicate GPU detected|Multiple [Rr]anks (?:are|detected) using the same",
     "gpus", "two ranks got one GPU: slots of the hostfile, or the GPU of each rank"),
    ("2.23.4", "2.30.7", r"Mismatched NCCL version detected",
     "versions", "hosts run different releases of NCCL: compare their images"),
    ("", "", r"Incompatible NCCL versions", "versions", "built with one NCCL, run with another"),
    ("", "", r"^invalid size specified for |_perf: (?:unrecognized|invalid) option ",
     "usage", "an argument that the program does not take"),
    ("", "", r"Invalid number of GPUs", "gpus", "fewer GPUs in the pod than asked for"),
    ("", "", (r"torch\.distributed\.\w*Error|DistBackendError|NCCL error in: |ncclSystemError"
     r"|ncclInternalError|ncclRemoteError|ncclUnhandledCudaError"),
     "late framework", "the framework's NCCL call failed"),
)  # fmt: skip
"""Rows of NCCL's sources name the first and the last release that has their texts, by
tests/acceptance/recorded/nccl_words.tsv; those of nccl-tests and frameworks have none. A harmless
line comes from runs that completed, and its row says where one is published."""
_LAUNCHED = _rows(
    ("", "", r"unrecognized arguments|the following arguments are required",
     "usage", "an argument that the program does not know"),
    ("", "", r"command not found|No such file or directory|executable file not found",
     "missing_program", "the image lacks the program, or a mount is missing"),
    ("", "", r"ModuleNotFoundError: No module named",
     "missing_module", "the image's Python lacks that module"),
    ("", "", r"failed to initialize NVML|NVIDIA-SMI has failed", "no_driver", "no GPU driver"),
)  # fmt: skip


def nccl_finder() -> FailureFinder:
    """Looks for what NCCL, nccl-tests, their launchers and their hosts say of failures."""
    return FailureFinder(NCCL + LAUNCHERS, warning="NCCL WARN")


def launched_finder() -> FailureFinder:
    """Looks for the failures of a program that launchers start on other hosts, and of its NCCL."""
    return FailureFinder(NCCL + _LAUNCHED + LAUNCHERS)
