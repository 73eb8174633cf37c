"""How a collective between the GPUs of one host ends: one process with all of them (`-g 8`).

Forms of NCCL 2.28.3 on four H200 (tests/acceptance/recorded/nccl/h200x4_all_reduce_4gpu.txt).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lab.physics import nccl_text as text
from lab.physics.bus_bandwidth import bus_factor
from lab.physics.calibration import PCIE_BUS_SHARE, PCIE_LANE_GB_S, Pace, collective_time_us
from lab.physics.command_line import find_tool, option_value
from lab.physics.nccl_job import NcclJob, Rank, job_of
from lab.physics.request import ProbePod, ProbeResult
from lab.views import GpuView

_START: Final = (15.0, 10.0)
"""Least time of a collective in us, and what larger ones need more: about as on two H100
(recorded/nccl/h100x2_all_reduce.txt)."""
_CHANNELS: Final = 24
_LINKS_WITH_NVLS: Final = 18
"""Of an H100: its NVSwitches add up what passes."""
_TOO_FEW_STATUS: Final = 5
"""Recorded: node_load_fails.log."""


def run_one_host(pod: ProbePod) -> ProbeResult:
    """Play one program of nccl-tests in a pod, on the GPUs that it holds.

    Raises:
        UsageError: The lab does not play the program or its sizes.
    """
    call = find_tool(pod.command, pod.env, "_perf")
    asked = int(option_value(call.arguments, "-g") or 1)
    gpus = [gpu for gpu in pod.gpu_views if not gpu.lost]
    ranks = tuple(
        Rank(number, pod, number, text.FIRST_PID, gpu.pci.split(":")[1].lower())
        for number, gpu in enumerate(gpus[:asked])
    )
    job = replace(job_of(call, pod.env, ranks), gpus_per_process=asked)
    if asked > len(gpus):
        return ProbeResult("\n".join(_too_few(job, pod, asked)) + "\n", _TOO_FEW_STATUS)
    job = replace(job, gpu_name=gpus[0].name)
    lines = [*text.opening(job), *_start_up(job, gpus[0]), *text.table_head(), *_rings(job)]
    rows = [_row(job, text.printed_size(job, size), gpus[:asked]) for size in job.sizes_bytes]
    wrong = "0" if job.checked else "N/A"
    lines += [text.table_row(job, row, wrong) for row in rows]
    return ProbeResult(text.render(job, [*lines, *text.closing(job, rows)]), 0)


def _row(job: NcclJob, size: int, gpus: list[GpuView]) -> text.Row:
    factor = bus_factor(job.collective, len(gpus))
    pace = Pace(min(map(_bus_gb_s, gpus)), *_START)
    time_us = collective_time_us(size, factor, pace)
    algbw = size / time_us / 1e3
    return text.Row(size, time_us, algbw, algbw * factor)


def _bus_gb_s(gpu: GpuView) -> float:
    return gpu.bus_gb_s or PCIE_BUS_SHARE * PCIE_LANE_GB_S[gpu.pcie_gen] * gpu.pcie_width


def _too_few(job: NcclJob, pod: ProbePod, asked: int) -> list[str]:
    head = [line.text for line in text.opening(replace(job, ranks=(Rank(0, pod, 0),)))][:5]
    return [
        *head,
        f"Invalid number of GPUs: {asked} requested but only {len(job.ranks)} were found.",
        "Please check the number of processes and GPUs per process.",
        f" .. {pod.name} pid {text.FIRST_PID}: Test failure common.cu:1454",
    ]


def _start_up(job: NcclJob, gpu: GpuView) -> Iterator[text.Line]:
    if not job.verbose:
        return
    first = job.ranks[0]
    for words in (
        "Bootstrap: Using eth0:10.42.0.2<0>",
        "cudaDriverVersion 13000",
        text.version(first.pod),
        "NET/Plugin: Could not find: libnccl-net.so",
        "NET/IB : No device found.",
        "Failed to initialize NET plugin IB",
        "NET/Socket : Using [0]eth0:10.42.0.2<0>",
    ):
        yield text.info(first, words)
    for rank in job.ranks:
        yield text.info(rank, "Initialized NET plugin Socket")
        yield text.info(rank, "Assigned NET plugin Socket to comm")
        yield text.info(rank, "Using network Socket")
        yield text.info(rank, f"{text.comm(job, rank)} - Init START")
    around = " ".join(str(rank.number) for rank in job.ranks)
    for channel in range(_CHANNELS):
        yield text.info(first, f"Channel {channel:02d}/{_CHANNELS} : {around}")
    nvls = 16 if gpu.nvlinks == _LINKS_WITH_NVLS else 0
    words = f"{_CHANNELS} coll channels, {_CHANNELS} collnet channels, {nvls} nvls channels, "
    for rank in job.ranks:
        yield text.info(rank, f"{words}32 p2p channels, 32 p2p channels per peer")
        yield text.info(rank, f"{text.comm(job, rank)} - Init COMPLETE")


def _rings(job: NcclJob) -> Iterator[text.Line]:
    """The channels, which NCCL connects when the first collective needs them."""
    if not job.verbose:
        return
    pairs = list(zip(job.ranks, (*job.ranks[1:], job.ranks[0]), strict=True))
    for channel in range(_CHANNELS):
        for one, other in pairs:
            step = f"{one.number}[{one.gpu}] -> {other.number}[{other.gpu}]"
            words = f"Channel {channel:02d}/0 : {step} via P2P/direct pointer"
            yield text.info(one, words)
    for rank in job.ranks:
        yield text.info(rank, "Connected all rings, use ring PXN 0 GDR 1")
