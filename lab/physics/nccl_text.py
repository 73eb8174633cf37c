"""The lines of an NCCL log: forms of NCCL 2.28.3 and nccl-tests 2.19.6.

Each form is that of a recorded run (`tests/acceptance/recorded`, all_reduce_nvlink.txt and
h200x4_two_hosts_tagged.txt); the lines of NET/IB and failures are NCCL's (sources.md#acceptance).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from components.core.record import record
from lab.physics.fabric import HcaEndpoint
from lab.physics.nccl_job import NcclJob, Rank
from lab.physics.network import Network, uses_gdr
from lab.physics.path import AnyEnd
from lab.physics.request import ProbePod

_NCCL_RELEASE = "2.28.3"
_CUDA = "12.9"
_CHANNELS_PER_RAIL = 2
FIRST_PID = 101
_ECHOED = frozenset({"NCCL_NET_GDR_LEVEL", "NCCL_ALGO"})
"""Variables that NCCL repeats beside those of NET/IB."""
_GPU_BUSES = ("06", "07", "0a", "0b", "85", "86", "89", "8a")
"""PCI buses of the eight V100 of a DGX-1, as nvidia-smi lists them."""
_TIME_WIDTH = 7
_ALIGNED_BYTES = 16


@record
class Line:
    """One line of a rank's output."""

    rank: int
    text: str


@record
class Row:
    """One line of the result table."""

    size_bytes: int
    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float


def render(job: NcclJob, lines: Iterable[Line], trailer: Sequence[str] = ()) -> str:
    """The launcher's output: each rank's lines, tagged as mpirun does when asked."""
    texts = [f"[1,{line.rank}]<stdout>:{line.text}" if job.tagged else line.text for line in lines]
    return "\n".join([*texts, *trailer]) + "\n"


def opening(job: NcclJob) -> list[Line]:
    """From the version to the list of devices; rank 0 prints it."""
    checked = int(job.checked)
    step = f"{job.factor}(factor)" if job.factor > 1 else "1048576(bytes)"
    major, minor, patch = release_of(job.ranks[0].pod)
    number = major * 10000 + minor * 100 + patch
    texts = [
        f"# nccl-tests version 2.19.6 nccl-headers={number} nccl-library={number}",
        f"# Collective test starting: {job.binary}",
        (
            f"# nThread 1 nGpus {job.gpus_per_process} minBytes {job.sizes_bytes[0]} "
            f"maxBytes {job.sizes_bytes[-1]} step: {step} warmup iters: {job.warmups} "
            f"iters: {job.iterations} "
            f"agg iters: 1 validation: {checked} graph: 0 unalign: 0"
        ),
        "#",
        "# Using devices",
    ]
    texts += [
        f"#  Rank {rank.number:2d} Group  0 Pid {_pid(rank):6d} on {rank.pod.name:>10} "
        f"device {rank.gpu:2d} [0000:{_bus(rank)}:00] {job.gpu_name}"
        for rank in job.ranks
    ]
    return [Line(0, text) for text in texts]


def release_of(pod: ProbePod) -> tuple[int, int, int]:
    """The release of NCCL in a pod, as numbers."""
    major, minor, patch = (int(part) for part in (pod.nccl or _NCCL_RELEASE).split("."))
    return major, minor, patch


def version(pod: ProbePod) -> str:
    """The release of NCCL in a pod, as NCCL says it."""
    return f"NCCL version {pod.nccl or _NCCL_RELEASE}+cuda{_CUDA}"


def start_up(job: NcclJob, network: Network) -> list[Line]:
    """What every rank says until its communicator is complete."""
    lines: list[Line] = []
    if not job.verbose and job.env.get("NCCL_DEBUG", ""):
        return [Line(0, version(job.ranks[0].pod))]
    if not job.verbose:
        return lines
    for rank in job.ranks:
        texts = [
            version(rank.pod),
            *(
                f"{name} set by environment to {value}."
                for name, value in sorted(job.env_of(rank.pod).items())
                if name.startswith("NCCL_IB_") or name in _ECHOED
            ),
            *_topology_lines(job, network, rank),
            "NET/Plugin: Could not find: libnccl-net.so",
            *_network_lines(job, network.devices.get(rank.pod.name, ())),
            f"{comm(job, rank)} - Init START",
        ]
        lines += [info(rank, text) for text in texts]
    return lines


