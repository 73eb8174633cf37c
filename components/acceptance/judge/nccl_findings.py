"""Findings about a parsed NCCL log; used for evidence and for any log a user hands in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from components.acceptance.judge.verdict import Finding, Verdict, verdict_for
from components.acceptance.logs.failures import first_cause
from components.acceptance.logs.log_model import NcclLog, NcclRow

Expectation = Literal["ib", "roce", "nvlink", "socket"]
LARGE_BYTES = 1 << 30
"""Rows from 1 GiB on show bandwidth; smaller ones show latency (16 MiB: 12 % of the plateau)."""
_LINK_LAYERS = {"ib": "IB", "roce": "RoCE"}
_RDMA_NAMES = ("IB", "IBext")
_LARGEST_OLD_ERROR = 1e-3
"""A relative error of the old column `error` beyond rounding of any float type but fp8."""


def find_failure(log: NcclLog, subject: str) -> Finding | None:
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


def judge_completeness(log: NcclLog, subject: str) -> Finding:
    """Is the log whole: from its start to its footer, with all ranks?"""
    verdict, actual, detail = _completeness(log)
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


def judge_transport(log: NcclLog, subject: str, expect: Expectation) -> Finding:
    """Did the data take the expected transport, by the lines that prove it?"""
    seen, proof = seen_transports(log)
    verdict: Verdict = "passed"
    if not seen:
        verdict, proof = "error", "no transport line; run with NCCL_DEBUG=INFO"
    elif not _is_expected(log, expect, seen):
        verdict = "failed"
    return Finding(
        check="transport",
        subject=subject,
        verdict=verdict,
        expected=expect,
        actual=", ".join(seen) or "not shown",
        detail=proof,
        next_step=_transport_step(log, verdict),
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
    if channels.net_total or channels.peer or channels.shared_memory:
        names = [f"NET/{name}" for name in sorted(channels.net)]
        names += ["P2P"] if channels.peer else []
        names += ["SHM"] if channels.shared_memory else []
        counts = [f"{count} NET/{name}" for name, count in sorted(channels.net.items())]
        counts += [f"{channels.peer} P2P"] if channels.peer else []
        counts += [f"{channels.shared_memory} SHM"] if channels.shared_memory else []
        return tuple(names), f"channel lines: {', '.join(counts)}{_layers_text(log)}"
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


def _is_expected(log: NcclLog, expect: Expectation, seen: Sequence[str]) -> bool:
    nets = [name.removeprefix("NET/") for name in seen if name.startswith("NET/")]
    if expect == "nvlink":
        return not nets and list(seen) == ["P2P"]
    if not nets:
        return False
    if expect == "socket":
        return all(name == "Socket" for name in nets)
    layers = link_layers(log)
    right_layer = not layers or layers == {_LINK_LAYERS[expect]}
    return right_layer and all(name.startswith(_RDMA_NAMES) for name in nets)


def link_layers(log: NcclLog) -> set[str]:
    """The link layers of the devices that NCCL lists: `RoCE`, `IB`."""
    return {hca.link_layer for host in log.hosts for hca in host.hcas}


def _layers_text(log: NcclLog) -> str:
    layers = sorted(link_layers(log))
    return f"; devices: {', '.join(layers)}" if layers else ""


def _transport_step(log: NcclLog, verdict: Verdict) -> str:
    if verdict == "passed":
        return ""
    if "Socket" in log.channels.net or "Socket" in log.networks:
        return "NCCL found no RDMA device it may use: look at the VF, NCCL_IB_HCA, NCCL_IB_DISABLE"
    return "run with NCCL_DEBUG=INFO and look at the lines 'NET/IB : Using' and 'via NET/'"


def _completeness(log: NcclLog) -> tuple[Verdict, str, str]:
    if log.bad_rows:
        return "error", f"{len(log.bad_rows)} unreadable rows", f"the first: {log.bad_rows[0]}"
    if not log.rows:
        return "error", "no result row", "the log is cut, or the run hung or is still going on"
    if log.program == "other":
        return _completeness_of_program(log)
    if log.has_footer:
        return _rank_completeness(log)
    if not log.has_preamble and _is_excerpt(log):
        return "passed", f"an excerpt with {len(log.rows)} rows", "its start and end are not shown"
    return "error", "cut off: the footer is missing", f"{len(log.rows)} rows before the cut"


def _is_excerpt(log: NcclLog) -> bool:
    """A quoted table: no start, no end, but rows that count and whose values were checked."""
    return all(
        (row.size_bytes or 0) >= LARGE_BYTES and row.out_of_place.wrong is not None
        for row in log.rows
    )


def _rank_completeness(log: NcclLog) -> tuple[Verdict, str, str]:
    numbers = [line.rank for line in log.ranks]
    if numbers.count(0) > 1:
        return (
            "failed",
            f"{numbers.count(0)} separate runs with a rank 0 each",
            "the binary was built without MPI, or the launcher is not its own",
        )
    if log.nranks is not None and 0 < log.init_complete < log.nranks and log.has_preamble:
        actual = f"{log.init_complete} of {log.nranks} ranks completed their start"
        return "failed", actual, "count of 'Init COMPLETE'"
    return "passed", f"{len(log.rows)} rows and the footer", ""


def _completeness_of_program(log: NcclLog) -> tuple[Verdict, str, str]:
    missing = 1 < log.init_complete < (log.nranks or 0)
    if 0 < log.init_complete <= log.destroy_complete and not missing:
        ended = f"{log.destroy_complete} of {log.init_complete} communicators ended"
        return "passed", f"{len(log.rows)} results, {ended}", "not a log of nccl-tests"
    return "error", "cut off: not all communicators ended", "count of 'Destroy COMPLETE'"


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
