"""Judges any log of NCCL, perftest, DeepSpeed or a training: the pure part of `railyard judge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from components.acceptance.judge.nccl_findings import (
    Expectation,
    find_failure,
    judge_busbw,
    judge_completeness,
    judge_correctness,
    judge_gdr,
    judge_transport,
    judged_rows,
    seen_transports,
    show_bytes,
)
from components.acceptance.judge.nccl_profile import (
    Adapters,
    judge_hcas,
    judge_network,
    judge_topology,
    judge_version,
)
from components.acceptance.judge.perftest_findings import (
    PerftestLink,
    find_perftest_failure,
    judge_average,
    judge_gid,
    judge_link,
    judge_perftest_completeness,
)
from components.acceptance.judge.verdict import EXIT_CODES, Finding, Verdict, overall_verdict
from components.acceptance.judge.workload_findings import (
    find_launched_failure,
    judge_images,
    judge_scan_busbw,
    judge_scan_completeness,
    judge_totals,
    odd_steps,
)
from components.acceptance.logs.deepspeed import parse_deepspeed_log
from components.acceptance.logs.log_model import NcclLog, ParseProblem
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.perftest import parse_perftest_log
from components.acceptance.logs.training import parse_training_log
from components.core.errors import UsageError

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


@dataclass(frozen=True, slots=True)
class NcclAsked:
    """What a log of NCCL must show beside its transport; what is None or empty is not asked."""

    min_version: str = ""
    """Least release, for example `2.19`."""
    topology_file: str = ""
    """The value that NCCL_TOPO_FILE must have on every rank."""
    hcas: int | None = None
    """InfiniBand adapters of every host, with relaxed ordering."""
    gdr: bool = False
    """Every network channel must be GDRDMA."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> NcclAsked:
        """From `version=2.19`, `topology=/opt/h100.xml`, `hcas=8`, `gdr`.

        Raises:
            UsageError: A text asks for something else.
        """
        values = {name: value for name, _, value in (text.partition("=") for text in texts)}
        unknown = sorted(set(values) - {"version", "topology", "hcas", "gdr"})
        hcas = values.get("hcas")
        if unknown or (hcas is not None and not hcas.isdecimal()):
            wrong = unknown[0] if unknown else f"hcas={hcas}"
            raise UsageError(
                f"--must {wrong} asks for nothing that is known.\n"
                "  fix    use version=2.19, topology=/path/of/NCCL_TOPO_FILE, hcas=8, or gdr."
            )
        return cls(
            min_version=values.get("version", ""),
            topology_file=values.get("topology", ""),
            hcas=None if hcas is None else int(hcas),
            gdr="gdr" in values,
        )

    def findings(self, log: NcclLog, subject: str) -> list[Finding]:
        """The findings of what is asked."""
        found: list[Finding] = []
        if self.min_version:
            found.append(judge_version(log, subject, self.min_version))
        if self.topology_file:
            found.append(judge_topology(log, subject, self.topology_file))
        if self.hcas is not None:
            found.append(judge_network(log, subject))
            found.append(judge_hcas(log, subject, Adapters(self.hcas)))
        if self.gdr:
            found.append(judge_gdr(log, subject))
        return found


def judge_nccl_text(
    text: str,
    expect: Expectation | None = None,
    min_busbw_gb_s: float | None = None,
    asked: NcclAsked | None = None,
) -> LogVerdict:
    """Judges the log of an NCCL program.

    Args:
        text: The whole log.
        expect: The transport that the data must have taken; None leaves it unproven.
        min_busbw_gb_s: The lowest acceptable bus bandwidth of rows of 1 GiB and more, or of the
            largest row, in GB/s of 10^9 bytes.
        asked: What else it must show.
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
    findings += asked.findings(log, subject) if asked else []
    if min_busbw_gb_s is not None:
        findings.append(judge_busbw(log, subject, min_busbw_gb_s, "--min-busbw"))
    rows, basis = judged_rows(log)
    worst = min(row.worst_busbw_gb_s for row in rows)
    name = log.collective or "collective"
    return _verdict(findings, f"{name}, {worst:.2f} GB/s busbw ({basis})")


def _unproven_transport(log: NcclLog, subject: str) -> Finding:
    """What the log shows of its transport, when none is required."""
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


def judge_deepspeed_text(text: str, min_gbit_s: float | None = None) -> LogVerdict:
    """Judges the log of DeepSpeed's communication benchmark.

    Args:
        text: The whole log.
        min_gbit_s: The lowest acceptable bus bandwidth of the largest message, Gb/s of 10^9 bits.
    """
    log = parse_deepspeed_log(text)
    subject = "log"
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a log of DeepSpeed's benchmark")
    failure = find_launched_failure(log.failures, subject)
    if failure is not None:
        return _verdict([failure], "the run failed")
    findings = [judge_scan_completeness(log, subject)]
    if findings[0].verdict == "error":
        return _verdict(findings, "cannot be judged")
    if min_gbit_s is not None:
        findings.append(judge_scan_busbw(log, subject, min_gbit_s, "--min-gbit"))
    row = max(log.rows, key=lambda item: item.size_bytes)
    where = f"{row.busbw_gbit_s:.2f} Gb/s busbw at {show_bytes(row.size_bytes)}"
    return _verdict(findings, f"{log.collective} on {log.devices} devices, {where}")


def judge_training_text(
    text: str, ranks: int | None = None, min_images_s: float | None = None
) -> LogVerdict:
    """Judges the log of tf_cnn_benchmarks or of Horovod's synthetic benchmarks.

    Args:
        text: The whole log.
        ranks: How many ranks must have taken part; None for any number.
        min_images_s: The lowest acceptable number of images per second of all ranks together.
    """
    log = parse_training_log(text)
    subject = "log"
    if isinstance(log, ParseProblem):
        return _unreadable(log, "a log of a training benchmark")
    failure = find_launched_failure(log.failures, subject)
    if failure is not None:
        return _verdict([failure], "the run failed")
    findings = [judge_totals(log, subject, ranks)]
    if findings[0].verdict == "error":
        return _verdict(findings, "cannot be judged")
    if min_images_s is not None:
        findings.append(judge_images(log, subject, min_images_s, "--min-images"))
    odd = odd_steps(log)
    middle = f"{median(log.totals_images_s):.2f} images/s, median of {len(log.totals_images_s)}"
    return _verdict(findings, f"{log.program}, {middle}" + (f"; {odd}" if odd else ""))


def _unreadable(problem: ParseProblem, wanted: str) -> LogVerdict:
    finding = Finding(
        check="log", subject="log", verdict="error", expected=wanted, actual=problem.what
    )
    return LogVerdict("error", EXIT_CODES["error"], (finding,), "cannot be judged")


def _verdict(findings: list[Finding], summary: str) -> LogVerdict:
    verdict = overall_verdict(findings)
    return LogVerdict(verdict, EXIT_CODES[verdict], tuple(findings), summary)
