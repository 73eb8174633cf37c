"""Judges the evidence of a collective: ranks, transport, adapters, and speed."""

from __future__ import annotations

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.nccl_findings import (
    judge_busbw,
    judge_completeness,
    judge_correctness,
    judge_gdr,
    judge_transport,
)
from components.acceptance.judge.nccl_floor import nccl_floor
from components.acceptance.judge.nccl_profile import (
    Adapters,
    judge_hcas,
    judge_network,
    judge_pace,
    judge_topology,
    judge_version,
)
from components.acceptance.judge.verdict import Finding, Verdict, verdict_for
from components.acceptance.logs.log_model import NcclLog


def judge_nccl(item: ProbeEvidence, log: NcclLog, limits: Limits) -> list[Finding]:
    """All findings about one collective that ran to its end."""
    name = item.probe.name
    completeness = judge_completeness(log, name)
    if completeness.verdict == "error":
        return [completeness]
    floor, origin = nccl_floor(limits, item.probe)
    return [
        completeness,
        _judge_ranks(item, log),
        judge_correctness(log, name),
        judge_transport(log, name, limits.transport),
        *judge_profile(log, name, limits),
        _judge_rails(item, log, limits),
        judge_gpu_direct(log, name, limits),
        judge_busbw(log, name, floor, origin),
    ]


def judge_profile(log: NcclLog, name: str, limits: Limits) -> list[Finding]:
    """What NCCL says it uses, as far as the plan asks for it."""
    found: list[Finding] = []
    if limits.nccl_min_version:
        found.append(judge_version(log, name, limits.nccl_min_version))
    if limits.transport == "ib":
        found.append(judge_network(log, name))
    if limits.topology_file:
        found.append(judge_topology(log, name, limits.topology_file))
    if limits.hcas:
        found.append(judge_hcas(log, name, Adapters(limits.hcas, limits.hca_names)))
    return found


def warn_nccl(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Warnings about a collective that is fast enough and slower than others."""
    slow = None
    # alltoall has a ceiling of its own, which the number in the file does not mean.
    if item.nccl and limits.nccl_warn_gb_s and item.probe.collective != "alltoall":
        slow = judge_pace(item.nccl, item.probe.name, limits.nccl_warn_gb_s)
    return [slow] if slow and item.probe.kind == "nccl" else []


def judge_gpu_direct(log: NcclLog, name: str, limits: Limits) -> Finding:
    """Do all network channels go straight to GPU memory, where the plan wants it?"""
    if limits.require_gdr:
        return judge_gdr(log, name)
    return Finding(
        check="gpudirect",
        subject=name,
        verdict="skipped",
        expected="not required",
        actual=f"{log.channels.gdr} of {log.channels.net_total} channels",
    )


def _judge_ranks(item: ProbeEvidence, log: NcclLog) -> Finding:
    """All planned ranks took part, evenly on the planned workers."""
    hosts = {line.host for line in log.ranks}
    count = len({line.rank for line in log.ranks}) or log.nranks or 0
    wanted = item.probe.ranks
    workers = set(item.probe.workers)
    right_hosts = hosts == workers if workers else len(hosts) == len(item.probe.nodes)
    return Finding(
        check="ranks",
        subject=item.probe.name,
        verdict=verdict_for(count == wanted and right_hosts),
        expected=f"{wanted} ranks on {len(item.probe.nodes)} hosts",
        actual=f"{count} ranks on {len(hosts)} hosts ({', '.join(sorted(hosts))})",
        next_step="" if count == wanted and right_hosts else "look at the hostfile and the slots",
    )


def _judge_rails(item: ProbeEvidence, log: NcclLog, limits: Limits) -> Finding:
    """Every host's channels use as many devices as there are rails or adapters."""
    used = log.channels.devices_by_host
    wanted = limits.hcas or len(item.probe.rails)
    lacking = {host: found for host, found in used.items() if len(found) < wanted}
    verdict: Verdict = "error" if not used else verdict_for(not lacking)
    actual = ", ".join(f"{len(found)} on {host}" for host, found in sorted(used.items()))
    what = "adapters" if limits.hcas else "rails"
    step = (
        "an adapter carries nothing" if limits.hcas else "a rail is missing"
    ) + f" on {', '.join(sorted(lacking)) or 'all hosts'}: look at its link"
    return Finding(
        check="rails",
        subject=item.probe.name,
        verdict=verdict,
        expected=f"{wanted} {what} in the channels of every host",
        actual=actual or "no network channel",
        next_step="" if verdict == "passed" else step if limits.hcas else f"{step} and its VF",
    )
