"""Findings about a parsed NCCL log; used for evidence and for any log a user hands in."""

from __future__ import annotations

from components.acceptance.judge.nccl_ways import Expectation, judge_way, used_devices
from components.acceptance.judge.nccl_whole import (
    LARGE_BYTES,
    completeness_of,
    count_ranks,
    is_alone,
)
from components.acceptance.judge.verdict import Finding, Verdict, verdict_for
from components.acceptance.logs.log_model import NcclLog, NcclRow

_SPLIT = ("all_reduce", "all_gather", "reduce_scatter")
"""Collectives whose bus bandwidth is that of a ring, which others may beat."""
_UNNAMED = 1.2
"""Times the line rate, which a log may show that names no algorithm: two hosts of 8 H100 reach 470
of 400 GB/s (nccl-tests issue 309)."""
_SLACK = 1.02
"""Times a limit by physics: clocks and the rounding of a table."""
_LARGEST_OLD_ERROR = 1e-3
"""A relative error of the old column `error` beyond rounding of any float type but fp8."""


def judge_completeness(log: NcclLog, subject: str) -> Finding:
    """Is the log whole: from its start to its footer, with all ranks and sizes?"""
    verdict, actual, detail = completeness_of(log)
    if verdict == "passed" and is_alone(log):
        verdict, actual = "error", "a single rank, which sends nothing"
    return Finding(
        check="completeness",
        subject=subject,
        verdict=verdict,
        expected="a whole log with a result",
        actual=actual,
        detail=detail,
        next_step="" if verdict == "passed" else "take the log again, from start to end",
    )


def judge_correctness(log: NcclLog, subject: str) -> Finding:
    """Did the collective compute the right values?"""
    verdict, actual, detail = _correctness(log)
    return Finding(
        check="correctness",
        subject=subject,
        verdict=verdict,
        expected="0 wrong values",
        actual=actual,
        detail=detail,
        next_step="suspect memory, cable or NIC; run again" if verdict == "failed" else "",
    )


def judge_transport(log: NcclLog, subject: str, expect: Expectation | None) -> Finding:
    """Did the data take the expected transport, by the lines that prove it?"""
    seen, proof = seen_transports(log)
    if expect is None:
        return Finding(
            check="transport",
            subject=subject,
            verdict="skipped",
            expected="no particular transport",
            actual=f"{', '.join(seen) or 'none shown'} (not proven)",
            detail=proof if seen else "give --expect to judge it",
        )
    verdict, why = judge_way(log, expect)
    return Finding(
        check="transport",
        subject=subject,
        verdict=verdict,
        expected=expect,
        actual=", ".join(seen) or "not shown",
        detail="; ".join(dict.fromkeys(part for part in (why, proof if seen else "") if part)),
        next_step=_transport_step(log, verdict, expect),
    )


def judge_warnings(log: NcclLog, subject: str) -> Finding | None:
    """NCCL's warnings of unknown meaning: a run that is whole and right does not fail by them."""
    if not log.warnings:
        return None
    count = len(log.warnings)
    return Finding(
        check="warnings",
        subject=subject,
        verdict="skipped",
        expected="warnings that are known",
        actual=f"{count} unknown warning{'s' if count > 1 else ''}: {log.warnings[0]}",
        detail="; ".join(log.warnings[1:4]),
    )


def judge_gdr(log: NcclLog, subject: str) -> Finding:
    """Do all network channels go straight to GPU memory?"""
    total, gdr = log.channels.net_total, log.channels.gdr
    verdict: Verdict = "error" if not total else verdict_for(gdr == total)
    return Finding(
        check="gpudirect",
        subject=subject,
        verdict=verdict,
        expected="GDRDMA on all network channels",
        actual=f"{gdr} of {total} channels",
        next_step="load nvidia_peermem on every worker; look at NCCL_NET_GDR_LEVEL"
        if verdict == "failed"
        else "",
    )


def judge_busbw(log: NcclLog, subject: str, floor_gb_s: float, origin: str) -> Finding:
    """Is every large row at or above a floor?

    Args:
        log: The parsed log.
        subject: What the finding is about.
        floor_gb_s: The floor, GB/s of 10^9 bytes.
        origin: Where the floor comes from; shown.
    """
    rows, basis = judged_rows(log)
    if not rows:
        return Finding(
            check="bandwidth",
            subject=subject,
            verdict="error",
            expected=f"busbw >= {floor_gb_s:.2f} GB/s",
            actual="no row with a bandwidth",
            detail=origin,
        )
    worst = min(rows, key=lambda row: row.worst_busbw_gb_s)
    passed = worst.worst_busbw_gb_s >= floor_gb_s
    return Finding(
        check="bandwidth",
        subject=subject,
        verdict="passed" if passed else "failed",
        expected=f"busbw >= {floor_gb_s:.2f} GB/s",
        actual=f"{worst.worst_busbw_gb_s:.2f} GB/s at {show_bytes(worst.size_bytes)}",
        detail=f"{basis}; floor: {origin}",
        next_step=""
        if passed
        else "compare ib_write_bw of each rail; look for a slow or lost rail",
    )


