"""Judges the evidence of a collective: ranks, transport, adapters, and speed."""

from __future__ import annotations

from dataclasses import replace

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.nccl_checks import (
    OF_ANY_PROGRAM,
    Members,
    NcclAsked,
    judge_run,
)
from components.acceptance.judge.nccl_floor import nccl_floor
from components.acceptance.judge.nccl_profile import judge_pace
from components.acceptance.judge.verdict import Finding
from components.acceptance.logs.log_model import NcclLog


def judge_nccl(item: ProbeEvidence, log: NcclLog, limits: Limits) -> list[Finding]:
    """All findings about one collective that ran to its end."""
    name = item.probe.name
    if log.other_runs:
        return [
            Finding(
                check="completeness",
                subject=name,
                verdict="error",
                expected="one run",
                actual=f"{len(log.runs)} runs in one log",
                next_step="run acceptance again; look for a launcher that started twice",
            )
        ]
    floor, origin = nccl_floor(limits, item.probe)
    asked = replace(asked_of(limits), floor_gb_s=floor, floor_origin=origin)
    members = Members(
        ranks=item.probe.ranks,
        hosts=len(item.probe.nodes),
        workers=frozenset(item.probe.workers),
        devices=limits.hcas or len(item.probe.rails),
        what="adapters" if limits.hcas else "rails",
    )
    return judge_run(log, name, replace(asked, members=members))


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
    return [slow] if slow and item.probe.kind == "nccl" else []
