"""Judges the evidence of a collective: ranks, transport, adapters, and speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from components.acceptance.evidence import Limits, Probe, ProbeEvidence
from components.acceptance.judge.nccl_checks import OF_ANY_PROGRAM, Members, NcclAsked, judge_run
from components.acceptance.judge.nccl_findings import (
    judge_ceiling,
    judge_pace,
    warn_stragglers,
)
from components.acceptance.judge.verdict import Finding, row
from components.acceptance.logs.log_model import NcclLog


def judge_nccl(item: ProbeEvidence, log: NcclLog, limits: Limits) -> list[Finding]:
    """All findings about one collective that ran to its end."""
    name = item.probe.name
    if log.other_runs:
        actual = f"{len(log.runs)} runs in one log"
        step = "run acceptance again; look for a launcher that started twice"
        return [row("completeness", name, "error", "one run", actual, step)]
    floor, origin = nccl_floor(limits, item.probe)
    asked = replace(asked_of(limits), floor_gb_s=floor, floor_origin=origin)
    members = Members(
        ranks=item.probe.ranks,
        hosts=len(item.probe.nodes),
        workers=frozenset(item.probe.workers),
        devices=limits.hcas or len(item.probe.rails),
        what="adapters" if limits.hcas else "rails",
    )
    rails_gb_s = nccl_limit(limits, item.probe)
    above = judge_ceiling(log, name, rails_gb_s, len(item.probe.nodes))
    found = judge_run(log, name, replace(asked, members=members))
    return [*found, above] if above else found


NVLINK_FRACTION: Final = 0.6
"""Least bus bandwidth of one host over all NVLinks of a GPU: 480 of 478 GB/s are seen on eight H100
with NVLS, 338 of 478 on two H200 without it (recorded), 235 of 300 on eight A100 (facts in
docs/explanation/sources.md#acceptance), and a DGX-1's mesh, where not every GPU has a link to every
other, comes to less."""


def judge_load(item: ProbeEvidence, log: NcclLog, nvlink_gbyte_s: float) -> list[Finding]:
    """All findings about a collective between the GPUs of one host.

    Args:
        item: The look at a node.
        log: What NCCL said.
        nvlink_gbyte_s: What all NVLinks of its slowest GPU carry; 0 if it has none, and then no
            speed is asked for.
    """
    floor = NVLINK_FRACTION * nvlink_gbyte_s
    asked = NcclAsked(
        transport="nvlink" if floor else None,
        floor_gb_s=floor or None,
        floor_origin=f"{NVLINK_FRACTION:g} x {nvlink_gbyte_s:g} GB/s of NVLink",
        members=Members(item.probe.ranks, 1, frozenset(), devices=0),
    )
    return judge_run(log, item.probe.name, asked)


def asked_of(limits: Limits) -> NcclAsked:
    """What the plan asks of every log of NCCL, whatever its probe."""
    return NcclAsked(
        min_version=limits.nccl_min_version,
        topology_file=limits.topology_file,
        hcas=limits.hcas or None,
        hca_names=limits.hca_names,
        network=limits.transport == "ib",
        gdr=limits.require_gdr,
        transport=limits.transport,
    )


def judge_framework(log: NcclLog, name: str, limits: Limits) -> list[Finding]:
    """What the NCCL of another program says of its way."""
    asked = asked_of(limits)
    return [found for check in OF_ANY_PROGRAM if (found := check(log, name, asked)) is not None]


def warn_nccl(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Warnings about a collective that is fast enough and slower than others."""
    slow = None
    # alltoall has a ceiling of its own, which the number in the file does not mean.
    if item.nccl and limits.nccl_warn_gb_s and item.probe.collective != "alltoall":
        slow = judge_pace(item.nccl, item.probe.name, limits.nccl_warn_gb_s)
    late = warn_stragglers(item.nccl, item.probe.name) if item.nccl else []
    return [*([slow] if slow else ()), *late] if item.probe.kind == "nccl" else []


_BITS = 8
ALLTOALL_SHARE = 0.70
"""Of what the adapters carry: every rank talks to every other at once, and switches between hosts
see the worst of traffic patterns. docs/explanation/sources.md#acceptance marks it as a choice."""


def node_rate(limits: Limits, probe: Probe) -> tuple[float, str]:
    """What all rails or adapters of one host carry in GB/s, and how that was added up."""
    if limits.transport == "ib":
        rate, count = limits.hca_rate_gbit_s, limits.hcas
        return rate * count / _BITS, f"{count} adapters ({count} x {rate:g} Gb/s)"
    used = [
        probe.rates.get(item.name, item.line_rate_gbit_s)
        for item in limits.rails
        if item.name in probe.rails
    ]
    rates = " + ".join(f"{rate:g}" for rate in used) or "0"
    total = sum(used) / _BITS
    return total, f"{len(used)} rails ({rates} Gb/s)"


def nccl_floor(limits: Limits, probe: Probe) -> tuple[float, str]:
    """The least bus bandwidth of a probe in GB/s, and its origin in words."""
    if probe.collective == "alltoall":
        return _alltoall_floor(limits, probe)
    if limits.nccl_floor_gb_s is not None:
        return limits.nccl_floor_gb_s, limits.nccl_floor_source
    total, of_what = node_rate(limits, probe)
    return (
        total * limits.nccl_fraction,
        f"{limits.nccl_fraction:g} x {total:g} GB/s, the line rate of {of_what}",
    )


def nccl_limit(limits: Limits, probe: Probe) -> float:
    """The bus bandwidth that the links of one host allow, in GB/s."""
    total, _ = node_rate(limits, probe)
    return total * _alltoall_factor(probe) if probe.collective == "alltoall" else total


def _alltoall_floor(limits: Limits, probe: Probe) -> tuple[float, str]:
    """Bus bandwidth of alltoall is that of one rank, and only part of its peers is far away."""
    total, of_what = node_rate(limits, probe)
    ceiling = total * _alltoall_factor(probe)
    return (
        ceiling * ALLTOALL_SHARE,
        (
            f"{ALLTOALL_SHARE:g} x {ceiling:.2f} GB/s: what one rank gets of {total:g} GB/s, the "
            f"line rate of {of_what}, when its peers on other hosts share it"
        ),
    )


def _alltoall_factor(probe: Probe) -> float:
    here = probe.ranks / max(len(probe.nodes), 1)
    away = probe.ranks - here
    return (probe.ranks - 1) / (away * here) if away else 0.0