def judge_ceiling(log: NcclLog, subject: str, rails_gb_s: float, hosts: int) -> Finding | None:
    """Is the bus bandwidth more than the rails can carry? None: it is not.

    A ring sends over the rails what busbw says. Any other algorithm may send less, but not less
    than each host must: busbw is at most (ranks - 1) / ranks * hosts / (hosts - 1) of the rails, so
    1.875 times with 2 hosts of 8 (NCCL 2.30.7, src/graph/tuning.cc:320, NVLSTree), and with
    switches that compute (CollNet) 2 * (ranks - 1) / ranks at any size.
    """
    ranks = count_ranks(log) or 0
    rows, _ = judged_rows(log)
    best = max((row.worst_busbw_gb_s for row in rows), default=0.0) / _SLACK
    if hosts < 2 or not ranks or not rails_gb_s or best <= rails_gb_s:  # noqa: PLR2004 - a pair
        return None
    once = (ranks - 1) / ranks
    in_switches = any(name.startswith("COLLNET") for name in log.algorithms)
    many = 2 if in_switches else hosts / (hosts - 1)
    most = rails_gb_s * max(1.0, once * many if log.collective.startswith(_SPLIT) else 1.0)
    named = ", ".join(log.algorithms)
    if best <= most and {*log.algorithms} - {"RING"}:
        return None
    if not named and best <= rails_gb_s * _UNNAMED:
        return None
    unknown = best <= most and not named
    return Finding(
        check="plausible bandwidth",
        subject=subject,
        verdict="error" if unknown else "failed",
        expected=f"busbw <= {rails_gb_s:.2f} GB/s, the line rate of the rails"
        + (f"; {most:.2f} with {named or 'a tree'}" if most > rails_gb_s else ""),
        actual=f"{best * _SLACK:.2f} GB/s",
        detail="a tree sends less over the rails than busbw says, so one may be missing"
        if unknown
        else "the bytes did not go over the planned rails alone, or the log is of another run",
        next_step="set acceptance.nccl_algo to RING and run acceptance again"
        if unknown
        else "compare the devices in the log, and the rates of the rails in the file",
    )


def judged_rows(log: NcclLog) -> tuple[tuple[NcclRow, ...], str]:
    """The rows that count for bandwidth, and a sentence that says which."""
    large = tuple(row for row in log.rows if (row.size_bytes or 0) >= LARGE_BYTES)
    if large:
        return large, f"the lowest of {len(large)} rows of 1 GiB and more"
    if not log.rows:
        return (), ""
    largest = max(log.rows, key=lambda row: row.size_bytes or 0)
    return (largest,), f"no row reaches 1 GiB: the largest row, {show_bytes(largest.size_bytes)}"


def seen_transports(log: NcclLog) -> tuple[tuple[str, ...], str]:
    """The transports in use, by proof: channel lines if there are any, else `Using network`."""
    channels = log.channels
    counted = {f"NET/{name}": count for name, count in sorted(channels.net.items())}
    counted |= {"P2P": channels.peer, "SHM": channels.shared_memory, "NVLS": channels.nvls}
    counted |= dict.fromkeys(channels.other, 1)
    seen = {name: count for name, count in counted.items() if count}
    if seen:
        counts = ", ".join(f"{count} {name}" for name, count in seen.items())
        return tuple(seen), f"channel lines: {counts}{_layers_text(log)}"
    names = [f"NET/{name}" for name in sorted(log.networks)]
    return tuple(names), "from 'Using network' only: no channel line proves it"


def show_bytes(size: int | None) -> str:
    """A size in binary units, as nccl-tests takes it."""
    if size is None:
        return "unstated size"
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size} B"


def _layers_text(log: NcclLog) -> str:
    layers = sorted(used_devices(log))
    return f"; devices: {', '.join(layers)}" if layers else ""


def _transport_step(log: NcclLog, verdict: Verdict, expect: Expectation) -> str:
    if verdict == "passed":
        return ""
    if expect == "nvlink":
        return "look at `nvidia-smi topo -m` (NV is NVLink), NCCL_P2P_DISABLE and NCCL_P2P_LEVEL"
    if "Socket" in log.channels.net or "Socket" in log.networks:
        return "NCCL found no RDMA device it may use: look at the VF, NCCL_IB_HCA, NCCL_IB_DISABLE"
    return "run with NCCL_DEBUG=INFO and look at the lines 'NET/IB : Using' and 'via NET/'"


def _correctness(log: NcclLog) -> tuple[Verdict, str, str]:
    halves = [half for row in log.rows for half in (row.out_of_place, row.in_place) if half]
    wrong = sum(half.wrong or 0 for half in halves)
    if log.out_of_bounds or wrong:
        return "failed", f"{max(log.out_of_bounds or 0, wrong)} wrong values", "data were corrupted"
    errors = [half.error for half in halves if half.error is not None]
    if errors and max(errors) > _LARGEST_OLD_ERROR:
        return "failed", f"a relative error of {max(errors):g}", "data were corrupted"
    if any(half.wrong is not None for half in halves) or errors:
        return "passed", "0 wrong values", f"checked in {len(log.rows)} rows"
    reason = "the run did not check its values" if log.rows else "no row"
    return "skipped", "not checked", reason
