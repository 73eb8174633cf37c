"""How many bytes a probe may have sent, by its own log.

A perftest says it exactly. What a collective sends depends on the algorithm that NCCL chose: where
its log does not name one, only what every algorithm must send is expected, and what none can send
is too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.verdict import Verdict
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl_table import bus_factor

_LEAST_SHARE_SEEN: Final = 0.9
"""Of the bytes that the log says were sent: counters read some seconds apart miss none of them."""
_ABSENT: Final = 0.1
"""Less than this share of the least is no probe, whatever its algorithm."""
_MOST_TIMES: Final = 4.0
"""The most, times this: warm-up runs (5 of 25), headers, repetitions, and what else is there."""
_SCAN_TRIALS: Final = 50
"""Default of DeepSpeed's benchmarks; their warm-up runs come on top."""
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class Sent:
    """What passes one rail in one direction.

    Attributes:
        least: Bytes that it must be.
        most: Bytes that it can be.
        is_certain: The log says it; else both are bounds over all algorithms.
    """

    least: int
    most: int
    is_certain: bool

    @property
    def text(self) -> str:
        """The amount, for people."""
        return show_size(self.least) if self.is_certain else f"at least {show_size(self.least)}"


def sent_bytes(item: ProbeEvidence) -> Sent:
    """The payload that a probe sends over one rail in one direction, by its own log.

    On InfiniBand it is that of all adapters of a worker together. A training benchmark does not say
    how much it sends: 0.
    """
    if item.perftest is not None:
        exact = sum(row.size_bytes * row.iterations for row in item.perftest.rows)
        return Sent(exact, exact, is_certain=True)
    ring = item.nccl is not None and item.nccl.algorithms == ("RING",)
    if item.deepspeed is not None:
        message = sum(row.size_bytes for row in item.deepspeed.rows) * _SCAN_TRIALS
        ranks = max(item.deepspeed.devices, 1)
        return _of_messages(item, item.deepspeed.collective, message, (ranks, ring))
    log = item.nccl
    if item.probe.kind != "nccl" or log is None or not log.iterations or not log.ranks:
        return Sent(0, 0, is_certain=False)
    ranks = len({line.rank for line in log.ranks})
    name = log.collective or item.probe.collective
    return _of_messages(item, name, _message_bytes(log), (ranks, ring))


def claimed_s(item: ProbeEvidence) -> float:
    """The seconds that the rows of a log took, by their own numbers, without warm-up runs."""
    perftest = item.perftest.rows if item.perftest else ()
    sent = sum(
        row.size_bytes * row.iterations * 8 / (row.average_gbit_s * 1e9)
        for row in perftest
        if row.average_gbit_s
    )
    rows = item.nccl.rows if item.nccl else ()
    halves = (half for row in rows for half in (row.out_of_place, row.in_place) if half)
    runs = (item.nccl.iterations if item.nccl else None) or 0
    return sent + sum(half.time_us for half in halves) * runs / 1e6


def judge_amount(sent: Sent, seen: int) -> Verdict:
    """Is it what a probe may have sent? Bounds that are guesses prove no fault, only absence."""
    if seen < max(sent.least * _ABSENT, 1):
        return "failed"
    if seen < sent.least * _LEAST_SHARE_SEEN:
        return "failed" if sent.is_certain else "error"
    return "error" if 0 < sent.most * _MOST_TIMES < seen else "passed"


def show_size(count: int) -> str:
    """A number of bytes in decimal units, as counters and line rates are."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _message_bytes(log: NcclLog) -> int:
    """The sizes of all rows times their iterations."""
    halves = sum((row.size_bytes or 0) * (2 if row.in_place else 1) for row in log.rows)
    return halves * (log.iterations or 0)


def _of_messages(
    item: ProbeEvidence, collective: str, message: int, world: tuple[int, bool]
) -> Sent:
    """What of a message crosses the boundary of a host, in each direction, on one rail."""
    ranks, is_ring = world
    here = ranks / max(len(item.probe.nodes), 1)
    rails = max(len(item.probe.rails), 1)
    name = collective.removesuffix("_perf")
    if name.startswith(("alltoall", "all_to_all")):
        # Every rank of a host sends each rank of the others its part, whatever the algorithm.
        least = most = here * (ranks - here) / ranks
    elif is_ring:
        least = most = bus_factor(name, ranks)
    else:
        # An all-reduce sends all of its data once up or down some tree; a gathering, at least what
        # the host itself has. A double tree sends it twice in places, as a ring nearly does.
        least, most = (1.0 if name == "all_reduce" else here / ranks), 2.0
    return Sent(
        round(message * least / rails), round(message * most / rails), is_certain=least == most
    )
