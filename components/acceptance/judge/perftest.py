"""Judges the evidence of a perftest between two workers."""

from __future__ import annotations

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.perftest_findings import (
    judge_average,
    judge_gid,
    judge_link,
    judge_perftest_completeness,
)
from components.acceptance.judge.verdict import Finding, verdict_for
from components.acceptance.logs.log_model import PerftestLog

ROCE_OVERHEAD_BYTES = 82
"""Ethernet, IPv4, UDP, BTH, ICRC and FCS of a full RoCE v2 packet on the wire."""


def judge_perftest(item: ProbeEvidence, log: PerftestLog, limits: Limits) -> list[Finding]:
    """All findings about one perftest that ran to its end."""
    name = item.probe.name
    completeness = judge_perftest_completeness(log, name)
    if completeness.verdict == "error":
        return [completeness]
    floor, origin = pair_floor(limits, item.probe.rails[0] if item.probe.rails else "")
    mtu = log.mtu_bytes
    return [
        completeness,
        judge_link(log, name, limits.transport),
        judge_gid(log, name),
        Finding(
            check="mtu",
            subject=name,
            verdict="error" if mtu is None else verdict_for(mtu == limits.rdma_mtu_bytes),
            expected=f"RDMA MTU {limits.rdma_mtu_bytes}",
            actual="not shown" if mtu is None else str(mtu),
            next_step=""
            if mtu == limits.rdma_mtu_bytes
            else "look at the MTU of VF, PF and switch port",
        ),
        judge_average(log, name, floor, origin),
    ]


def pair_floor(limits: Limits, rail: str) -> tuple[float, str]:
    """The least average of `ib_write_bw` on a rail in Gb/s, and its origin in words."""
    rate = next((item.line_rate_gbit_s for item in limits.rails if item.name == rail), 0.0)
    ceiling = rate * limits.rdma_mtu_bytes / (limits.rdma_mtu_bytes + ROCE_OVERHEAD_BYTES)
    return (
        rate * limits.pair_fraction,
        (
            f"{limits.pair_fraction:g} x {rate:g} Gb/s line rate "
            f"(ceiling at RDMA MTU {limits.rdma_mtu_bytes}: {ceiling:.1f})"
        ),
    )
