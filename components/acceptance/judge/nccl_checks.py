"""The table of what is looked at in a log of NCCL: one for the gate and for `railyard judge`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from components.acceptance.judge.nccl_findings import (
    judge_busbw,
    judge_completeness,
    judge_correctness,
    judge_gdr,
    judge_hcas,
    judge_network,
    judge_topology,
    judge_transport,
    judge_version,
    judge_warnings,
)
from components.acceptance.judge.nccl_ways import Expectation
from components.acceptance.judge.verdict import (
    Finding,
    Verdict,
    find_failure,
    row,
    verdict_for,
)
from components.acceptance.logs.causes import first_cause
from components.acceptance.logs.log_model import LogFailure, NcclLog
from components.core.errors import UsageError
from components.core.plain_text import counted


@dataclass(frozen=True, slots=True)
class Members:
    """Who must take part.

    Attributes:
        ranks: How many.
        hosts: On how many hosts.
        workers: Names of these hosts; empty for any.
        devices: How many network devices the channels of each host must use; 0 for any.
        what: What these are: `rails` or `adapters`.
    """

    ranks: int
    hosts: int
    workers: frozenset[str]
    devices: int
    what: str = "rails"


@dataclass(frozen=True, slots=True)
class NcclAsked:
    """What a log of NCCL must show; what is None or empty is not asked."""

    min_version: str = ""
    """Least release, for example `2.19`."""
    topology_file: str = ""
    """The value that NCCL_TOPO_FILE must have on every rank."""
    hcas: int | None = None
    """InfiniBand adapters of every host, with relaxed ordering."""
    gdr: bool | None = None
    """Every network channel must be GDRDMA; False says that it need not."""
    hca_names: tuple[str, ...] = ()
    """Adapters that must be among them."""
    network: bool = False
    """Every rank must use NCCL's own InfiniBand network or HPC-X's."""
    transport: Expectation | None = None
    """The transport that the data must have taken; None leaves it unproven."""
    floor_gb_s: float | None = None
    """The least bus bandwidth of rows of 1 GiB and more, or of the largest row, in GB/s."""
    floor_origin: str = ""
    members: Members | None = None
    correct: bool = False
    """The values must have been checked."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> NcclAsked:
        """From `version=2.19`, `topology=/opt/h100.xml`, `hcas=8`, `gdr`, `correct`.

        Raises:
            UsageError: A text asks for something else.
        """
        values = {name: value for name, _, value in (text.partition("=") for text in texts)}
        unknown = sorted(set(values) - {"version", "topology", "hcas", "gdr", "correct"})
        hcas = values.get("hcas")
        if unknown or (hcas is not None and not (hcas.isascii() and hcas.isdecimal())):
            wrong = unknown[0] if unknown else f"hcas={hcas}"
            raise UsageError(
                f"--must {wrong} asks for nothing that is known.\n"
                "  fix    use version=2.19, topology=/path/of/NCCL_TOPO_FILE, hcas=8, gdr,"
                " or correct."
            )
        return cls(
            min_version=values.get("version", ""),
            topology_file=values.get("topology", ""),
            hcas=None if hcas is None else int(hcas),
            gdr=True if "gdr" in values else None,
            correct="correct" in values,
        )


Judge = Callable[[NcclLog, str, NcclAsked], Finding | None]


def _judge_ranks(log: NcclLog, subject: str, asked: NcclAsked) -> Finding | None:
    """All planned ranks took part, evenly on the planned workers."""
    wanted = asked.members
    if wanted is None:
        return None
    hosts = frozenset(line.host for line in log.ranks)
    count = len({line.rank for line in log.ranks}) or log.nranks or 0
    right_hosts = hosts == wanted.workers if wanted.workers else len(hosts) == wanted.hosts
    right = count == wanted.ranks and right_hosts
    expected = f"{counted(wanted.ranks, 'rank')} on {counted(wanted.hosts, 'host')}"
    seen = f"{counted(count, 'rank')} on {counted(len(hosts), 'host')}"
    actual = f"{seen} ({', '.join(sorted(hosts))})"
    look = "look at the hostfile and the slots"
    return row("ranks", subject, verdict_for(right), expected, actual, look)


def _judge_rails(log: NcclLog, subject: str, asked: NcclAsked) -> Finding | None:
    """Every host's channels use as many devices as there are rails or adapters."""
    wanted = asked.members
    if wanted is None or not wanted.devices:
        return None
    used = log.channels.devices_by_host
    lacking = sorted(host for host, found in used.items() if len(found) < wanted.devices)
    actual = ", ".join(f"{len(found)} on {host}" for host, found in sorted(used.items()))
    verdict: Verdict = "error" if len(used) < wanted.hosts else "passed"
    expected = f"{wanted.devices} {wanted.what} in the channels of every host"
    loss = "a rail is missing on {}: look at its link and its VF"
    if wanted.what == "adapters":
        loss = "an adapter carries nothing on {}: look at its link"
    step = loss.format(", ".join(lacking) or "all hosts")
    verdict = "failed" if lacking else verdict
    return row("rails", subject, verdict, expected, actual or "no network channel", step)


