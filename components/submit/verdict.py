"""The verdict of a job that ended: `railyard judge`, with what the plan expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from components.acceptance.evidence import Limits, Probe
from components.acceptance.judge.log import (
    LogVerdict,
    judge_deepspeed_text,
    judge_nccl_text,
    judge_perftest_text,
    judge_training_text,
)
from components.acceptance.judge.nccl import NcclAsked, asked_of, members_of, nccl_floor
from components.acceptance.judge.nccl_findings import judged_rows
from components.acceptance.judge.verdict import EXIT_CODES, Verdict, row, verdict_for
from components.acceptance.logs.log_model import ParseProblem
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.workloads import parse_training_log
from components.submit.choose import Asked, JobKind

OVER_TCP: Final = "railyard: launch over TCP"
"""What `mpi_compare.sh` prints between its two launches."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One followed object that came to its end."""

    log: str
    reason: str
    """Why it failed, in the cluster's words; empty where it ended well."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one log."""

    lines: tuple[str, ...]
    verdict: Verdict

    @property
    def exit_code(self) -> int:
        """As `railyard judge` has it."""
        return EXIT_CODES[self.verdict]


def judge_end(asked: Asked, limits: Limits, probe: Probe | None, ended: Ended) -> Told:
    """The verdict of one followed object; a log without a judge is its job's own end."""
    found = [] if probe is None else _judge(asked, limits, probe, ended.log)
    lines = [line for each in found for line in each.lines]
    verdicts: list[Verdict] = [each.verdict for each in found]
    if ended.reason:
        lines.append(f"failed: the job did not end well: {ended.reason}")
        verdicts.append("failed")
    elif not found:
        lines.append("passed: the job ended well; nothing judges its log")
        verdicts.append("passed")
    return Told(tuple(lines), _worst(verdicts))


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    order: tuple[Verdict, ...] = ("failed", "error", "skipped", "passed")
    return min(verdicts, key=order.index)


def _judge(asked: Asked, limits: Limits, probe: Probe, log: str) -> list[LogVerdict]:
    if asked.kind == "perftest":
        rates = {each.name: each.line_rate_gbit_s for each in limits.rails} | dict(probe.rates)
        least = min(rates[rail] for rail in probe.rails) * limits.pair_fraction
        return [judge_perftest_text(log, "roce" if limits.transport == "roce" else "ib", least)]
    if asked.kind == "deepspeed":
        return [judge_deepspeed_text(log, limits.scan_floor_gbit_s)]
    judge = _judge_nccl if asked.kind == "nccl" else _judge_training
    if not asked.compare:
        return [judge(limits, probe, log)]
    first, _, second = log.partition(OVER_TCP)
    over = judge(limits, probe, first), _over_tcp(asked.kind, probe, second)
    return [*over, _compare(asked.kind, first, second)]


def _judge_nccl(limits: Limits, probe: Probe, log: str) -> LogVerdict:
    floor, origin = nccl_floor(limits, probe)
    wanted = replace(asked_of(limits), floor_origin=origin, members=members_of(limits, probe))
    return judge_nccl_text(log, limits.transport, floor, wanted)


def _judge_training(limits: Limits, probe: Probe, log: str) -> LogVerdict:
    return judge_training_text(log, probe.ranks, limits.images_floor_s, asked_of(limits))


def _over_tcp(kind: JobKind, probe: Probe, log: str) -> LogVerdict:
    """The second launch has no floor, and must have gone over sockets."""
    if kind == "nccl":
        return judge_nccl_text(log, "socket")
    return judge_training_text(log, probe.ranks, None, NcclAsked(transport="socket"))


def _compare(kind: JobKind, rdma: str, tcp: str) -> LogVerdict:
    number: Callable[[str], float | None] = _busbw if kind == "nccl" else _images
    unit = "GB/s" if kind == "nccl" else "images/s"
    pair = number(rdma), number(tcp)
    verdict: Verdict = "error"
    actual = "a launch without a result"
    if pair[0] and pair[1]:
        ratio = pair[0] / pair[1]
        verdict = verdict_for(ratio > 1)
        numbers = f"{pair[0]:.2f} {unit} over RDMA, {pair[1]:.2f} {unit} over TCP"
        actual = f"{numbers}: {ratio:.2f} times as much"
    expected, step = "more over RDMA than over TCP", "read the two verdicts above"
    return LogVerdict.of((row("comparison", "log", verdict, expected, actual, step),), actual)


def _busbw(text: str) -> float | None:
    """The least bus bandwidth of the rows that count, in GB/s."""
    log = parse_nccl_log(text)
    if isinstance(log, ParseProblem):
        return None
    rows = [row for run in log.runs for row in judged_rows(run)[0]]
    return min((row.worst_busbw_gb_s for row in rows), default=None)


def _images(text: str) -> float | None:
    log = parse_training_log(text)
    if isinstance(log, ParseProblem) or not log.totals_images_s:
        return None
    return median(log.totals_images_s)
