"""Reads a job over NCCL: its ranks, its environment, and the sizes of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from components.core.errors import UsageError
from components.core.record import record, replace
from lab.physics.command_line import ToolCall, find_tool, option_value, parse_size
from lab.physics.request import ProbePod, ProbeRequest

_MIB = 1 << 20
_DEFAULT_SIZE_BYTES = 32 * _MIB
_DEFAULT_ITERATIONS = 20
_DEFAULT_WARMUPS = 1
"""Of nccl-tests at version 2.19 (sources.md#acceptance)."""
_FEWEST_HOSTS = 2
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


@record
class Rank:
    """One MPI rank and the GPU it drives."""

    number: int
    pod: ProbePod
    gpu: int
    pid: int = 0
    """Of the process that it is in, where that has several ranks."""
    bus: str = ""
    """The GPU's PCI bus, two hex digits; empty for the one that a DGX-1 has there."""


@record
class NcclJob:
    """What the job runs."""

    binary: str
    """Name of the program: `all_reduce_perf`."""
    sizes_bytes: tuple[int, ...]
    factor: int
    iterations: int
    warmups: int
    checked: bool
    tagged: bool
    env: Mapping[str, str]
    ranks: tuple[Rank, ...]
    pods: tuple[ProbePod, ...]
    slots_asked: int
    searches: bool = False
    """Each rank looks for its node's InfiniBand adapters before it starts."""
    gpu_name: str = "Tesla V100-SXM2-32GB"
    gpus_per_process: int = 1

    @property
    def collective(self) -> str:
        """`all_reduce` of `all_reduce_perf`."""
        return self.binary.removesuffix("_mpi").removesuffix("_perf")

    @property
    def verbose(self) -> bool:
        """NCCL prints its INFO lines."""
        return self.env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE")

    @property
    def tclass(self) -> int:
        """The traffic class byte of NCCL's packets; 0 when nothing sets it."""
        return max(int(self.env.get("NCCL_IB_TC", "0") or 0), 0)

    def env_of(self, pod: ProbePod) -> dict[str, str]:
        """The environment of the ranks in one pod."""
        return {**self.env, **pod.rank_env}

    def ranks_of(self, pod: ProbePod) -> tuple[Rank, ...]:
        """The ranks that run in one pod."""
        return tuple(rank for rank in self.ranks if rank.pod.name == pod.name)


def read_job(request: ProbeRequest) -> NcclJob:
    """Reads the job from its launcher's command and its workers.

    Raises:
        UsageError: It is no job that the lab plays; the text says what is missing.
    """
    launcher, workers = find_workers(request)
    call = find_tool(launcher.command, launcher.env, "_perf")
    if int(option_value(call.arguments, "-g") or 1) != 1:
        raise UsageError("the lab plays one GPU per rank (-g 1) between hosts")
    asked = int(option_value(call.before, "-np", "-n") or sum(pod.gpus for pod in workers))
    env = {**workers[0].env, **exported(call.before, launcher.env)}
    job = job_of(call, env, place_ranks(workers, asked))
    return replace(job, pods=workers, slots_asked=asked, gpu_name=gpu_name(request))


def job_of(call: ToolCall, env: Mapping[str, str], ranks: tuple[Rank, ...]) -> NcclJob:
    """What a program of nccl-tests is asked to do, on these ranks.

    Raises:
        UsageError: The lab does not play the program or its sizes.
    """
    if call.tool.removesuffix("_mpi").removesuffix("_perf") not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise UsageError(f"the lab plays {known} of nccl-tests, not {call.tool}")
    factor, sizes = _sizes(call)
    return NcclJob(
        binary=call.tool,
        sizes_bytes=sizes,
        factor=factor,
        iterations=int(option_value(call.arguments, "-n") or _DEFAULT_ITERATIONS),
        warmups=int(option_value(call.arguments, "-w") or _DEFAULT_WARMUPS),
        checked=(option_value(call.arguments, "-c") or "1") != "0",
        tagged="--tag-output" in call.before or option_value(call.before, "--output") == "tag",
        env=env,
        ranks=ranks,
        pods=tuple({rank.pod.name: rank.pod for rank in ranks}.values()),
        slots_asked=len(ranks),
        searches=_searches(call.before),
    )


def find_workers(request: ProbeRequest) -> tuple[ProbePod, tuple[ProbePod, ...]]:
    """The launcher and the pods or machines that its ranks run on.

    Raises:
        UsageError: There are fewer than two of them.
    """
    launcher = request.launcher or request.pods[0]
    workers = tuple(
        pod for pod in request.pods if pod.networks or pod.host_network or pod.name != launcher.name
    )
    if len(workers) < _FEWEST_HOSTS:
        raise UsageError(f"a probe of a fabric needs two workers; got {len(workers)}")
    return launcher, workers


def gpu_name(request: ProbeRequest) -> str:
    """The GPUs of the lab's sites: an HGX in a cloud, a guest's single card, else a DGX-1."""
    if any(item.kind == "hca" for pod in request.pods for item in pod.networks):
        return "NVIDIA H100 80GB HBM3"
    return "NVIDIA A100-PCIE-40GB" if request.kind == "mpirun" else "Tesla V100-SXM2-32GB"


def _searches(before: Sequence[str]) -> bool:
    """Whether a script before the program looks for InfiniBand ports, and sets NCCL_IB_HCA."""
    return any("NCCL_IB_HCA" in word and "= InfiniBand" in word for word in before)


def _sizes(call: ToolCall) -> tuple[int, tuple[int, ...]]:
    smallest = parse_size(option_value(call.arguments, "-b") or str(_DEFAULT_SIZE_BYTES))
    largest = parse_size(option_value(call.arguments, "-e") or str(_DEFAULT_SIZE_BYTES))
    factor = int(option_value(call.arguments, "-f") or 1)
    if smallest > largest or smallest <= 0:
        raise UsageError(f"invalid sizes for 'minbytes' and 'maxbytes': {smallest}, {largest}")
    if smallest != largest and factor <= 1:
        raise UsageError("the lab plays sizes that grow by a factor (-f 2)")
    sizes = [smallest]
    while sizes[-1] * factor <= largest and factor > 1:
        sizes.append(sizes[-1] * factor)
    return factor, tuple(sizes)


def exported(words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The `-x NAME=value` and `-x NAME` of mpirun."""
    exported: dict[str, str] = {}
    for flag, word in pairwise(words):
        if flag == "-x":
            name, assigned, value = word.partition("=")
            if assigned:
                exported[name] = value
            elif name in env:
                exported[name] = env[name]
    return exported


def place_ranks(workers: Sequence[ProbePod], asked: int) -> tuple[Rank, ...]:
    """Ranks in the order of slots, as Open MPI maps them by default."""
    slots = [(pod, gpu) for pod in workers for gpu in range(pod.gpus)]
    return tuple(Rank(number, pod, gpu) for number, (pod, gpu) in enumerate(slots[:asked]))
