"""Findings about a parsed perftest log; used for evidence and for any log a user hands in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from components.acceptance.judge.verdict import Finding, Verdict, find_failure, verdict_for
from components.acceptance.logs.log_model import PerftestLog

PerftestLink = Literal["ib", "roce"]
LINK_TYPES: Final = {"ib": "IB", "roce": "Ethernet"}
_STEP: Final = 2
"""`-a` goes from 2 bytes to 8 MiB, each size twice the one before."""


def judge_perftest_completeness(log: PerftestLog, subject: str) -> Finding:
    """Is there a whole table with readable rows, and with every size between its ends?"""
    verdict, actual, detail = _completeness(log)
    clock = log.clock_unknown and verdict == "error"
    step = "run it again while the host that sends has nothing else to do"
    return Finding(
        check="completeness",
        subject=subject,
        verdict=verdict,
        expected="a whole table with a result",
        actual=actual,
        detail=detail,
        next_step=""
        if verdict == "passed"
        else step
        if clock
        else "take the log of the client again",
    )


def _completeness(log: PerftestLog) -> tuple[Verdict, str, str]:
    still = any(row.average_gbit_s == 0 and not row.rate_mpps for row in log.rows)
    count = len(log.rows) or len(log.latency)
    if log.clock_unknown and (still or log.bad_rows):
        return "error", "no rate: perftest could not measure the processor's clock", ""
    if log.bad_rows:
        return "error", f"{len(log.bad_rows)} unreadable rows", f"the first: {log.bad_rows[0]}"
    if problem := _problem(log):
        return "error", problem, ""
    if still:
        return "failed", "a row in which no message arrived", ""
    return "passed", f"{count} row{'s' if count > 1 else ''}", "; ".join(log.notes)


def _problem(log: PerftestLog) -> str:
    """What the log lacks, or says in two ways."""
    if not log.rows and not log.latency:
        return "no result row"
    if not log.ended:
        return "cut off: the rule under the table is missing"
    if log.contradictions:
        return f"two ends that differ: {log.contradictions[0]}"
    gap = _gap(log)
    return f"rows are missing: {gap}" if gap else ""


def _gap(log: PerftestLog) -> str:
    """Two neighbours between which a size must have been, or nothing."""
    sizes = sorted({row.size_bytes for row in (*log.rows, *log.latency)})
    pairs = (pair for pair in pairwise(sizes) if pair[1] != _STEP * pair[0])
    return next((f"from {one} B to {other} B" for one, other in pairs), "")


def judge_gid(log: PerftestLog, subject: str) -> Finding:
    """Over Ethernet both ends need a GID; all zeros is none."""
    if log.link_type != "Ethernet" or not log.gids:
        return Finding(
            check="gid", subject=subject, verdict="skipped", expected="a GID", actual="not shown"
        )
    empty = [gid for gid in log.gids if not gid.replace("0", "").replace(":", "")]
    return Finding(
        check="gid",
        subject=subject,
        verdict="failed" if empty else "passed",
        expected="a GID at both ends",
        actual="a GID of zeros" if empty else log.gids[0],
        next_step="the interface has no address on that rail, or -x is wrong" if empty else "",
    )


def judge_link(log: PerftestLog, subject: str, expect: PerftestLink) -> Finding:
    """Is it InfiniBand or RoCE, as expected? The link alone does not tell: iWARP has one too."""
    wanted = LINK_TYPES[expect]
    verdict, actual, detail = _link(log, wanted)
    return Finding(
        check="transport",
        subject=subject,
        verdict=verdict,
        expected=f"link type {wanted}",
        actual=actual,
        detail=detail,
        next_step="" if verdict == "passed" else "look at the lines above the table",
    )


def _link(log: PerftestLog, wanted: str) -> tuple[Verdict, str, str]:
    if not log.link_type:
        return "error", "not shown", ""
    if log.connection_type == "SRD":
        return "failed", "SRD", "Amazon's EFA, whose link type is printed as IB"
    if log.transport_type not in ("IB", ""):
        name = {"IW": "iWARP"}.get(log.transport_type, log.transport_type)
        return "failed", name, "the transport is neither InfiniBand nor RoCE"
    if log.link_type != wanted:
        return "failed", log.link_type, ""
    if not log.transport_type:
        return "error", log.link_type, "no line 'Transport type' says that it is not iWARP"
    return "passed", log.link_type, ""


def judge_average(log: PerftestLog, subject: str, floor_gbit_s: float, origin: str) -> Finding:
    """Is the average bandwidth of the largest size at or above a floor?

    The peak is no measure: in duration mode it is not taken.
    """
    expected = f"average >= {floor_gbit_s:.2f} Gb/s"
    if not log.rows:
        return Finding(
            check="bandwidth",
            subject=subject,
            verdict="error",
            expected=expected,
            actual="no row with a bandwidth",
            detail=f"floor: {origin}",
        )
    row = max(log.rows, key=lambda item: item.size_bytes)
    average = row.average_gbit_s / (2 if log.bidirectional else 1)
    each = " each way" if log.bidirectional else ""
    passed = average >= floor_gbit_s
    mtu = f", MTU {log.mtu_bytes}" if log.mtu_bytes else ""
    return Finding(
        check="bandwidth",
        subject=subject,
        verdict="passed" if passed else "failed",
        expected=expected,
        actual=f"{average:.2f} Gb/s{each} at {row.size_bytes} B{mtu}",
        detail=f"floor: {origin}",
        next_step="" if passed else "look at the RDMA MTU, the PCIe width and the link speed",
    )


@dataclass(frozen=True, slots=True)
class PerftestAsked:
    """What a log of perftest must show; what is None is not asked.

    Attributes:
        link: The link layer.
        floor_gbit_s: The least average of the largest size, one way, in Gb/s of 10^9 bits.
        floor_origin: Where it comes from; shown.
        mtu_bytes: The RDMA MTU.
    """

    link: PerftestLink | None = None
    floor_gbit_s: float | None = None
    floor_origin: str = ""
    mtu_bytes: int | None = None


Judge = Callable[[PerftestLog, str, PerftestAsked], Finding | None]


def _judge_mtu(log: PerftestLog, subject: str, asked: PerftestAsked) -> Finding | None:
    if asked.mtu_bytes is None:
        return None
    mtu = log.mtu_bytes
    return Finding(
        check="mtu",
        subject=subject,
        verdict="error" if mtu is None else verdict_for(mtu == asked.mtu_bytes),
        expected=f"RDMA MTU {asked.mtu_bytes}",
        actual="not shown" if mtu is None else str(mtu),
        next_step="" if mtu == asked.mtu_bytes else "look at the MTU of VF, PF and switch port",
    )


CHECKS: Final[tuple[Judge, ...]] = (
    lambda log, name, _: judge_perftest_completeness(log, name),
    lambda log, name, asked: judge_link(log, name, asked.link) if asked.link else None,
    lambda log, name, _: judge_gid(log, name),
    _judge_mtu,
    lambda log, name, asked: (
        judge_average(log, name, asked.floor_gbit_s, asked.floor_origin)
        if asked.floor_gbit_s is not None
        else None
    ),
)
"""The table of what is looked at: one for the gate and for `railyard judge`."""


def judge_perftest_run(log: PerftestLog, subject: str, asked: PerftestAsked) -> list[Finding]:
    """The findings of one run; of one that failed, why; of one that is not whole, no more."""
    failure = find_failure(log.failures, subject)
    if failure is not None:
        return [failure]
    completeness = judge_perftest_completeness(log, subject)
    if completeness.verdict == "error":
        return [completeness]
    return [found for check in CHECKS if (found := check(log, subject, asked)) is not None]


def judge_perftest_runs(log: PerftestLog, subject: str, asked: PerftestAsked) -> list[Finding]:
    """The findings of every run of a log, each under its own name."""
    runs = log.runs
    found: list[Finding] = []
    for number, run in enumerate(runs, 1):
        name = subject if len(runs) == 1 else f"{subject}, run {number} of {len(runs)}"
        found += judge_perftest_run(run, name, asked)
    return found
