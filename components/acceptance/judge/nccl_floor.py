"""The least bus bandwidth that a collective must reach, with its origin in words."""

from __future__ import annotations

from components.acceptance.evidence import Limits, Probe

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
