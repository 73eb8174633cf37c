"""Judges the evidence of frameworks and of mpirun: DeepSpeed's scan, ResNet-50, hosts."""

from __future__ import annotations

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.nccl import judge_framework
from components.acceptance.judge.verdict import Finding
from components.acceptance.judge.workload_findings import (
    judge_gpus,
    judge_hosts,
    judge_images,
    judge_names,
    judge_scan_busbw,
    judge_scan_completeness,
    judge_scan_ranks,
    judge_totals,
)
from components.acceptance.logs.log_model import DeepSpeedLog, MpiLog, TrainingLog

_FROM_FILE = "acceptance in the site's file"


def judge_scan(item: ProbeEvidence, log: DeepSpeedLog, limits: Limits) -> list[Finding]:
    """All findings about a scan that ran to its end."""
    name = item.probe.name
    return [
        judge_scan_completeness(log, name, limits.scan_sizes or None),
        judge_names(log, name, len(item.probe.nodes)),
        judge_scan_ranks(log, name, item.probe.ranks),
        *_judge_its_nccl(item, limits),
        judge_scan_busbw(log, name, limits.scan_floor_gbit_s or 0.0, _FROM_FILE),
    ]


def judge_training(item: ProbeEvidence, log: TrainingLog, limits: Limits) -> list[Finding]:
    """All findings about a training benchmark that ran to its end."""
    name = item.probe.name
    return [
        judge_totals(log, name, item.probe.ranks),
        *_judge_its_nccl(item, limits),
        judge_images(log, name, limits.images_floor_s or 0.0, _FROM_FILE),
    ]


def judge_mpi(item: ProbeEvidence, log: MpiLog) -> list[Finding]:
    """All findings about a command that mpirun started on every host."""
    name = item.probe.name
    if item.probe.kind == "mpi_gpus":
        return [judge_gpus(log, name, item.probe.ranks)]
    return [judge_hosts(log, name, item.probe.nodes)]


def _judge_its_nccl(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """A framework that is fast enough over the wrong transport has proven nothing."""
    name = item.probe.name
    if item.nccl is None:
        return [
            Finding(
                check="transport",
                subject=name,
                verdict="error",
                expected=limits.transport,
                actual="not shown",
                detail="the log has no line of NCCL; run with NCCL_DEBUG=INFO",
            )
        ]
    return judge_framework(item.nccl, name, limits)
