"""What PyTorch's own example of training on several nodes prints, behind `torchrun`.

It is `multinode.py` of the tutorial series on DistributedDataParallel: a data set of 2048 samples
and a layer of 21 numbers, whose gradients are summed after each step. Each node's log has the lines
of its own ranks (lab/sources.md#trainer).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from components.core.errors import UsageError
from lab.physics import nccl_text as text
from lab.physics.command_line import find_tool, option_value
from lab.physics.counters import deltas_of
from lab.physics.nccl_job import NcclJob, find_workers, gpu_name, place_ranks
from lab.physics.nccl_refusal import Refusal, refusal_of
from lab.physics.network import find_network, flows_of
from lab.physics.path import Site
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult

PROGRAM = "torchrun"
SCRIPT = "multinode.py"
_SAMPLES = 2048
_GRADIENT_BYTES = 21 * 4
_DEFAULT_BATCH = 32
_COLLECTIVE = "all_reduce"
_NUMBERS = 2
"""`total_epochs` and `save_every`."""


def run_torchrun(request: ProbeRequest, site: Site) -> ProbeResult:
    """Plays one node of `torchrun multinode.py EPOCHS SAVE_EVERY`: the launcher of the request.

    Only the first node moves counters, for all of them.

    Raises:
        UsageError: Another script, or arguments that it does not have.
    """
    node, workers = find_workers(request)
    call = find_tool(node.command, node.env, SCRIPT)
    epochs, batch = _arguments(call.arguments)
    job = _job(request, workers, batch, epochs)
    network = find_network(job, site)
    lines = text.start_up(job, network)
    if (refusal := refusal_of(job, network)) is not None:
        return _failed(job, node, [*lines, *refusal.lines], refusal)
    lines += [*text.connections(job, network), *_epochs(job, epochs, batch)]
    steps = epochs * _steps(job, batch)
    moves = workers[0].name == node.name
    flows = flows_of(job, network, _COLLECTIVE, _GRADIENT_BYTES * steps) if moves else []
    nics, ports = deltas_of(flows)
    log = text.render(job, _of_node(job, node, lines))
    return ProbeResult(log=log, exit_code=0, nic_deltas=nics, port_deltas=ports)


def _arguments(words: tuple[str, ...]) -> tuple[int, int]:
    """How many epochs, and how many samples a step."""
    batch = option_value(words, "--batch_size")
    numbers = [word for word in words if word.isdigit()]
    if batch is not None and batch in numbers:
        numbers.remove(batch)
    options = [word for word in words if word.startswith("-")]
    if len(numbers) != _NUMBERS or any(not each.startswith("--batch_size") for each in options):
        raise UsageError(f"the lab plays {SCRIPT} EPOCHS SAVE_EVERY [--batch_size N]")
    return int(numbers[0]), int(batch or _DEFAULT_BATCH)


def _job(request: ProbeRequest, workers: tuple[ProbePod, ...], batch: int, epochs: int) -> NcclJob:
    slots = sum(pod.gpus for pod in workers)
    job = NcclJob(
        binary=SCRIPT,
        sizes_bytes=(_GRADIENT_BYTES,),
        factor=1,
        iterations=1,
        warmups=0,
        checked=False,
        tagged=False,
        env={**workers[0].env},
        ranks=place_ranks(workers, slots),
        pods=workers,
        slots_asked=slots,
        gpu_name=gpu_name(request),
    )
    return replace(job, iterations=epochs * _steps(job, batch))


def _steps(job: NcclJob, batch: int) -> int:
    """Steps of an epoch: each rank has its share of the samples."""
    return -(-_share(job) // batch)


def _share(job: NcclJob) -> int:
    return -(-_SAMPLES // len(job.ranks))


def _epochs(job: NcclJob, epochs: int, batch: int) -> Iterator[text.Line]:
    size, steps = min(batch, _share(job)), _steps(job, batch)
    for rank in job.ranks:
        device = f"Running on rank {rank.gpu} on device cuda:{rank.gpu}"
        yield text.Line(rank.number, device)
        for epoch in range(epochs):
            words = f"[GPU{rank.number}] Epoch {epoch} | Batchsize: {size} | Steps: {steps}"
            yield text.Line(rank.number, words)


def _of_node(job: NcclJob, node: ProbePod, lines: list[text.Line]) -> list[text.Line]:
    own = {rank.number for rank in job.ranks_of(node)}
    return [line for line in lines if line.rank in own]


def _failed(job: NcclJob, node: ProbePod, lines: list[text.Line], refusal: Refusal) -> ProbeResult:
    """Every rank ends: the first one by NCCL's error, the others by the end of the first."""
    words = (
        f"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp: {refusal.words}"
    )
    first = job.ranks_of(node)[0].number
    ends = [
        text.Line(first, words),
        text.Line(first, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ]
    return ProbeResult(log=text.render(job, _of_node(job, node, [*lines, *ends])), exit_code=1)
