"""What tf_cnn_benchmarks prints: ResNet-50 over Horovod, as fast as its all-reduce lets it be.

The layout is tf_cnn_benchmarks' (docs/explanation/sources.md#acceptance). Each step computes, then
waits for the gradients that nothing hides: on a slower network by so much longer.
"""

from __future__ import annotations

from components.core.errors import UsageError
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
from lab.physics.command_line import find_tool, option_value
from lab.physics.counters import deltas_of
from lab.physics.nccl_job import NcclJob, Rank, exported, find_workers, gpu_name, place_ranks
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


def run_training(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays `mpirun ... tf_cnn_benchmarks.py --model resnet50 --variable_update=horovod`.

    Raises:
        UsageError: Another model, or variables that are not updated by Horovod.
    """
    launcher, workers = find_workers(request)
    call = find_tool(launcher.command, launcher.env, _PROGRAM)
    model = option_value(call.arguments, "--model")
    if model != _MODEL or option_value(call.arguments, "--variable_update") != "horovod":
        raise UsageError(f"the lab plays --model {_MODEL} --variable_update=horovod")
    slots = sum(pod.gpus for pod in workers)
    asked = int(option_value(call.before, "-np", "-n") or slots)
    job = NcclJob(
        binary=_PROGRAM,
        sizes_bytes=(GRADIENT_BYTES,),
        factor=1,
        iterations=_STEPS[-1],
        warmups=_WARMUP_STEPS,
        checked=False,
        tagged="--tag-output" in call.before,
        env={**workers[0].env, **exported(call.before, launcher.env)},
        ranks=place_ranks(workers, asked),
        pods=workers,
        slots_asked=asked,
        gpu_name=gpu_name(request),
    )
    if job.slots_asked > len(job.ranks):
        return ProbeResult("\n".join(text.too_few_slots(job)) + "\n", 1)
    batch = int(option_value(call.arguments, "--batch_size") or _DEFAULT_BATCH)
    return _train(job, find_network(job, site), batch)


def _train(job: NcclJob, network: Network, batch: int) -> ProbeResult:
    lines = text.start_up(job, network)
    if network.split or network.fault or network.unpinned:
        return _failed(job, lines)
    step_us = _step_us(job, network, batch)
    runs = job.iterations + job.warmups
    nics, ports = deltas_of(flows_of(job, network, _COLLECTIVE, GRADIENT_BYTES * runs))
    each = batch / step_us * 1e6
    lines += text.connections(job, network)
    for rank in job.ranks:
        lines += _rank_lines(rank, each, len(job.ranks))
    return ProbeResult(
        log=text.render(job, lines),
        exit_code=0,
        duration_s=step_us * runs / 1e6,
        nic_deltas=nics,
        port_deltas=ports,
    )


def _step_us(job: NcclJob, network: Network, batch: int) -> float:
    """One step: the guide's own less what its network took, and what this network takes."""
    guide_us = 512 * TRAINING_RANKS / (sum(TRAINING_TOTALS) / len(TRAINING_TOTALS)) * 1e6
    guide_pace = Pace(NCCL_SHARE * PAIR_GBIT_S / 8)
    guide_factor = bus_factor(_COLLECTIVE, TRAINING_RANKS)
    compute_us = guide_us - collective_time_us(GRADIENT_BYTES, guide_factor, guide_pace)
    factor = bus_factor(_COLLECTIVE, len(job.ranks))
    pace = pace_of(job, network, _COLLECTIVE)
    return compute_us * batch / 512 + collective_time_us(GRADIENT_BYTES, factor, pace)


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


def _failed(job: NcclJob, lines: list[text.Line]) -> ProbeResult:
    rank = job.ranks[0]
    words = (
        "horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: ncclSystemError"
    )
    log = text.render(job, [*lines, text.Line(rank.number, words)], text.aborted(rank, 1))
    return ProbeResult(log=log, exit_code=1)
