"""Reads an NCCL test job: ranks, environment, sizes, and the network that each host would use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from components.errors import UsageError
from lab.physics.command_line import ToolCall, find_tool, option_value, parse_size
from lab.physics.path import Endpoint, PathFault, RailPath, Site, find_fault, follow
from lab.physics.request import ProbePod, ProbeRequest

_MIB = 1 << 20
_DEFAULT_SIZE_BYTES = 32 * _MIB
_DEFAULT_ITERATIONS = 20
_DEFAULT_WARMUPS = 1
"""Of nccl-tests at version 2.19 (sources.md#acceptance)."""
_FEWEST_HOSTS = 2


@dataclass(frozen=True, slots=True)
class Rank:
    """One MPI rank and the GPU it drives."""

    number: int
    pod: ProbePod
    gpu: int


@dataclass(frozen=True, slots=True)
class NcclJob:
    """What the job runs."""

    binary: str
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

    @property
    def verbose(self) -> bool:
        """NCCL prints its INFO lines."""
        return self.env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE")

    @property
    def tclass(self) -> int:
        """The traffic class byte of NCCL's packets; 0 when nothing sets it."""
        return max(int(self.env.get("NCCL_IB_TC", "0") or 0), 0)

    def ranks_of(self, pod: ProbePod) -> tuple[Rank, ...]:
        """The ranks that run in one pod."""
        return tuple(rank for rank in self.ranks if rank.pod.name == pod.name)


@dataclass(frozen=True, slots=True)
class Network:
    """The rails that a job found, or why it cannot use them."""

    devices: Mapping[str, tuple[Endpoint, ...]]
    """By pod: the active devices in NCCL's order. Empty: NCCL falls back to sockets."""
    paths: tuple[RailPath, ...] = ()
    """One per rail and direction around the ring of hosts."""
    fault: PathFault | None = None
    split: bool = False
    """Some hosts have RDMA devices and some have none."""


def read_job(request: ProbeRequest) -> NcclJob:
    """Reads the job from its launcher's command and its workers.

    Raises:
        UsageError: It is no job that the lab plays; the text says what is missing.
    """
    launcher = request.launcher or request.pods[0]
    workers = tuple(pod for pod in request.pods if pod.networks or pod.name != launcher.name)
    if len(workers) < _FEWEST_HOSTS:
        raise UsageError(f"an NCCL probe of a fabric needs two workers; got {len(workers)}")
    call = find_tool(launcher.command, launcher.env, "_perf")
    if not call.tool.startswith("all_reduce"):
        raise UsageError(f"the lab plays all_reduce_perf, not {call.tool}")
    if int(option_value(call.arguments, "-g") or 1) != 1:
        raise UsageError("the lab plays one GPU per rank (-g 1)")
    slots = sum(pod.gpus for pod in workers)
    asked = int(option_value(call.before, "-np", "-n") or slots)
    factor, sizes = _sizes(call)
    return NcclJob(
        binary=call.tool,
        sizes_bytes=sizes,
        factor=factor,
        iterations=int(option_value(call.arguments, "-n") or _DEFAULT_ITERATIONS),
        warmups=int(option_value(call.arguments, "-w") or _DEFAULT_WARMUPS),
        checked=(option_value(call.arguments, "-c") or "1") != "0",
        tagged="--tag-output" in call.before or option_value(call.before, "--output") == "tag",
        env={**workers[0].env, **_exported(call.before, launcher.env)},
        ranks=_place_ranks(workers, asked),
        pods=workers,
        slots_asked=asked,
    )


def find_network(job: NcclJob, site: Site) -> Network:
    """What NCCL finds when it starts: devices per host, and the connections between them."""
    devices = {pod.name: _devices(job, pod, site) for pod in job.pods}
    counts = [len(found) for found in devices.values()]
    if not any(counts):
        return Network(devices={})
    if not all(counts):
        return Network(devices, split=True)
    paths: list[RailPath] = []
    for pod, following in zip(job.pods, (*job.pods[1:], job.pods[0]), strict=True):
        ours, theirs = devices[pod.name], devices[following.name]
        for index in range(max(len(ours), len(theirs))):
            one, other = ours[index % len(ours)], theirs[index % len(theirs)]
            fault = find_fault(one, other)
            if fault is not None:
                return Network(devices, fault=fault)
            paths.append(follow(one, other, job.tclass))
    return Network(devices, tuple(paths))


def uses_gdr(job: NcclJob, end: Endpoint) -> bool:
    """True if the NIC reads GPU memory itself: peermem is loaded and the level allows it."""
    level = job.env.get("NCCL_NET_GDR_LEVEL", "")
    return end.nic.peermem and level.upper() not in ("0", "LOC")


def _devices(job: NcclJob, pod: ProbePod, site: Site) -> tuple[Endpoint, ...]:
    if job.env.get("NCCL_IB_DISABLE", "0") not in ("", "0"):
        return ()
    found: list[Endpoint] = []
    for item in pod.networks:
        nic = site.find_nic(pod.node, item.pf)
        if nic is not None:
            end = Endpoint(pod, item, nic, site.port_of(nic))
            if end.usable and _is_selected(end.device, job.env.get("NCCL_IB_HCA", "")):
                found.append(end)
    return tuple(sorted(found, key=lambda end: (len(end.device), end.device)))


def _is_selected(device: str, selector: str) -> bool:
    """NCCL_IB_HCA: a list of prefixes; `=` exact names, `^` all but these."""
    if not selector:
        return True
    negated = selector.startswith("^")
    rest = selector.removeprefix("^")
    exact = rest.startswith("=")
    names = [name.partition(":")[0] for name in rest.removeprefix("=").split(",")]
    hit = device in names if exact else any(device.startswith(name) for name in names)
    return hit != negated


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


def _exported(words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
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


def _place_ranks(workers: Sequence[ProbePod], asked: int) -> tuple[Rank, ...]:
    slots = [(pod, gpu) for pod in workers for gpu in range(pod.gpus)]
    return tuple(Rank(number, pod, gpu) for number, (pod, gpu) in enumerate(slots[:asked]))
