"""Findings about logs of frameworks and of mpirun; used for evidence and for any log."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.nccl import asked_of, judge_framework
from components.acceptance.judge.nccl_findings import show_bytes
from components.acceptance.judge.nccl_whole import LARGE_BYTES
from components.acceptance.judge.verdict import Finding, Verdict, row, row_of, verdict_for
from components.acceptance.logs.log_model import DeepSpeedLog, DeepSpeedRow, MpiLog, TrainingLog
from components.core.plain_text import counted

_SAME_TOTAL = 0.01
"""Each rank prints the sum of all: they differ by the moment of reading their clocks only."""
_ODD_STEP = 0.2
"""Name a rank if its own line differs from its share of the total by more than this."""


def judge_totals(log: TrainingLog, subject: str, ranks: int | None = None) -> Finding:
    """Did the run end, with one total of every rank, and do they agree?"""
    totals = log.totals_images_s
    wanted = ranks if log.program == "tf_cnn_benchmarks" and ranks else 1
    took_part = log.gpus if log.program == "horovod" else len(totals)
    verdict: Verdict = "passed"
    actual, detail = counted(len(totals), "total"), ""
    if len(totals) < wanted:
        verdict, detail = "error", "the log is cut, or ranks are missing"
    elif max(totals) - min(totals) > _SAME_TOTAL * max(totals):
        verdict, detail = "failed", "every rank prints the sum of all, and they differ"
    elif ranks is not None and took_part != ranks:
        verdict, actual = "failed", f"{counted(took_part or 0, 'rank')} took part"
    expected = f"a total of each of {counted(ranks, 'rank')}" if ranks else "a total at the end"
    step = "look at the end of the log, and at the hostfile"
    return row("completeness", subject, verdict, expected, actual, step).because(detail)


def judge_images(log: TrainingLog, subject: str, floor: float, origin: str) -> Finding:
    """Is the median of the totals at or above a floor? They are sums already: never added up."""
    totals = log.totals_images_s
    middle = median(totals) if totals else 0.0
    verdict: Verdict = verdict_for(middle >= floor) if totals else "error"
    actual = f"{middle:.2f} images/s" if totals else "no total"
    step = "look at the transport and GPUDirect of its NCCL, then at the GPUs' clocks"
    found = row("throughput", subject, verdict, f"images/s >= {floor:g}", actual, step)
    parts = (f"median of {counted(len(totals), 'total')}; floor: {origin}", odd_steps(log))
    return found.because("; ".join(part for part in parts if part))


def odd_steps(log: TrainingLog) -> str:
    """Says which lines of single ranks contradict the total, as edited documents have them."""
    totals, steps = log.totals_images_s, log.steps_images_s
    middle = median(steps) if totals and steps else math.inf
    odd = [step for step in steps if abs(step - middle) > _ODD_STEP * middle]
    what = f"{len(odd)} of {len(steps)} lines of single ranks are far from the others"
    return f"{what}: {odd[0]:g}" if odd else ""


def judge_scan_completeness(log: DeepSpeedLog, subject: str, sizes: int | None = None) -> Finding:
    """Is there a row of every size? The benchmark stops silently when memory runs out."""
    count, bad = len(log.rows), counted(len(log.bad_rows), "unreadable row")
    verdict: Verdict = "passed"
    actual, detail = counted(count, "row"), ""
    if log.bad_rows:
        verdict, actual, detail = "error", bad, f"the first: {log.bad_rows[0]}"
    elif not log.rows:
        verdict, actual = "error", "no result row"
    elif log.out_of_memory:
        verdict, actual = "failed", f"out of GPU memory after {actual}"
    elif sizes is not None and count != sizes:
        verdict = "error" if count < sizes else "failed"
    expected = counted(sizes, "size") if sizes else "a table with a result"
    step = "take the log again, or lower --maxsize"
    return row("completeness", subject, verdict, expected, actual, step).because(detail)


def slowest_of_largest(rows: Sequence[DeepSpeedRow]) -> DeepSpeedRow:
    """The row of the largest message; of several runs in a log, that of the slowest."""
    return min(rows, key=lambda row: (-row.size_bytes, row.busbw_gbit_s))


def judge_scan_busbw(log: DeepSpeedLog, subject: str, floor: float, origin: str) -> Finding:
    """Is the largest message at or above a floor, in Gb/s?"""
    expected = f"busbw >= {floor:g} Gb/s"
    if not log.rows:
        return row("bandwidth", subject, "error", expected, "no row")
    slowest = slowest_of_largest(log.rows)
    passed = slowest.busbw_gbit_s >= floor
    small = "" if slowest.size_bytes >= LARGE_BYTES else "no row reaches 1 GiB; "
    actual = f"{slowest.busbw_gbit_s:.2f} Gb/s at {show_bytes(slowest.size_bytes)}"
    step = "compare with nccl-tests over the same workers"
    found = row("bandwidth", subject, verdict_for(passed), expected, actual, step)
    return found.because(f"{small}floor: {origin}")


def judge_scan_ranks(log: DeepSpeedLog, subject: str, ranks: int) -> Finding:
    """Did all planned ranks take part?"""
    verdict, actual = verdict_for(log.devices == ranks), f"{log.devices} devices"
    step = "look at the hostfile and the slots"
    return row("ranks", subject, verdict, f"{ranks} devices", actual, step)


def judge_names(log: DeepSpeedLog, subject: str, workers: int) -> Finding:
    """Did the launcher find every worker by its name?"""
    found, expected = len(set(log.resolved)), f"{workers} names of the hostfile resolve"
    actual = f"{found}: {', '.join(log.resolved) or 'none'}"
    step = "look at the job's headless Service and at CoreDNS"
    return row("dns", subject, verdict_for(found == workers), expected, actual, step)


def judge_hosts(log: MpiLog, subject: str, hosts: Sequence[str]) -> Finding:
    """Did every host answer exactly once?"""
    seen = Counter(name.partition(".")[0] for name in log.hosts)
    wrong = {
        "did not answer": [name for name in hosts if not seen[name]],
        "answered more than once": [name for name, count in sorted(seen.items()) if count > 1],
        "is not in the plan": sorted({*seen} - {*hosts}),
    }
    parts = [f"{', '.join(names)} {what}" for what, names in wrong.items() if names]
    expected = f"one answer from each of {', '.join(hosts)}"
    step = "look at the keys and at known_hosts of the containers"
    return row_of("hosts", subject, parts, expected, f"all {len(hosts)} answered once", step)


def judge_gpus(log: MpiLog, subject: str, gpus: int) -> Finding:
    """Did nvidia-smi list every GPU of every host?"""
    right, step = log.gpus == gpus, "look at nvidia-smi on each host, then in its container"
    return row("gpus", subject, verdict_for(right), f"{gpus} GPUs", f"{log.gpus} GPUs", step)


_FROM_FILE = "acceptance in the site's file"


def judge_scan(item: ProbeEvidence, log: DeepSpeedLog, limits: Limits) -> list[Finding]:
    """All findings about a scan that ran to its end."""
    name = item.probe.name
    return [
        judge_scan_completeness(log, name, limits.scan_sizes or None),
        judge_names(log, name, len(item.probe.nodes)),
        judge_scan_ranks(log, name, item.probe.ranks),
        *judge_framework(item.nccl, name, asked_of(limits)),
        judge_scan_busbw(log, name, limits.scan_floor_gbit_s or 0.0, _FROM_FILE),
    ]


def judge_training(item: ProbeEvidence, log: TrainingLog, limits: Limits) -> list[Finding]:
    """All findings about a training benchmark that ran to its end."""
    name = item.probe.name
    return [
        judge_totals(log, name, item.probe.ranks),
        *judge_framework(item.nccl, name, asked_of(limits)),
        judge_images(log, name, limits.images_floor_s or 0.0, _FROM_FILE),
    ]


def judge_mpi(item: ProbeEvidence, log: MpiLog) -> list[Finding]:
    """All findings about a command that mpirun started on every host."""
    name = item.probe.name
    if item.probe.kind == "mpi_gpus":
        return [judge_gpus(log, name, item.probe.ranks)]
    return [judge_hosts(log, name, item.probe.nodes)]
