"""Findings about a parsed perftest log; used for evidence and for any log a user hands in."""

from __future__ import annotations

from typing import Literal

from components.acceptance.judge.verdict import Finding, Verdict
from components.acceptance.logs.failures import first_cause
from components.acceptance.logs.log_model import PerftestLog

PerftestLink = Literal["ib", "roce"]
_LINK_TYPES = {"ib": "IB", "roce": "Ethernet"}


def find_perftest_failure(log: PerftestLog, subject: str) -> Finding | None:
    """A finding for the first cause of failure that the log names, or None."""
    cause = first_cause(log.failures)
    if cause is None:
        return None
    return Finding(
        check="run",
        subject=subject,
        verdict="failed",
        expected="a run without errors",
        actual=f"{cause.kind}: {cause.line}",
        detail=f"the first cause among {len(log.failures)} failure lines",
        next_step=f"look for: {cause.meaning}",
    )


def judge_perftest_completeness(log: PerftestLog, subject: str) -> Finding:
    """Is there a whole table with readable rows?"""
    verdict: Verdict = "passed"
    count = len(log.rows) or len(log.latency)
    actual, detail = f"{count} row{'s' if count > 1 else ''}", "; ".join(log.notes)
    next_step = "take the log of the client again"
    still = any(row.average_gbit_s == 0 and row.rate_mpps == 0 for row in log.rows)
    if log.clock_unknown and (still or log.bad_rows):
        verdict, actual = "error", "no rate: perftest could not measure the processor's clock"
        next_step = "run it again while the host that sends has nothing else to do"
    elif log.bad_rows:
        verdict = "error"
        actual, detail = f"{len(log.bad_rows)} unreadable rows", f"the first: {log.bad_rows[0]}"
    elif not log.rows and not log.latency:
        verdict, actual = "error", "no result row"
    elif not log.ended:
        verdict, actual = "error", "cut off: the rule under the table is missing"
    elif still:
        verdict, actual = "failed", "a row in which no message arrived"
    return Finding(
        check="completeness",
        subject=subject,
        verdict=verdict,
        expected="a whole table with a result",
        actual=actual,
        detail=detail,
        next_step="" if verdict == "passed" else next_step,
    )


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
    """Is the link layer the expected one?"""
    wanted = _LINK_TYPES[expect]
    verdict: Verdict = "passed" if log.link_type == wanted else "failed"
    if not log.link_type:
        verdict = "error"
    return Finding(
        check="transport",
        subject=subject,
        verdict=verdict,
        expected=f"link type {wanted}",
        actual=log.link_type or "not shown",
    )


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
    passed = row.average_gbit_s >= floor_gbit_s
    mtu = f", MTU {log.mtu_bytes}" if log.mtu_bytes else ""
    return Finding(
        check="bandwidth",
        subject=subject,
        verdict="passed" if passed else "failed",
        expected=expected,
        actual=f"{row.average_gbit_s:.2f} Gb/s at {row.size_bytes} B{mtu}",
        detail=f"floor: {origin}",
        next_step="" if passed else "look at the RDMA MTU, the PCIe width and the link speed",
    )
