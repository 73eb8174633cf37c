"""What tf_cnn_benchmarks prints: ResNet-50 over Horovod, as fast as its all-reduce lets it be.

The layout is tf_cnn_benchmarks' (lab/sources.md#acceptance). Each step computes, then
waits for the gradients that nothing hides: on a slower network by so much longer.
"""

from __future__ import annotations

from collections.abc import Callable

from components.core.errors import UsageError
from components.core.record import record
from lab.physics import nccl_text as text
from lab.physics.bus_bandwidth import bus_factor
from lab.physics.calibration import (
    GRADIENT_BYTES,
    NCCL_SHARE,
    PAIR_GBIT_S,
    TRAINING_RANKS,
    TRAINING_TOTALS,
    Pace,
    collective_time_us,
)
from lab.physics.command_line import ToolCall, find_tool, option_value
from lab.physics.counters import deltas_of
from lab.physics.nccl_job import NcclJob, Rank, exported, find_workers, gpu_name, place_ranks
from lab.physics.nccl_refusal import Refusal, refusal_of
from lab.physics.network import Network, find_network, flows_of, pace_of
from lab.physics.path import Site
from lab.physics.request import ProbeRequest, ProbeResult

_PROGRAM = "tf_cnn_benchmarks.py"
_MODEL = "resnet50"
_COLLECTIVE = "all_reduce"
_DEFAULT_BATCH = 64
_STEPS = (1, *range(10, 101, 10))
_WARMUP_STEPS = 10
_RULE = "-" * 64


@record
class Guide:
    """What a benchmark came to on a real cluster."""

    images_s: float
    """Of all ranks."""
    ranks: int
    batch: int
    """Images a rank and step."""
    rails: int
    """Of 100 Gb/s, on each host."""


@record
class Benchmark:
    """One run of a benchmark."""

    job: NcclJob
    batch: int
    guide: Guide
    lines: Callable[[NcclJob, float], list[text.Line]]
    """What its ranks print at so many images/s of each."""


_GUIDE = Guide(sum(TRAINING_TOTALS) / len(TRAINING_TOTALS), TRAINING_RANKS, 512, 1)


def run_training(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays `mpirun ... tf_cnn_benchmarks.py --model resnet50 --variable_update=horovod`.

    Raises:
        UsageError: Another model, or variables that are not updated by Horovod.
    """
    launcher, _ = find_workers(request)
    call = find_tool(launcher.command, launcher.env, _PROGRAM)
    model = option_value(call.arguments, "--model")
    if model != _MODEL or option_value(call.arguments, "--variable_update") != "horovod":
        raise UsageError(f"the lab plays --model {_MODEL} --variable_update=horovod")
    batch = int(option_value(call.arguments, "--batch_size") or _DEFAULT_BATCH)
    job = training_job(request, call, _STEPS[-1], _WARMUP_STEPS)
    return play_benchmark(Benchmark(job, batch, _GUIDE, _lines), site)


def training_job(request: ProbeRequest, call: ToolCall, iterations: int, warmups: int) -> NcclJob:
    """The ranks of a training, each with a GPU, whose gradients are summed over all.

    Args:
        request: The probe.
        call: The benchmark as its launcher calls it.
        iterations: Steps that count.
        warmups: Steps before them.
    """
    launcher, workers = find_workers(request)
    slots = sum(pod.gpus for pod in workers)
    asked = int(option_value(call.before, "-np", "-n") or slots)
    return NcclJob(
        binary=call.tool,
        sizes_bytes=(GRADIENT_BYTES,),
        factor=1,
        iterations=iterations,
        warmups=warmups,
        checked=False,
        tagged="--tag-output" in call.before,
        env={**workers[0].env, **exported(call.before, launcher.env)},
        ranks=place_ranks(workers, asked),
        pods=workers,
        slots_asked=asked,
        gpu_name=gpu_name(request),
    )


def play_benchmark(benchmark: Benchmark, site: Site) -> ProbeResult:
    """Plays a benchmark on the devices as they are."""
    job = benchmark.job
    if job.slots_asked > len(job.ranks):
        return ProbeResult("\n".join(text.too_few_slots(job)) + "\n", 1)
    network = find_network(job, site)
    lines = text.start_up(job, network)
    if (refusal := refusal_of(job, network)) is not None:
        return _failed(job, lines, refusal)
    step_us = _step_us(benchmark, network)
    runs = job.iterations + job.warmups
    nics, ports = deltas_of(flows_of(job, network, _COLLECTIVE, GRADIENT_BYTES * runs))
    lines += text.connections(job, network)
    lines += benchmark.lines(job, benchmark.batch / step_us * 1e6)
    return ProbeResult(
        log=text.render(job, lines),
        exit_code=0,
        duration_s=step_us * runs / 1e6,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _step_us(benchmark: Benchmark, network: Network) -> float:
    """One step: the guide's own less what its network took, and what this network takes."""
    job, guide = benchmark.job, benchmark.guide
    guide_us = guide.batch * guide.ranks / guide.images_s * 1e6
    guide_pace = Pace(guide.rails * NCCL_SHARE * PAIR_GBIT_S / 8)
    guide_factor = bus_factor(_COLLECTIVE, guide.ranks)
    compute_us = guide_us - collective_time_us(GRADIENT_BYTES, guide_factor, guide_pace)
    factor = bus_factor(_COLLECTIVE, len(job.ranks))
    pace = pace_of(job, network, _COLLECTIVE)
    computed_us = compute_us * benchmark.batch / guide.batch
    return computed_us + collective_time_us(GRADIENT_BYTES, factor, pace)


def _lines(job: NcclJob, each: float) -> list[text.Line]:
    return [line for rank in job.ranks for line in _rank_lines(rank, each, len(job.ranks))]


def _rank_lines(rank: Rank, each: float, ranks: int) -> list[text.Line]:
    """What one rank prints; its total is the sum of all, a little apart from the others'."""
    own = TRAINING_TOTALS[rank.number % len(TRAINING_TOTALS)]
    total = each * ranks * own / (sum(TRAINING_TOTALS) / len(TRAINING_TOTALS))
    steps = [
        f"{step}\timages/sec: {each:.1f} +/- 0.0 (jitter = 0.0)\t7.{738 - step:03d}"
        for step in _STEPS
    ]
    words = ["Done warm up", "Step\tImg/sec\ttotal_loss", *steps]
    words += [_RULE, f"total images/sec: {total:.2f}", _RULE]
    return [text.Line(rank.number, word) for word in words]


def _failed(job: NcclJob, lines: list[text.Line], refusal: Refusal) -> ProbeResult:
    rank = refusal.rank
    words = (
        f"horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: {refusal.error}"
    )
    said = [*lines, *refusal.lines, text.Line(rank.number, words)]
    return ProbeResult(log=text.render(job, said, text.aborted(rank, 1)), exit_code=1)
