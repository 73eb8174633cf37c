"""What DeepSpeed's communication benchmark prints over the lab's rails.

The layout is that of `benchmarks/communication` (lab/sources.md#acceptance): times and
bandwidths are those of the same collective in nccl-tests, its throughput counts the data twice.
"""

from __future__ import annotations

from components.core.errors import UsageError
from lab.physics import nccl_text as text
from lab.physics.bus_bandwidth import bus_factor
from lab.physics.calibration import collective_time_us
from lab.physics.command_line import find_tool, option_value
from lab.physics.counters import deltas_of
from lab.physics.nccl_job import NcclJob, exported, find_workers, gpu_name, place_ranks
from lab.physics.nccl_refusal import Refusal, refusal_of
from lab.physics.network import Network, find_network, flows_of, pace_of
from lab.physics.path import Site
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult

_COLLECTIVE = "all_reduce"
_SCRIPT = "all_reduce.py"
_DEFAULT_MAXSIZE = 24
_RUNS = 50 + 5
"""Defaults of `--trials` and `--warmups`."""
_ELEMENT_BYTES = 4
_RULE = "-" * 100
_US_PER_MS = 1000


def run_scan(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays `deepspeed ... all_reduce.py --scan`.

    Raises:
        UsageError: Another script, or another mode.
    """
    launcher, workers = find_workers(request)
    call = find_tool(launcher.command, launcher.env, "deepspeed")
    if not any(word.endswith(f"/{_SCRIPT}") for word in call.arguments):
        raise UsageError(f"the lab plays {_SCRIPT} of DeepSpeed's benchmarks, not {call.arguments}")
    if "--scan" not in call.arguments:
        raise UsageError("the lab plays DeepSpeed's benchmarks with --scan")
    exponent = int(option_value(call.arguments, "--maxsize") or _DEFAULT_MAXSIZE)
    slots = sum(pod.gpus for pod in workers)
    job = NcclJob(
        binary=_COLLECTIVE,
        sizes_bytes=tuple(slots * 2**power * _ELEMENT_BYTES for power in range(1, exponent)),
        factor=2,
        iterations=_RUNS,
        warmups=0,
        checked=False,
        tagged=False,
        # DeepSpeed hands on the variables of its own environment that begin with NCCL.
        env={**exported(call.before, launcher.env), **_of_nccl(launcher)},
        ranks=place_ranks(workers, slots),
        pods=workers,
        slots_asked=slots,
        gpu_name=gpu_name(request),
    )
    return _run(job, find_network(job, site))


def _run(job: NcclJob, network: Network) -> ProbeResult:
    head = text.render(job, text.start_up(job, network))
    if (refusal := refusal_of(job, network)) is not None:
        return _failed(refusal, head + text.render(job, refusal.lines))
    pace = pace_of(job, network, _COLLECTIVE)
    factor = bus_factor(_COLLECTIVE, len(job.ranks))
    times = {size: collective_time_us(size, factor, pace) for size in job.sizes_bytes}
    nics, ports = deltas_of(flows_of(job, network, _COLLECTIVE, sum(job.sizes_bytes) * _RUNS))
    table = [_row(size, time_us, factor) for size, time_us in times.items()]
    lines = text.render(job, text.connections(job, network)) + "\n".join([*_head(job), *table])
    return ProbeResult(
        log=f"{head}{lines}\n",
        exit_code=0,
        duration_s=sum(times.values()) * _RUNS / 1e6,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _of_nccl(launcher: ProbePod) -> dict[str, str]:
    return {name: value for name, value in launcher.env.items() if name.startswith("NCCL")}


def _head(job: NcclJob) -> list[str]:
    title = f"---- Performance of {_COLLECTIVE} on {len(job.ranks)} devices "
    columns = ("Size (Bytes)", "Description", "Duration", "Throughput (Gbps)", "BusBW (Gbps)")
    return [title.ljust(len(_RULE), "-"), _cells(*columns), _RULE]


def _row(size: int, time_us: float, factor: float) -> str:
    gbit_s = size * 8 / time_us / 1e3
    slow = time_us >= _US_PER_MS
    duration = f"{time_us / _US_PER_MS:.3f} ms" if slow else f"{time_us:.3f} us"
    return _cells(
        _size_text(size),
        f"{size // _ELEMENT_BYTES}x{_ELEMENT_BYTES}",
        duration,
        f"{2 * gbit_s:.3f}",
        f"{factor * gbit_s:.3f}",
    )


def _cells(size: str, description: str, duration: str, throughput: str, busbw: str) -> str:
    return f"{size:<20} {description:25s} {duration:20s} {throughput:20s} {busbw:20s}".rstrip()


def _size_text(size: int) -> str:
    """Base 1024 under SI names, as the benchmark's own `convert_size`."""
    for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
        if size >= 1 << power:
            return f"{round(size / (1 << power), 2)} {unit}"
    return f"{size} B"


def _failed(refusal: Refusal, head: str) -> ProbeResult:
    """The words of torch when NCCL cannot connect, from the first rank that says it."""
    words = (
        f"{refusal.rank.pod.name}: torch.distributed.DistBackendError: NCCL error in: "
        "ProcessGroupNCCL.cpp: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    )
    return ProbeResult(log=head + words, exit_code=1)
