"""Judges any log of nccl-tests or perftest: the pure part of `railyard judge`."""

from __future__ import annotations

from dataclasses import dataclass

from components.acceptance.log_model import NcclLog, ParseProblem
from components.acceptance.nccl_findings import (
    Expectation,
    find_failure,
    judge_busbw,
    judge_completeness,
    judge_correctness,
    judge_transport,
    judged_rows,
    seen_transports,
)
from components.acceptance.nccl_log import parse_nccl_log
from components.acceptance.perftest_findings import (
    PerftestLink,
    find_perftest_failure,
    judge_average,
    judge_gid,
    judge_link,
    judge_perftest_completeness,
)
from components.acceptance.perftest_log import parse_perftest_log
from components.acceptance.verdict import EXIT_CODES, Finding, Verdict, overall_verdict

_MARKS: dict[Verdict, str] = {
    "passed": "PASSED ",
    "failed": "FAILED ",
    "skipped": "SKIPPED",
    "error": "ERROR  ",
}


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """What is said of one log.

    Attributes:
        verdict: Of the log as a whole.
        exit_code: 0 good, 1 failed verdict, 4 could not judge.
        findings: One for each thing that was looked at.
        summary: The numbers of the log, one line.
    """

    verdict: Verdict
    exit_code: int
    findings: tuple[Finding, ...]
    summary: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The report as text."""
        lines = [f"{self.verdict}: {self.summary}"]
        for finding in self.findings:
            lines.append(f"  {_MARKS[finding.verdict]} {finding.check}: {finding.text}")
            lines += [f"          {part}" for part in (finding.detail,) if part]
            if finding.verdict not in ("passed", "skipped") and finding.next_step:
                lines.append(f"          next: {finding.next_step}")
        return tuple(lines)


def judge_nccl_text(
    text: str, expect: Expectation | None = None, min_busbw_gb_s: float | None = None
) -> LogVerdict:
    """Judges the log of an NCCL program.

    Args:
        text: The whole log.
        expect: The transport that the data must have taken; None leaves it unproven.
        min_busbw_gb_s: The lowest acceptable bus bandwidth of rows of 1 GiB and more, or of the
            largest row, in GB/s of 10^9 bytes.
    """
    log = parse_nccl_log(text)
    subject = "log"
    if isinstance(log, ParseProblem):
        return _unreadable(log, "an NCCL log")
    failure = find_failure(log, subject)
    if failure is not None:
        return _verdict([failure], "the run failed")
    completeness = judge_completeness(log, subject)
    correctness = judge_correctness(log, subject)
    if completeness.verdict == "error" and correctness.verdict != "failed":
        return _verdict([completeness], "cannot be judged")
    findings = [completeness, correctness]
    findings.append(
        _unproven_transport(log, subject)
        if expect is None
        else judge_transport(log, subject, expect)
    )
    if min_busbw_gb_s is not None:
        findings.append(judge_busbw(log, subject, min_busbw_gb_s, "--min-busbw"))
    rows, basis = judged_rows(log)
    worst = min(row.worst_busbw_gb_s for row in rows)
    name = log.collective or "collective"
    return _verdict(findings, f"{name}, {worst:.2f} GB/s busbw ({basis})")


def _unproven_transport(log: NcclLog, subject: str) -> Finding:
    """What the log shows of its transport, when nobody asks for one."""
    seen, proof = seen_transports(log)
    return Finding(
        check="transport",
        subject=subject,
        verdict="skipped",
        expected="no particular transport",
        actual=f"{', '.join(seen) or 'none shown'} (not proven)",
        detail=proof if seen else "give --expect to judge it",
    )


def judge_perftest_text(
    text: str, expect: PerftestLink | None = None, min_gbit_s: float | None = None
) -> LogVerdict:
    """Judges the log of a perftest client.

    Args:
        text: The whole log.
        expect: The link layer that the test must have used.
        min_gbit_s: The lowest acceptable average of the largest size, Gb/s of 10^9 bits.
    """
    log = parse_perftest_log(text)
    subject = "log"
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a perftest log")
    failure = find_perftest_failure(log, subject)
    if failure is not None:
        return _verdict([failure], "the run failed")
    findings = [judge_perftest_completeness(log, subject)]
    if findings[0].verdict == "error":
        return _verdict(findings, "cannot be judged")
    findings.append(judge_gid(log, subject))
    if expect is not None:
        findings.append(judge_link(log, subject, expect))
    if min_gbit_s is not None:
        findings.append(judge_average(log, subject, min_gbit_s, "--min-gbit-s"))
    name = log.test or "perftest"
    if log.rows:
        row = max(log.rows, key=lambda item: item.size_bytes)
        numbers = f"{row.average_gbit_s:.2f} Gb/s at {row.size_bytes} B"
    else:
        numbers = f"{log.latency[0].typical_us:.2f} us at {log.latency[0].size_bytes} B"
    return _verdict(findings, f"{name}, {numbers}")


def _unreadable(problem: ParseProblem, wanted: str) -> LogVerdict:
    finding = Finding(
        check="log", subject="log", verdict="error", expected=wanted, actual=problem.what
    )
    return LogVerdict("error", EXIT_CODES["error"], (finding,), "cannot be judged")


def _verdict(findings: list[Finding], summary: str) -> LogVerdict:
    verdict = overall_verdict(findings)
    return LogVerdict(verdict, EXIT_CODES[verdict], tuple(findings), summary)
