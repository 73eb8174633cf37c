"""Judges any log of NCCL, perftest, DeepSpeed or a training: the pure part of `railyard judge`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median

from components.acceptance.digest import digest_log, parse_deepspeed_log, parse_training_log
from components.acceptance.evidence import Probe
from components.acceptance.judge import nccl_findings, perftest_findings, workload_findings
from components.acceptance.judge import verdict as verdicts
from components.acceptance.judge.nccl import NcclAsked, judge_framework, judge_runs
from components.acceptance.judge.perftest_findings import PerftestAsked
from components.acceptance.judge.verdict import Finding, find_failure, row
from components.acceptance.logs.log_model import LogFailure, ParseProblem
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.perftest import parse_perftest_log
from components.core.plain_text import counted
from components.core.record import field, record, replace

Source = str | Iterable[str]
"""A text, or its pieces in order."""


@record
class LogVerdict:
    """The judgement of one log."""

    verdict: verdicts.Verdict
    exit_code: int
    """0 good, 1 failed verdict, 4 could not judge."""
    findings: tuple[Finding, ...]
    summary: str
    """The numbers of the log, one line."""
    warnings: tuple[Finding, ...] = field(default=(), metadata={"omit_empty": True})
    """They leave the verdict as it is."""

    @classmethod
    def of(cls, findings: Sequence[Finding], summary: str) -> LogVerdict:
        """The verdict that follows from findings."""
        verdict = verdicts.overall_verdict(findings)
        found = tuple(each if each.subject else each.about("log") for each in findings)
        return cls(verdict, verdicts.EXIT_CODES[verdict], found, summary)

    @property
    def lines(self) -> tuple[str, ...]:
        """The report as text."""
        lines = [f"{self.verdict}: {self.summary}"]
        for finding in (*self.findings, *self.warnings):
            word = "warning" if finding in self.warnings else finding.verdict
            where = finding.subject.partition(", ")[2]
            name = f"{finding.check} of {where}" if where else finding.check
            lines.append(f"  {word.upper():7} {name}: {finding.text}")
            lines += [f"          {part}" for part in (finding.detail,) if part]
            if finding.verdict not in ("passed", "skipped") and finding.next_step:
                lines.append(f"          next: {finding.next_step}")
        return tuple(lines)


def judge_nccl_text(
    text: Source,
    expect: nccl_findings.Expectation | None = None,
    min_busbw_gb_s: float | None = None,
    asked: NcclAsked | None = None,
) -> LogVerdict:
    """Judges the log of an NCCL program; of several runs in it, each.

    `expect` is the transport of the data; None leaves it unproven. The least bus bandwidth counts
    for rows of 1 GiB and more, or the largest row, in GB/s of 10^9 bytes.
    """
    log = parse_nccl_log(text)
    if isinstance(log, ParseProblem):
        return _unreadable(log, "an NCCL log")
    wanted = replace(asked or NcclAsked(), transport=expect, floor_gb_s=min_busbw_gb_s)
    findings = judge_runs(log, "log", wanted)
    lowest = [
        (worst, f"{run.collective or 'collective'}, {worst:.2f} GB/s busbw ({basis})")
        for run in log.runs
        for rows, basis in [nccl_findings.judged_rows(run)]
        if rows
        for worst in [min(row.worst_busbw_gb_s for row in rows)]
    ]
    more = f"; the slowest of {len(log.runs)} runs" if log.other_runs else ""
    numbers = f"{min(lowest)[1]}{more}" if lowest else "cannot be judged"
    verdict = LogVerdict.of(findings, _why_no_numbers(findings) or numbers)
    return replace(verdict, warnings=tuple(chain(*map(nccl_findings.warn_stragglers, log.runs))))


def _why_no_numbers(findings: list[Finding]) -> str:
    looked = {finding.check for finding in findings}
    if looked == {"run"}:
        return "the run failed"
    return "cannot be judged" if looked <= {"run", "completeness"} else ""


def judge_perftest_text(
    text: Source,
    expect: perftest_findings.PerftestLink | None = None,
    min_gbit_s: float | None = None,
    asked: PerftestAsked | None = None,
) -> LogVerdict:
    """Judges each run of a perftest client; the floor is one way, of the largest size, in Gb/s."""
    log = parse_perftest_log(text)
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a perftest log")
    wanted = replace(asked or PerftestAsked(), link=expect, floor_gbit_s=min_gbit_s)
    findings = perftest_findings.judge_perftest_runs(log, "log", wanted)
    more = f"; the slowest of {len(log.runs)} runs" if log.other_runs else ""
    numbers, name = "cannot be judged", log.test or "perftest"
    if shown := [each for run in log.runs for each in run.latency[:1]]:
        slowest = max(shown, key=lambda each: each.typical_us)
        numbers = f"{name}, {slowest.typical_us:.2f} us at {slowest.size_bytes} B{more}"
    if largest := [run.largest for run in log.runs if run.largest]:
        least = min(largest, key=lambda each: each.average_gbit_s)
        numbers = f"{name}, {least.average_gbit_s:.2f} Gb/s at {least.size_bytes} B{more}"
    return LogVerdict.of(findings, _why_no_numbers(findings) or numbers)


def judge_node_text(text: str, gpus: int) -> LogVerdict:
    """Judge the output of `node_health.sh` on a machine with so many GPUs."""
    probe = Probe(name="log", kind="node", rails=(), nodes=("log",), ranks=gpus)
    item = digest_log(probe, text, outcome="completed")
    if item.node is None:
        unknown = ParseProblem(kind="unrecognised", what="it lacks the lines of node_health.sh")
        return _unreadable(item.problem or unknown, "a log of node_health.sh")
    looks = f"{counted(gpus, 'GPU')}, {counted(len(item.node.looks), 'look')}"
    if failure := find_failure(item.nccl.failures if item.nccl else ()):
        rest = workload_findings.judge_node(item.model_copy(update={"nccl": None}), item.node)
        return LogVerdict.of((failure, *rest), looks)
    return LogVerdict.of(workload_findings.judge_node(item, item.node), looks)


def judge_deepspeed_text(text: Source, min_gbit_s: float | None = None) -> LogVerdict:
    """Judges DeepSpeed's communication benchmark; the floor is of its largest message, in Gb/s."""
    log = parse_deepspeed_log(text)
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a log of DeepSpeed's benchmark")
    findings = [workload_findings.judge_scan_completeness(log)]
    if ended := _without_numbers(log.failures, findings[0]):
        return ended
    if min_gbit_s is not None:
        findings.append(workload_findings.judge_scan_busbw(log, min_gbit_s, "--min-gbit"))
    worst = workload_findings.slowest_of_largest(log.rows)
    where = f"{worst.busbw_gbit_s:.2f} Gb/s busbw at {nccl_findings.show_bytes(worst.size_bytes)}"
    return LogVerdict.of(findings, f"{log.collective} on {log.devices} devices, {where}")