def _judge_gdr(log: NcclLog, subject: str, asked: NcclAsked) -> Finding | None:
    """GPUDirect RDMA, where it is wanted; else how much of it there is."""
    if asked.gdr is not False:
        return judge_gdr(log, subject) if asked.gdr else None
    actual = f"{log.channels.gdr} of {log.channels.net_total} channels"
    return row("gpudirect", subject, "skipped", "not required", actual)


OF_ANY_PROGRAM: Final[tuple[Judge, ...]] = (
    lambda log, name, asked: judge_transport(log, name, asked.transport),
    lambda log, name, asked: (
        judge_version(log, name, asked.min_version) if asked.min_version else None
    ),
    lambda log, name, asked: (
        judge_network(log, name) if asked.network or asked.hcas is not None else None
    ),
    lambda log, name, asked: (
        judge_topology(log, name, asked.topology_file) if asked.topology_file else None
    ),
    lambda log, name, asked: (
        judge_hcas(log, name, asked.hcas, asked.hca_names) if asked.hcas is not None else None
    ),
    _judge_gdr,
)
"""What NCCL says of its way, whatever program it serves."""
CHECKS: Final[tuple[Judge, ...]] = (
    lambda log, name, _: judge_completeness(log, name),
    _judge_ranks,
    lambda log, name, asked: judge_correctness(log, name, must=asked.correct),
    *OF_ANY_PROGRAM,
    _judge_rails,
    lambda log, name, asked: (
        judge_busbw(log, name, asked.floor_gb_s, asked.floor_origin)
        if asked.floor_gb_s is not None
        else None
    ),
    lambda log, name, _: judge_warnings(log, name),
)
"""Each row judges one thing of one run, and is silent if that was not asked for."""


def judge_runs(log: NcclLog, subject: str, asked: NcclAsked) -> list[Finding]:
    """The findings of every run of a log, each under its own name."""
    runs = log.runs
    if len(runs) > 1 and _ran_together(runs):
        return [_separate(subject, sum(line.rank == 0 for run in runs for line in run.ranks))]
    found: list[Finding] = []
    for number, run in enumerate(runs, 1):
        name = subject if len(runs) == 1 else f"{subject}, run {number} of {len(runs)}"
        found += judge_run(run, name, asked)
    return found


def _ran_together(runs: Sequence[NcclLog]) -> bool:
    """Is it one launch of several programs that knew nothing of each other?

    Each has a single rank, or lists come before the tables of others.
    """
    ranks = [line.rank for run in runs for line in run.ranks]
    if len(ranks) > 1 and not any(ranks):
        return True
    waiting = [bool(run.ranks) and not run.rows for run in runs]
    strangers = [bool(run.rows) and not run.ranks and run.sizes is None for run in runs]
    return any(waiting) and any(strangers[waiting.index(True) :])


def judge_run(log: NcclLog, subject: str, asked: NcclAsked) -> list[Finding]:
    """The findings of one run; of one that failed, why; of one that is not whole, no more."""
    failures = [each for each in log.failures if not each.is_before_run]
    failure = find_failure(failures, subject)
    if failure is not None:
        failure = failure.because(_rail_of(log, first_cause(failures)) + failure.detail)
        return [_quoted(failure) if log.is_page else failure]
    found = {
        finding.check: finding
        for check in CHECKS
        if (finding := check(log, subject, asked)) is not None
    }
    completeness = found["completeness"]
    if completeness.verdict == "error" and found["correctness"].verdict != "failed":
        said = find_failure(log.failures or [_warned(line) for line in log.warnings], subject)
        if said and not log.has_footer:
            return [_quoted(said) if log.is_page else said]
        return [completeness]
    return [*found.values()]


def _rail_of(log: NcclLog, cause: LogFailure | None) -> str:
    """The number of the device in NCCL's list of its host, which is that of the rail."""
    hcas = [hca for host in log.hosts if cause and host.host == cause.host for hca in host.hcas]
    name = cause.device.partition(":")[0] if cause else ""
    return next((f"rail {hca.index} of NCCL's list, " for hca in hcas if hca.device == name), "")


def _quoted(failure: Finding) -> Finding:
    """A page that quotes lines of logs is no run that failed."""
    step = "judge the log itself: this is a document that quotes lines of one"
    return failure.model_copy(update={"verdict": "error", "next_step": step})


def _warned(line: str) -> LogFailure:
    """Of a run that did not end, a warning is its cause."""
    return LogFailure(kind="nccl_warning", line=line, meaning="NCCL warns")


def _separate(subject: str, count: int) -> Finding:
    actual = f"{count} separate runs with a rank 0 each"
    step = "take an nccl-tests that is built with MPI=1"
    found = row("completeness", subject, "failed", "one run over all ranks", actual, step)
    return found.because("the binary was built without MPI, or the launcher is not its own")
