"""Judges the evidence of a perftest between two workers."""

from __future__ import annotations

from components.acceptance.evidence import Limits, Probe, ProbeEvidence
from components.acceptance.judge.perftest_findings import PerftestAsked, judge_perftest_runs
from components.acceptance.judge.verdict import Finding
from components.acceptance.logs.log_model import PerftestLog

ROCE_OVERHEAD_BYTES = 82
"""Ethernet, IPv4, UDP, BTH, ICRC and FCS of a full RoCE v2 packet on the wire."""


def judge_perftest(item: ProbeEvidence, log: PerftestLog, limits: Limits) -> list[Finding]:
    """All findings about one perftest that ran to its end."""
    floor, origin = pair_floor(limits, item.probe)
    asked = PerftestAsked(limits.transport, floor, origin, limits.rdma_mtu_bytes)
    return judge_perftest_runs(log, item.probe.name, asked)


def pair_floor(limits: Limits, probe: Probe) -> tuple[float, str]:
    """The least average of `ib_write_bw` on a probe's rail in Gb/s, and its origin in words."""
    rail = probe.rails[0] if probe.rails else ""
    rate = next((item.line_rate_gbit_s for item in limits.rails if item.name == rail), 0.0)
    rate = probe.rates.get(rail, rate)
    ceiling = rate * limits.rdma_mtu_bytes / (limits.rdma_mtu_bytes + ROCE_OVERHEAD_BYTES)
    return (
        rate * limits.pair_fraction,
        (
            f"{limits.pair_fraction:g} x {rate:g} Gb/s line rate "
            f"(ceiling at RDMA MTU {limits.rdma_mtu_bytes}: {ceiling:.1f})"
        ),
    )
