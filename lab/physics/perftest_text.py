"""What perftest prints, in its own layout (linux-rdma/perftest 00b55b6, sources.md#acceptance)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from lab.physics.fabric import FabricPath, HcaEndpoint
from lab.physics.path import AnyEnd, RailPath
from lab.physics.perftest_call import PerftestCall
from lab.physics.request import ProbePod
from lab.views import GpuView

RULE: Final = "-" * 87
"""RESULT_LINE of perftest."""
_MIB_PER_GBIT: Final = 1e9 / 8 / 2**20
_PEAK_OVER_AVERAGE_GBIT_S: Final = 0.02
"""Seed 000: 92.42 at its peak for 92.40 on average."""
_CPU_PERCENT: Final = 6.25
"""One of sixteen cores polls: a choice, no recording has the column."""
_TESTS: Final = {"write": "RDMA_Write", "read": "RDMA_Read", "send": "Send"}
_INLINE: Final = {"write": 220, "send": 236}
"""DEF_INLINE_* of perftest_parameters.h, which latency tests use outside of GPU memory."""
_LATENCY_HEAD: Final = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
_LATENCY_HEAD_OF_DURATION: Final = " #bytes        #iterations       t_avg[usec]    tps average"
_SPREAD: Final = (0.975, 2.15, 1.0, 1.002, 0.033, 1.046, 1.3)
"""Least, most, typical, average, deviation, 99 % and 99.9 % over the typical latency: a recorded
ib_read_lat (aks_read_lat.txt); its 99.9 % of 1000 messages is the most, and that of more a choice.
"""
AnyPath = RailPath | FabricPath


def bandwidth_row(call: PerftestCall, size: int, iterations: int, gbit_s: float) -> str:
    """One row of a bandwidth test."""
    scale = 1.0 if call.gbits else _MIB_PER_GBIT
    average = gbit_s * scale
    peak = 0.0 if call.duration_s else (gbit_s + _PEAK_OVER_AVERAGE_GBIT_S) * scale
    rate = gbit_s * 1e9 / 8 / size / 1e6
    gap = " " * 12
    cpu = f"{gap}{_CPU_PERCENT:<7.2f}" if call.cpu_util else ""
    return (
        f" {size:<7}    {iterations:<10}       {peak:<7.2f}{gap}{average:<7.2f}{gap}{rate:.6f}{cpu}"
    )


def latency_row(call: PerftestCall, size: int, iterations: int, typical_us: float) -> str:
    """One row of a latency test; with `-D` there is an average alone."""
    if call.duration_s:
        tps = iterations / call.duration_s
        return f" {size:<7}       {iterations}            {typical_us:<7.2f}        {tps:<7.2f}"
    least, most, typical, mean, spread, p99, p999 = (f"{typical_us * x:<7.2f}" for x in _SPREAD)
    return (
        f" {size:<7} {iterations}          {least}        {most}      {typical}  \t       {mean}"
        f"     \t{spread}\t\t{p99} \t\t{p999}"
    )


def banner(call: PerftestCall, path: AnyPath) -> list[str]:
    """From the first rule to the heads of the columns."""
    on_fabric = isinstance(path, FabricPath)
    kind = "Latency" if call.is_latency else "BW"
    inline = _INLINE.get(call.verb, 0) if call.is_latency and not call.cuda else 0
    gid = call.gid_index if call.gid_index is not None else None if on_fabric else 3
    lines = [
        RULE,
        f"                    {_TESTS[call.verb]} {kind} Test",
        f" Dual-port       : OFF          Device         : {path.sender.device}",
        f" Number of qps   : {call.qps:<12} Transport type : IB",
        " Connection type : RC           Using SRQ      : OFF",
        " PCIe relax order: ON",
        " ibv_wr* API     : ON",
        f" TX depth        : {1 if call.is_latency else 128}",
        *([] if call.is_latency else [" CQ Moderation   : 1"]),
        f" Mtu             : {path.rdma_mtu_bytes}[B]",
        f" Link type       : {'IB' if on_fabric else 'Ethernet'}",
        *([] if gid is None else [f" GID index       : {gid}"]),
        " Outstand reads  : 16" if call.verb == "read" else f" Max inline data : {inline}[B]",
        f" rdma_cm QPs     : {'ON' if call.rdma_cm else 'OFF'}",
        f" Data ex. method : {'rdma_cm' if call.rdma_cm else 'Ethernet'}",
        RULE,
        *_address("local", path.sender),
        *_address("remote", path.receiver),
        RULE,
        _heads(call),
    ]
    if call.duration_s and not call.is_latency:
        lines.insert(1, "WARNING: BW peak won't be measured in this run.")
    return lines


def _heads(call: PerftestCall) -> str:
    if call.is_latency:
        return _LATENCY_HEAD_OF_DURATION if call.duration_s else _LATENCY_HEAD
    unit = "Gb/sec" if call.gbits else "MiB/sec"
    cpu = "    CPU_Util[%]" if call.cpu_util else ""
    return f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]{cpu}"


def _address(which: str, end: AnyEnd) -> list[str]:
    mark = zlib.crc32(f"{end.host}/{end.attachment.ip or end.device}".encode())
    numbers = f"QPN 0x{mark & 0xFFFF:04x} PSN 0x{mark >> 8:06x}"
    if isinstance(end, HcaEndpoint):
        return [f" {which} address: LID 0x{mark & 0xFF | 1:02x} {numbers}"]
    gid = end.attachment.gid_text if end.attachment.ip else _link_local_gid(mark)
    return [f" {which} address: LID 0000 {numbers}", f" GID: {gid}"]


def _link_local_gid(mark: int) -> str:
    """The GID of a card whose IPv4 address the request does not name."""
    low = [f"{mark >> shift & 0xFF:02d}" for shift in (24, 16, 8, 0)]
    return ":".join(["254", "128", *["00"] * 6, "02", "00", "00", "255", *low])


def waiting() -> str:
    """What a server prints first."""
    stars = "*" * 36
    return f"\n{stars}\n* Waiting for client to connect... *\n{stars}\n"


def joined(lines: Sequence[str]) -> str:
    """Lines as a log."""
    return "\n".join(lines) + "\n"


def cuda_lines(call: PerftestCall, gpus: Sequence[GpuView], index: int) -> list[str]:
    """What comes before the banner where the memory of a GPU is used (src/cuda_memory.c)."""
    found = ["initializing CUDA"]
    if ":" in call.cuda:
        found += [f"Finding PCIe BUS {call.cuda}", f"Picking GPU number {index}", *found]
    buses = [gpu.pci.split(":")[1:] for gpu in gpus]
    pci = [f"{bus}:{rest.partition('.')[0]}" for bus, rest in buses]
    size = max(call.sizes_bytes[-1], 4096) * 2
    address = "0x7f2c00000000"
    mapped = f"using DMA-BUF for GPU buffer address at {address} aligned at {address}"
    return [
        *found,
        "Listing all CUDA devices in system:",
        *(f"CUDA device {number}: PCIe address is {each}" for number, each in enumerate(pci)),
        "",
        f"Picking device No. {index}",
        f"[pid = 101, dev = {index}] device name = [{gpus[index].name}]",
        "creating CUDA Ctx",
        "making it the current CUDA Ctx",
        "CUDA device integrated: 0",
        *([f"{mapped} with aligned size {size}"] if call.dmabuf else []),
        f"allocated GPU buffer of a {size} address at {address} for type CUDA_MEM_DEVICE",
    ]


CUDA_END: Final = ("deallocating GPU buffer 00007f2c00000000", "destroying current CUDA Ctx")


def no_gpu(call: PerftestCall, pod: ProbePod) -> list[str]:
    """What is said if the GPU that is asked for is none of the pod's."""
    gpu = "Couldn't init GPU context: 1"
    end = ["Failed to init memory", " Couldn't create IB resources"]
    if not pod.gpu_views:
        words = "There are no available device(s) that support CUDA"
        return ["initializing CUDA", words, gpu, *end]
    if ":" in call.cuda:
        bus = f"Failed to get PCI Bus ID ({call.cuda})"
        words = f"cuDeviceGetByPCIBusId failed with error: 101; {bus}"
        return ["initializing CUDA", f"Finding PCIe BUS {call.cuda}", words, *end]
    return ["initializing CUDA", f"No such device ID ({call.cuda}) exists in system", gpu, *end]
