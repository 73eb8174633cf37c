"""How many bytes a probe may have sent, by its own log.

A perftest prints the exact number. A collective sends an amount that depends on the algorithm that
NCCL chose: if its log does not name one, at least the amount of the thriftiest algorithm is
expected, and at most that of the most wasteful. A larger amount is traffic of others, and then the
bytes prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.verdict import Verdict
from components.acceptance.logs.nccl_table import bus_factor
from components.model.units import LARGEST_RDMA_MTU

_LEAST_SHARE_SEEN: Final = 0.9
"""Of the bytes that the log says were sent: counters read some seconds apart still include all of
them."""
_ABSENT: Final = 0.1
"""Below this share of the least amount the probe did not use the port, whatever its algorithm."""
HEADER_BYTES: Final = 102
"""Bytes of a RoCE v2 packet besides its payload: Ethernet 14, VLAN 4, IPv6 40, UDP 8, BTH 12, RETH
16, ICRC 4, FCS 4 (InfiniBand Architecture 1.4, annex A17). On InfiniBand it is less."""
_OTHERS: Final = 0.01
"""Share that ARP, ping, LLDP and the connection of the probe itself may add (a choice)."""
_UNTIMED_RUNS: Final = 6
"""Runs of a size that nccl-tests does not time: 5 to warm up by default until 2.17, fewer since,
and 1 to check the values (nccl-tests a0b82b2, src/common.cu)."""
_FLAGS: Final = 128 / 120
"""NCCL's protocol LL128 sends 8 bytes of flags with each 120 of data (NCCL 2.30.7, device.h)."""
_IN_MARGINS: Final = 2
"""`-D` of perftest leaves a quarter of the time at each end out of its table (its default)."""
_SCAN_TRIALS: Final = 50
_SCAN_WARMUPS: Final = 5
"""Defaults of DeepSpeed's benchmarks (DeepSpeedExamples, benchmarks/communication)."""
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class Sent:
    """The bytes that pass one rail in one direction.

    Attributes:
        least: The fewest bytes that are right.
        most: The most bytes that are right.
        is_certain: The log gives the exact number; else both are bounds over all algorithms.
    """

    least: int
    most: int
    is_certain: bool

    @property
    def text(self) -> str:
        """The amount, for people."""
        return show_size(self.least) if self.is_certain else f"at least {show_size(self.least)}"


def sent_bytes(item: ProbeEvidence, *, back: bool = False) -> Sent:
    """The payload that a probe sends over one rail in one direction, by its own log.

    On InfiniBand it is the sum over all adapters of a worker. A training benchmark does not say how
    much it sends: 0.

    Args:
        item: The probe as it ran.
        back: For several perftests, the bytes from the server to the client: those of the read
            tests.
    """
    if item.perftest is not None:
        rows = item.perftest.rows
        if item.probe.tools[1:]:
            runs = (run for run in item.perftest.runs if ("Read" in run.test) == back)
            rows = tuple(row for run in runs for row in run.rows)
        exact = sum(row.size_bytes * row.iterations for row in rows)
        if " -D " in f"{item.command} ":
            return Sent(exact, exact * _IN_MARGINS, is_certain=False)
        # A message ends with a packet that may be nearly empty.
        short = sum(row.iterations for row in rows) * HEADER_BYTES
        return Sent(exact, exact + short, is_certain=True)
    ring = item.nccl is not None and item.nccl.algorithms == ("RING",)
    if item.deepspeed is not None:
        message = sum(row.size_bytes for row in item.deepspeed.rows) * _SCAN_TRIALS
        ranks = max(item.deepspeed.devices, 1)
        extra = 1 + _SCAN_WARMUPS / _SCAN_TRIALS
        return _of_messages(item, item.deepspeed.collective, (message, extra), (ranks, ring))
    log = item.nccl
    if item.probe.kind != "nccl" or log is None or not log.iterations or not log.ranks:
        return Sent(0, 0, is_certain=False)
    ranks = len({line.rank for line in log.ranks})
    name = log.collective or item.probe.collective
    extra = 1 + _UNTIMED_RUNS / log.iterations
    message = sum((row.size_bytes or 0) * len(row.halves) for row in log.rows) * log.iterations
    return _of_messages(item, name, (message, extra), (ranks, ring))


def claimed_s(item: ProbeEvidence) -> float:
    """The seconds that the rows of a log took, by their own numbers, without warm-up runs."""
    sent = sum(
        row.size_bytes * row.iterations * 8 / (row.average_gbit_s * 1e9)
        for run in (item.perftest.runs if item.perftest else ())
        for row in run.rows
        if row.average_gbit_s
    )
    halves = [half for row in (item.nccl.rows if item.nccl else ()) for half in row.halves]
    runs = (item.nccl.iterations if item.nccl else None) or 0
    return sent + sum(half.time_us for half in halves) * runs / 1e6


def judge_amount(sent: Sent, seen: int, mtu_bytes: int = LARGEST_RDMA_MTU) -> Verdict:
    """Judge an amount of bytes; uncertain bounds prove only absence, no other fault.

    A packet of `mtu_bytes` has headers and at most one acknowledgement. A larger amount is `error`:
    others used the port too.
    """
    if seen < max(sent.least * _ABSENT, 1):
        return "failed"
    if seen < sent.least * _LEAST_SHARE_SEEN:
        return "failed" if sent.is_certain else "error"
    most = sent.most * (1 + 2 * HEADER_BYTES / mtu_bytes + _OTHERS)
    return "error" if 0 < most < seen else "passed"


def show_size(count: int) -> str:
    """A number of bytes in decimal units, as counters and line rates are."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _of_messages(
    item: ProbeEvidence, collective: str, sent: tuple[int, float], world: tuple[int, bool]
) -> Sent:
    """The part of `sent` that crosses the boundary of a host, in each direction, on one rail."""
    (message, extra), (ranks, is_ring) = sent, world
    here = ranks / max(len(item.probe.nodes), 1)
    name = collective.partition("_perf")[0]
    if name.startswith(("alltoall", "all_to_all")):
        # Every rank sends its part to each rank of other hosts, with any algorithm.
        least = most = here * (ranks - here) / ranks
    elif is_ring:
        least = most = bus_factor(name, ranks)
    else:
        # An all-reduce sends all of its data once up or down some tree; a gathering, at least what
        # the host itself has. A double tree sends it twice in places, as a ring nearly does.
        least, most = (1.0 if name == "all_reduce" else here / ranks), 2.0
    part = message / max(len(item.probe.rails), 1)
    return Sent(round(part * least), round(part * most * extra * _FLAGS), is_certain=least == most)
