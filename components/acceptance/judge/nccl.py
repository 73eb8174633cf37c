"""Judges a log of NCCL: ranks, transport, adapters and speed, for the gate and `railyard judge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from components.acceptance.evidence import Limits, Probe, ProbeEvidence
from components.acceptance.judge import nccl_findings
from components.acceptance.judge import verdict as verdicts
from components.acceptance.judge.verdict import Finding, find_failure, row
from components.acceptance.logs.lines import first_cause
from components.acceptance.logs.log_model import LogFailure, NcclLog, ParseProblem
from components.core.errors import UsageError
from components.core.plain_text import counted
from components.core.record import record, replace

NVLINK_FRACTION: Final = 0.6
"""Least bus bandwidth of one host over all NVLinks of a GPU: 480 of 478 GB/s are seen on eight H100
with NVLS, 338 of 478 on two H200 without it (recorded), 235 of 300 on eight A100 (facts in
lab/sources.md#acceptance), and a DGX-1's mesh, where not every GPU has a link to every
other, comes to less."""
_BITS = 8
ALLTOALL_SHARE = 0.70
"""Share of the adapters' rate: every rank talks to every other at once, and switches between hosts
see the worst of traffic patterns. lab/sources.md#acceptance marks it as a choice."""


@record
class Members:
    """Who must take part."""

    ranks: int
    hosts: int
    devices: int
    """How many network devices the channels of each host must use; 0 for any."""
    what: str = "rails"
    """The kind of these devices: `rails` or `adapters`."""


@record
class NcclAsked:
    """The things that a log of NCCL must show; a field that is None or empty demands nothing."""

    min_version: str = ""
    """Least release, for example `2.19`."""
    topology_file: str = ""
    """The value that NCCL_TOPO_FILE must have on every rank."""
    hcas: int | None = None
    """InfiniBand adapters of every host, with relaxed ordering."""
    gdr: bool | None = None
    """Every network channel must be GDRDMA; False does not require it."""
    hca_names: tuple[str, ...] = ()
    network: bool = False
    """Every rank must use NCCL's own InfiniBand network or HPC-X's."""
    transport: nccl_findings.Expectation | None = None
    """The transport that the data must have taken; None leaves it unproven."""
    floor_gb_s: float | None = None
    """The least bus bandwidth of rows of 1 GiB and more, or of the largest row, in GB/s."""
    floor_origin: str = "--min-busbw"
    members: Members | None = None
    correct: bool = False

    @classmethod
    def of(cls, texts: Sequence[str]) -> NcclAsked:
        """From `version=2.19`, `topology=/h100.xml`, `hcas=8`, `gdr`, `correct`; or UsageError."""
        values = {name: value for name, _, value in (text.partition("=") for text in texts)}
        unknown = sorted(set(values) - {"version", "topology", "hcas", "gdr", "correct"})
        hcas = values.get("hcas")
        if unknown or (hcas is not None and not (hcas.isascii() and hcas.isdecimal())):
            wrong = unknown[0] if unknown else f"hcas={hcas}"
            raise UsageError(
                f"--must {wrong}: unknown requirement.\n"
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


def judge_framework(log: NcclLog | ParseProblem | None, asked: NcclAsked) -> Iterator[Finding]:
    """Judge the transport that NCCL reports, in a log of any program."""
    if not isinstance(log, NcclLog):
        why = "the log lacks NCCL's lines; run with NCCL_DEBUG=INFO"
        wanted = asked.transport or "a transport"
        yield row("no transport", "error", "not shown", why, wanted=wanted)
        return
    yield nccl_findings.judge_transport(log, asked.transport)
    if asked.min_version:
        yield nccl_findings.judge_version(log, asked.min_version)
    if asked.network or asked.hcas is not None:
        yield nccl_findings.judge_network(log)
    if asked.topology_file:
        yield nccl_findings.judge_topology(log, asked.topology_file)
    if asked.hcas is not None:
        yield nccl_findings.judge_hcas(log, asked.hcas, asked.hca_names)
    if asked.gdr:
        yield nccl_findings.judge_gdr(log)
    elif asked.gdr is not None:
        actual = f"{log.channels.gdr} of {log.channels.net_total} channels"
        yield row("gpudirect not required", "skipped", actual)


def judge_runs(log: NcclLog, subject: str, asked: NcclAsked) -> list[Finding]:
    """The findings of every run of a log, each under its own name.

    One launch may have started several programs that did not find each other. Then each has a
    single rank, or one prints its rank list before the tables of another.
    """
    ranks = [line.rank for run in log.runs for line in run.ranks]
    waiting = [bool(run.ranks) and not run.rows for run in log.runs]
    strangers = [bool(run.rows) and not run.ranks and run.sizes is None for run in log.runs]
    apart = any(waiting) and any(strangers[waiting.index(True) :])
    if len(log.runs) > 1 and (apart or (len(ranks) > 1 and not any(ranks))):
        actual = f"{ranks.count(0)} separate runs with a rank 0 each"
        why = "the binary was built without MPI, or the launcher is not its own"
        return [row("one nccl run", "failed", actual, why).about(subject)]
    runs = verdicts.name_runs(log.runs, subject)
    return [found.about(name) for name, run in runs for found in judge_run(run, asked)]


def judge_run(log: NcclLog, asked: NcclAsked) -> list[Finding]:
    """The findings of one run: if it failed, the reason; if it is incomplete, only that."""
    failures = [each for each in log.failures if not each.is_before_run]
    failure = find_failure(failures)
    if failure is not None:
        cause = first_cause(failures)
        name, host = (cause.device.partition(":")[0], cause.host) if cause else ("", "")
        # The number of a device in NCCL's list of its host is that of the rail.
        hcas = (hca for each in log.hosts if each.host == host for hca in each.hcas)
        rail = next((f"rail {it.index} of NCCL's list, " for it in hcas if it.device == name), "")
        return [_unless_quoted(failure.because(rail + failure.detail), log)]
    whole = nccl_findings.judge_completeness(log)
    correct = nccl_findings.judge_correctness(log, must=asked.correct)
    if whole.verdict == "error" and correct.verdict != "failed":
        # Of a run that did not end, a warning is its cause.
        kind, meaning = "nccl_warning", "NCCL warns"
        warnings = [LogFailure(kind=kind, line=line, meaning=meaning) for line in log.warnings]
        said = find_failure(log.failures or warnings)
        return [_unless_quoted(said, log) if said and not log.has_footer else whole]
    members, ranks = asked.members, list[Finding]()
    rest = [*judge_framework(log, asked)]
    if members:
        hosts = sorted({line.host for line in log.ranks})
        count = len({line.rank for line in log.ranks}) or log.nranks or 0
        verdict = verdicts.verdict_for((count, len(hosts)) == (members.ranks, members.hosts))
        actual = f"{counted(count, 'rank')} on {counted(len(hosts), 'host')} ({', '.join(hosts)})"
        wanted = {"ranks": counted(members.ranks, "rank"), "hosts": counted(members.hosts, "host")}
        ranks.append(row("ranks", verdict, actual, **wanted))
    if members and members.devices:
        used = log.channels.devices_by_host
        lacking = sorted(host for host, found in used.items() if len(found) < members.devices)
        actual = ", ".join(f"{len(found)} on {host}" for host, found in sorted(used.items()))
        unseen: verdicts.Verdict = "error" if len(used) < members.hosts else "passed"
        values = {"where": ", ".join(lacking) or "all hosts", "count": str(members.devices)}
        rest.append(row(members.what, "failed" if lacking else unseen,
                        actual or "no network channel", what=members.what, **values))  # fmt: skip
    if asked.floor_gb_s is not None:
        rest.append(nccl_findings.judge_busbw(log, asked.floor_gb_s, asked.floor_origin))
    warned = nccl_findings.judge_warnings(log)
    return [whole, *ranks, correct, *rest, *([warned] if warned else ())]


def _unless_quoted(failure: Finding, log: NcclLog) -> Finding:
    """A page that quotes lines of logs is not a failed run."""
    step = "judge the log itself: this is a document that quotes lines of one"
    quoted = {"verdict": "error", "next_step": step}
    return failure.model_copy(update=quoted) if log.is_page else failure


def judge_nccl(item: ProbeEvidence, log: NcclLog, limits: Limits) -> list[Finding]:
    """All findings about one collective that ran to its end."""
    probe = item.probe
    if log.other_runs:
        return [row("one run in a log", "error", f"{len(log.runs)} runs in one log")]
    floor, origin = nccl_floor(limits, probe)
    members = members_of(limits, probe)
    asked = replace(asked_of(limits), floor_gb_s=floor, floor_origin=origin, members=members)
    above = nccl_findings.judge_ceiling(log, nccl_limit(limits, probe), len(probe.nodes))
    return [*judge_run(log, asked), *([above] if above else ())]


def members_of(limits: Limits, probe: Probe) -> Members:
    """Who must take part in a planned collective."""
    what = "adapters" if limits.hcas else "rails"
    return Members(probe.ranks, len(probe.nodes), limits.hcas or len(probe.rails), what)


def judge_load(item: ProbeEvidence, log: NcclLog, nvlink_gbyte_s: float) -> list[Finding]:
    """All findings about a collective between the GPUs of one host.

    `nvlink_gbyte_s` is the rate of all NVLinks of its slowest GPU; 0 demands no speed.
    """
    floor = NVLINK_FRACTION * nvlink_gbyte_s
    asked = NcclAsked(
        transport="nvlink" if floor else None,
        floor_gb_s=floor or None,
        floor_origin=f"{NVLINK_FRACTION:g} x {nvlink_gbyte_s:g} GB/s of NVLink",
        members=Members(item.probe.ranks, hosts=1, devices=0),
    )
    return judge_run(log, asked)


def asked_of(limits: Limits) -> NcclAsked:
    """The plan's demands on every log of NCCL, whatever its probe."""
    return NcclAsked(
        min_version=limits.nccl_min_version,
        topology_file=limits.topology_file,
        hcas=limits.hcas or None,
        hca_names=limits.hca_names,
        network=limits.transport == "ib",
        gdr=limits.require_gdr,
        transport=limits.transport,
    )


def warn_nccl(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """Warn about a collective that is fast enough but slower than others."""
    if item.nccl is None or item.probe.kind != "nccl":
        return []
    slow = None
    # alltoall has a ceiling of its own, which the number in the file does not mean.
    if limits.nccl_warn_gb_s and item.probe.collective != "alltoall":
        slow = nccl_findings.judge_pace(item.nccl, limits.nccl_warn_gb_s)
    return [*([slow] if slow else ()), *nccl_findings.warn_stragglers(item.nccl)]


def _node_rate(limits: Limits, probe: Probe) -> tuple[float, str]:
    """The rate of all rails or adapters of one host in GB/s, and the sum in words."""
    if limits.transport == "ib":
        rate, count = limits.hca_rate_gbit_s, limits.hcas
        return rate * count / _BITS, f"{count} adapters ({count} x {rate:g} Gb/s)"
    used = [
        probe.rates.get(item.name, item.line_rate_gbit_s)
        for item in limits.rails
        if item.name in probe.rails
    ]
    rates = " + ".join(f"{rate:g}" for rate in used) or "0"
    return sum(used) / _BITS, f"{len(used)} rails ({rates} Gb/s)"


def nccl_floor(limits: Limits, probe: Probe) -> tuple[float, str]:
    """The least bus bandwidth of a probe in GB/s, and its origin in words."""
    total, of_what = _node_rate(limits, probe)
    if probe.collective == "alltoall":
        ceiling = nccl_limit(limits, probe)
        return ceiling * ALLTOALL_SHARE, (
            f"{ALLTOALL_SHARE:g} x {ceiling:.2f} GB/s: the share of one rank in {total:g} GB/s, "
            f"the line rate of {of_what}, when its peers on other hosts share it"
        )
    if limits.nccl_floor_gb_s is not None:
        return limits.nccl_floor_gb_s, limits.nccl_floor_source
    share = limits.nccl_fraction
    return total * share, f"{share:g} x {total:g} GB/s, the line rate of {of_what}"


def nccl_limit(limits: Limits, probe: Probe) -> float:
    """The bus bandwidth that the links of one host allow, in GB/s.

    That of alltoall is the bandwidth of one rank, and only part of its peers is far away.
    """
    total, _ = _node_rate(limits, probe)
    if probe.collective != "alltoall":
        return total
    here = probe.ranks / max(len(probe.nodes), 1)
    away = probe.ranks - here
    return total * (probe.ranks - 1) / (away * here) if away else 0.0