def connections(job: NcclJob, network: Network) -> list[Line]:
    """The channel lines of a ring over all ranks, which prove the path, and their end."""
    if not job.verbose:
        return []
    lines: list[Line] = []
    rails, ranks = network.width, job.ranks
    for channel in range(_CHANNELS_PER_RAIL * max(rails, 1)):
        for one, other in zip(ranks, (*ranks[1:], ranks[0]), strict=True):
            lines += _hop(job, network, channel, one, other)
    for rank in ranks:
        ends = network.devices.get(rank.pod.name, ())
        gdr = int(bool(ends) and all(uses_gdr(job, end) for end in ends))
        lines.append(info(rank, f"Connected all rings, use ring PXN 0 GDR {gdr}"))
        lines.append(info(rank, f"{comm(job, rank)} - Init COMPLETE"))
    return lines


def table_head() -> list[Line]:
    """The three header lines of the result table."""
    return [
        Line(0, "#"),
        Line(0, "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place          "),
        Line(
            0,
            "#       size         count      type   redop    root"
            "     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
        ),
        Line(
            0,
            "#        (B)    (elements)                           "
            "    (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
        ),
    ]


def table_row(job: NcclJob, row: Row, wrong: str) -> Line:
    """One row; both columns of the lab's smooth curve are equal.

    alltoall cannot check values in place (nccl-tests, alltoall.cu).
    """
    half = f"  {_time(row.time_us):>7}  {row.algbw_gb_s:6.2f}  {row.busbw_gb_s:6.2f}"
    in_place = "N/A" if job.collective == "alltoall" else wrong
    return Line(0, f"{row_start(job, row.size_bytes)}{half}  {wrong:>6}{half}  {in_place:>6}")


def printed_size(job: NcclJob, asked_bytes: int) -> int:
    """The size that a row has: where ranks share it, the parts are whole runs of 16 bytes.

    Below that it is 0 (`getCollByteCount` of all_gather.cu and others).
    """
    if job.collective == "all_reduce":
        return asked_bytes
    parts = len(job.ranks)
    return asked_bytes // parts // _ALIGNED_BYTES * _ALIGNED_BYTES * parts


def row_start(job: NcclJob, size_bytes: int) -> str:
    """What nccl-tests prints of a row before it measures.

    The size is that of all ranks together where a collective gathers or scatters, and the count
    that of one rank; what reduces nothing has no operation.
    """
    reduces = job.collective in ("all_reduce", "reduce_scatter")
    parts = 1 if job.collective == "all_reduce" else len(job.ranks)
    operation = "sum" if reduces else "none"
    return (
        f"{size_bytes:12d}  {size_bytes // 4 // parts:12d}  {'float':>8}  {operation:>6}  {'-1':>6}"
    )


def closing(job: NcclJob, rows: Sequence[Row]) -> list[Line]:
    """The ranks' farewell and the footer."""
    lines: list[Line] = []
    if job.verbose:
        lines += [
            info(rank, f"comm rank {rank.number} nranks {len(job.ranks)} - Destroy COMPLETE")
            for rank in job.ranks
        ]
    average = sum(row.busbw_gb_s for row in rows) / len(rows)
    footer = [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {average:g} ",
        "#",
        f"# Collective test concluded: {job.binary}",
        "#",
    ]
    return [*lines, *(Line(0, text) for text in footer)]


def info(rank: Rank, text: str) -> Line:
    """An INFO line of one rank."""
    where = f"{rank.pod.name}:{_pid(rank)}:{_pid(rank)} [{rank.gpu}]"
    return Line(rank.number, f"{where} NCCL INFO {text}")


def warning(rank: Rank, source: str, text: str) -> list[Line]:
    """A WARN line of one rank, after the empty line that NCCL prints before it."""
    where = f"{rank.pod.name}:{_pid(rank)}:{_pid(rank)} [{rank.gpu}]"
    return [
        Line(rank.number, ""),
        Line(rank.number, f"[2026-01-01 00:00:00] {where} {source} NCCL WARN {text}"),
    ]


def test_failure(rank: Rank, reason: str) -> list[Line]:
    """The lines with which nccl-tests ends after an NCCL error."""
    pod = rank.pod.name
    return [
        Line(rank.number, f"{pod}: Test NCCL failure common.cu:1550 '{reason} / '"),
        Line(rank.number, f" .. {pod} pid {_pid(rank)}: Test failure common.cu:1454"),
    ]