def judge_training_text(
    text: Source,
    ranks: int | None = None,
    min_images_s: float | None = None,
    nccl: NcclAsked | None = None,
) -> LogVerdict:
    """Judges the log of tf_cnn_benchmarks or of Horovod's synthetic benchmarks.

    The least number of images per second is that of all ranks together. `nccl` is what the
    program's NCCL must show of its transport; None leaves that unproven.
    """
    if nccl is not None and not isinstance(text, str):
        text = "".join(text)  # read twice
    log = parse_training_log(text)
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a log of a training benchmark")
    findings = [workload_findings.judge_totals(log, ranks)]
    if ended := _without_numbers(log.failures, findings[0]):
        return ended
    if min_images_s is not None:
        findings.append(workload_findings.judge_images(log, min_images_s, "--min-images"))
    if nccl is not None:
        findings += judge_framework(parse_nccl_log(text), nccl)
    odd = workload_findings.odd_steps(log)
    middle = f"{median(log.totals_images_s):.2f} images/s, median of {len(log.totals_images_s)}"
    return LogVerdict.of(findings, f"{log.program}, {middle}" + (f"; {odd}" if odd else ""))


def _without_numbers(failures: Sequence[LogFailure], whole: Finding) -> LogVerdict | None:
    """The verdict of a failed or incomplete run; None if its numbers count."""
    if failure := find_failure(failures):
        return LogVerdict.of((failure,), "the run failed")
    return LogVerdict.of((whole,), "cannot be judged") if whole.verdict == "error" else None


def _unreadable(problem: ParseProblem, wanted: str) -> LogVerdict:
    found = row("readable log", "error", problem.what, wanted=wanted)
    return LogVerdict.of((found,), "cannot be judged")
