"""Findings about what NCCL says it uses: its release, its network, topology file and adapters.

They are the points that Crusoe's article names for a log of a good run
(docs/explanation/crusoe.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from components.acceptance.judge.nccl_findings import judged_rows, show_bytes
from components.acceptance.judge.verdict import Finding, Verdict, verdict_for
from components.acceptance.logs.log_model import HostNetwork, NcclLog

_NETWORKS = re.compile(r"^IB(?:ext\w*)?$")
_RELEASE = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Adapters:
    """The InfiniBand adapters that every host must use."""

    count: int
    names: tuple[str, ...] = ()
    """Names that must be among them; empty for any."""


def judge_version(log: NcclLog, subject: str, least: str) -> Finding:
    """Is NCCL new enough?"""
    actual = log.nccl_version
    verdict: Verdict = "error"
    if actual:
        verdict = verdict_for(_release(actual) >= _release(least))
    return Finding(
        check="nccl version",
        subject=subject,
        verdict=verdict,
        expected=f"NCCL {least} or newer",
        actual=actual or "not shown",
        next_step="" if verdict == "passed" else "take an image with a newer NCCL",
    )


def judge_network(log: NcclLog, subject: str) -> Finding:
    """Does every rank use NCCL's own InfiniBand transport or the plugin of HPC-X, all the same?"""
    names = sorted(log.networks)
    verdict: Verdict = "error"
    if names:
        verdict = verdict_for(len(names) == 1 and bool(_NETWORKS.match(names[0])))
    return Finding(
        check="network",
        subject=subject,
        verdict=verdict,
        expected="network IB or IBext on every rank",
        actual=", ".join(f"{name} ({log.networks[name]})" for name in names) or "not shown",
        next_step=""
        if verdict == "passed"
        else "compare the plugins of the hosts (NCCL_NET, NCCL_NET_PLUGIN), and look at the HCAs",
    )


def judge_topology(log: NcclLog, subject: str, path: str) -> Finding:
    """Did NCCL get the topology file, and could it read it?"""
    seen = ", ".join(log.topology_files) or "not shown"
    right = log.topology_files == (path,)
    if log.topology_unread:
        seen, right = f"{log.topology_unread[0]} could not be opened", False
    return Finding(
        check="topology file",
        subject=subject,
        verdict=verdict_for(right),
        expected=f"NCCL_TOPO_FILE {path}",
        actual=seen,
        next_step=""
        if right
        else "the file is not on the node, not mounted, or the variable does not reach all ranks",
    )


def judge_hcas(log: NcclLog, subject: str, wanted: Adapters) -> Finding:
    """Does every host use the planned adapters, with relaxed ordering?"""
    problems = [text for host in log.hosts if (text := _adapter_problem(host, wanted))]
    verdict: Verdict = verdict_for(not problems) if log.hosts else "error"
    names = f" with {', '.join(wanted.names)}" if wanted.names else ""
    good = f"{wanted.count} on each of {len(log.hosts)} hosts: " + _names(log.hosts)
    return Finding(
        check="hcas",
        subject=subject,
        verdict=verdict,
        expected=f"{wanted.count} InfiniBand adapters{names} and [RO] on every host",
        actual="; ".join(problems) or (good if log.hosts else "not shown"),
        next_step=""
        if verdict == "passed"
        else "look at ibstat on that host: an adapter is missing, down, or of a lower rate",
    )


def judge_pace(log: NcclLog, subject: str, warn_gb_s: float) -> Finding | None:
    """A warning when a large row is above the floor and below what healthy systems reach."""
    rows, basis = judged_rows(log)
    slow = [row for row in rows if row.worst_busbw_gb_s < warn_gb_s]
    if not slow:
        return None
    worst = min(slow, key=lambda row: row.worst_busbw_gb_s)
    return Finding(
        check="pace",
        subject=subject,
        verdict="failed",
        expected=f"busbw >= {warn_gb_s:g} GB/s, as healthy systems reach",
        actual=f"{worst.worst_busbw_gb_s:.2f} GB/s at {show_bytes(worst.size_bytes)}",
        detail=basis,
        next_step="compare the adapters' rates, and run again when the fabric is idle",
    )


def _adapter_problem(host: HostNetwork, wanted: Adapters) -> str:
    where = host.host or "a host"
    layers = {hca.link_layer for hca in host.hcas}
    names = {hca.device for hca in host.hcas}
    missing = [name for name in wanted.names if name not in names]
    if len(host.hcas) != wanted.count:
        return f"{len(host.hcas)} on {where} ({', '.join(sorted(names))})"
    if missing:
        return f"{', '.join(missing)} is not used on {where}"
    if layers != {"IB"}:
        return f"{' and '.join(sorted(layers))} on {where}"
    return "" if host.relaxed_ordering else f"no relaxed ordering on {where}"


def _names(hosts: Iterable[HostNetwork]) -> str:
    lists = {", ".join(hca.device for hca in host.hcas) for host in hosts}
    return " | ".join(sorted(lists))


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _RELEASE.findall(text.partition("+")[0]))


_SPIKE: Final = 1.5
_VARIES_PERCENT: Final = 5.0
"""Above either, nccl-tests' own tools/analyze_perf_json.py (2.19.6) marks a size."""
_APART: Final = 0.2
"""From the median of all processes, before one is named: a choice, unproven on hardware."""


def warn_stragglers(log: NcclLog, subject: str) -> list[Finding]:
    """Of the largest size: iterations that vary, and the processes that differ from the others.

    A process that takes longer is slow, or far from the others. One that takes less time came
    late: its kernel starts when the others already wait for it.
    """
    rows = [row for row in log.rows if row.size_bytes]
    if not rows:
        return []
    row = max(rows, key=lambda each: each.size_bytes or 0)
    halves = [half for half in (row.out_of_place, row.in_place) if half and half.slowest_us]
    odd = [
        half
        for half in halves
        if (half.varies_percent or 0) > _VARIES_PERCENT
        or (half.slowest_us or 0) > _SPIKE * half.time_us
    ]
    named = dict.fromkeys(text for half in halves for text in _apart(half.process_us, log))
    if not odd and not named:
        return []
    worst = max(odd or halves, key=lambda half: half.slowest_us or 0)
    return [
        Finding(
            check="stragglers",
            subject=subject,
            verdict="failed",
            expected=f"at most {_SPIKE:g} times the mean, and {_VARIES_PERCENT:g} % apart",
            actual=f"the longest iteration took {worst.slowest_us:g} us, the mean is"
            f" {worst.time_us:g} us, and they vary by {worst.varies_percent or 0:g} %",
            detail="; ".join(named),
            next_step="look at clocks, throttling and other work on that host"
            if named
            else "run it with -I 1 -J FILE: only the JSON names the process",
        )
    ]


def _apart(process_us: tuple[float, ...], log: NcclLog) -> Iterable[str]:
    usual = median(process_us) if process_us else 0.0
    known = {line.rank: f" ({line.host})" for line in log.ranks}
    if len(log.ranks) != len(process_us):
        known = {}
    for number, time in enumerate(process_us):
        if abs(time - usual) > _APART * usual:
            less = "more time" if time > usual else "less time, so the others waited for it"
            share = abs(time / usual - 1)
            yield f"process {number}{known.get(number, '')} took {share:.0%} {less}"