def aborted(rank: Rank, exit_code: int) -> list[str]:
    """What Open MPI 4 says when a rank ends with an error."""
    rule = "-" * 74
    return [
        rule,
        "Primary job  terminated normally, but 1 process returned",
        "a non-zero exit code. Per user-direction, the job has been aborted.",
        rule,
        rule,
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
        "the job to be terminated. The first process to do so was:",
        "",
        f"  Process name: [[61013,1],{rank.number}]",
        f"  Exit code:    {exit_code}",
        rule,
    ]


def too_few_slots(job: NcclJob) -> list[str]:
    """What Open MPI 4 says when more ranks are asked for than the hostfile has slots."""
    rule = "-" * 74
    return [
        rule,
        f"There are not enough slots available in the system to satisfy the {job.slots_asked}",
        "slots that were requested by the application:",
        "",
        f"  {job.binary}",
        "",
        "Either request fewer slots for your application, or make more slots",
        "available for use.",
        rule,
    ]


def _topology_lines(job: NcclJob, network: Network, rank: Rank) -> list[str]:
    """The topology file, and what NCCL says when the node has none (xml.cc)."""
    path = job.env.get("NCCL_TOPO_FILE")
    if path is None:
        return []
    lines = [f"NCCL_TOPO_FILE set by environment to {path}"]
    ends = network.devices.get(rank.pod.name, ())
    if any(isinstance(end, HcaEndpoint) and not end.can_read(path) for end in ends):
        lines.append(f"Could not open XML topology file {path} : No such file or directory")
    return lines


def _network_lines(job: NcclJob, devices: Sequence[AnyEnd]) -> list[str]:
    if not devices:
        return [
            "NET/IB : No device found.",
            "Failed to initialize NET plugin IB",
            "NET/Socket : Using [0]eth0:10.42.0.2<0>",
            "Initialized NET plugin Socket",
            "Assigned NET plugin Socket to comm",
            "Using network Socket",
        ]
    using = " ".join(
        f"[{index}]{end.device}:1/{end.link_layer}" for index, end in enumerate(devices)
    )
    # 2, the default, turns relaxed ordering on where the card can; 0 turns it off (net_ib).
    relaxed = "" if job.env.get("NCCL_IB_PCI_RELAXED_ORDERING") == "0" else " [RO]"
    return [
        f"NET/IB : Using {using}{relaxed}; OOB eth0:10.42.0.2<0>",
        "Initialized NET plugin IB",
        "Assigned NET plugin IB to comm",
        "Using network IB",
    ]


def _hop(job: NcclJob, network: Network, channel: int, one: Rank, other: Rank) -> list[Line]:
    """The lines of one step of the ring: inside a host one, between hosts one at each end."""
    step = f"Channel {channel:02d}/0 : {one.number}[{one.gpu}] -> {other.number}[{other.gpu}]"
    if one.pod.name == other.pod.name:
        return [info(one, f"{step} via P2P/CUMEM")]
    return [
        info(rank, f"{step} [{verb}] via NET/{_net(job, network, channel, rank)}")
        for rank, verb in ((other, "receive"), (one, "send"))
    ]


def _net(job: NcclJob, network: Network, channel: int, rank: Rank) -> str:
    devices = network.devices.get(rank.pod.name, ())
    if not devices:
        return "Socket/0"
    index = channel % len(devices)
    return f"IB/{index}" + ("/GDRDMA" if uses_gdr(job, devices[index]) else "")


def _time(time_us: float) -> str:
    """Fewer decimals for longer times, as `getFloatStr` of nccl-tests does."""
    for decimals in (2, 1):
        text = f"{time_us:.{decimals}f}"
        if len(text) <= _TIME_WIDTH:
            return text
    return f"{time_us:.0f}"


def comm(job: NcclJob, rank: Rank) -> str:
    """How NCCL names a communicator; its address and id are made from the names of the pods."""
    number = zlib.crc32("/".join(pod.name for pod in job.pods).encode())
    address = 0x5559_0000_0000 + rank.number * 0x40000
    return (
        f"ncclCommInitRankConfig comm 0x{address:x} rank {rank.number} nranks {len(job.ranks)} "
        f"cudaDev {rank.gpu} nvmlDev {rank.gpu} busId {_bus(rank)}000 commId 0x{number:x}"
    )


def _pid(rank: Rank) -> int:
    return rank.pid or FIRST_PID + rank.gpu


def _bus(rank: Rank) -> str:
    return rank.bus or _GPU_BUSES[rank.gpu % len(_GPU_BUSES)]
