"""Judges evidence of acceptance. Pure: the same evidence always gives the same report.

A probe passes only when it ran, on the planned transport, with right values, at the speed that the
physical limit asks for, and with its bytes in the planned class at every hop. A good number on the
wrong path is a failure; an unobserved value proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Final

from components.acceptance import evidence as proofs
from components.acceptance.evidence import Evidence, Limits, Probe, ProbeEvidence, RailLimit
from components.acceptance.judge import path, perftest_findings, workload_findings
from components.acceptance.judge import verdict as verdicts
from components.acceptance.judge.culprit import Suspect, judge_pairs
from components.acceptance.judge.infiniband import judge_ib, warn_ib
from components.acceptance.judge.nccl import judge_nccl, warn_nccl
from components.acceptance.judge.verdict import Finding, Verdict, overall_verdict, row, verdict_for
from components.acceptance.logs.log_model import PerftestLog, Seen
from components.acceptance.logs.perftest import NOT_READY
from components.acceptance.probes.probe_plan import is_telling

_IDLE_SPREAD_SHARE: Final = 0.01
"""Fraction of an even share below which a link is idle: other traffic such as BGP may cause it."""
_UNSEEN: Final = "not observed"
_IDLE_SHARE = 0.5
"""Some channels left out an adapter with less than half of its even share."""
TAKEN: Final = ("busy: ", "cordoned: ", "tainted: ")
"""Prefixes of the reason if others use a probe's nodes, or if they are closed."""
NOT_ASKED: Final = "not asked for: "
_SEPARATE: Final = "look at the VLANs of both ports, and for a router between the two subnets"
_NO_WAY: Final = frozenset({"no_route", "control_connection"})
ROCE_OVERHEAD_BYTES = 82
"""Ethernet, IPv4, UDP, BTH, ICRC and FCS of a full RoCE v2 packet on the wire."""


def warn_spread(item: ProbeEvidence) -> list[Finding]:
    """Warnings: the links that carried nothing of a test of many connections."""
    lost = {(seen.device, seen.where) for seen in item.routing if seen.kind == "lost"}
    uplinks = [
        hop
        for hop in item.hops
        if hop.role == "uplink_egress" and (hop.device, f"port {hop.interface}") not in lost
    ]
    found, flows = list[Finding](), item.probe.flows
    for (rail, direction), group in groupby(uplinks, key=lambda hop: (hop.rail, hop.direction)):
        hops = list(group)
        seen = all(hop.status == "observed" and hop.total_bytes is not None for hop in hops)
        if item.outcome != "completed" or not seen or not is_telling(flows, len(hops)):
            continue
        total = sum(hop.total_bytes or 0 for hop in hops)
        values = {"where": f"{rail}, {direction}", "flows": flows, "links": len(hops)}
        least = total / len(hops) * _IDLE_SPREAD_SHARE
        for hop in (hop for hop in hops if (hop.total_bytes or 0) < least):
            actual = (
                f"{path.show_size(hop.total_bytes or 0)} of {path.show_size(total)} at {hop.place}"
            )
            why = f"{hop.place} carried none of {flows} connections, though its session is up"
            found.append(row("spread", "failed", actual, why, **values))
    return found


def judge_causes(
    evidence: Evidence, judged: Sequence[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """Judge foreign settings and lost routes: those that may explain a failure, and warnings.

    The probes of a warning passed nevertheless, without congestion or by other links.
    """
    bad = [each for each in judged if each.verdict in {"failed", "error"}]
    found: tuple[list[Finding], list[Finding]] = ([], [])
    devices: dict[str, set[str]] = {}
    over: dict[proofs.ForeignSettingSeen | proofs.RoutingSeen, set[str]] = {}
    for item in evidence.probes:
        for device in (*item.probe.nodes, *(hop.device for hop in item.hops)):
            devices.setdefault(device, set()).add(item.probe.name)
        for seen in item.routing:
            over.setdefault(seen, set()).add(item.probe.name)
    beside = [(seen, devices.get(seen.device, set[str]())) for seen in evidence.beside or ()]
    for seen, probes in (*beside, *over.items()):
        wrong = [each for each in bad if each.subject in probes]
        names = ", ".join(dict.fromkeys(each.subject for each in wrong))
        why = f"it may be why these did not pass: {names}" if names else ""
        verdict = overall_verdict(wrong) if wrong else "failed"
        if isinstance(seen, proofs.RoutingSeen):
            why = why or "the probes took other links"
            cause = row("routing", verdict, seen.what, why, where=seen.where, fix=seen.fix)
        else:
            actual = f"{seen.actual}; outside the plan, and it breaks {seen.breaks}"
            why = f"as the update found it before it began{'; ' if why else ''}{why}"
            wanted = f"{seen.setting} {seen.harmless}"
            cause = row("beside", verdict, actual, why, wanted=wanted, fix=seen.fix)
        found[not wrong].append(cause.about(seen.device))
    return found


def judge_fabric(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per worker and direction of InfiniBand, whose bytes must use all adapters.

    A cloud hides the switches of its fabric, and InfiniBand has no DSCP: no class can be wrong. The
    adapters' own counters prove that no adapter was idle while others did its share.
    """
    hops = sorted(item.hops, key=lambda hop: hop.direction)
    if not hops:
        why = "no counter was read"
        return [row("unread adapters", "error", _UNSEEN, why, where="every worker")]
    if {*item.probe.rails} & {*item.probe.rates}:  # through one adapter
        limits = limits.model_copy(update={"hcas": 1})
        both = proofs.has_two_directions(item.probe)
        hops = [hop for hop in hops if both or not proofs.sends_back(item.probe, hop.direction)]
    found: list[Finding] = []
    for where, group in groupby(hops, key=lambda hop: hop.direction):
        own = list(group)
        if all(hop.status == "no_login" for hop in own):
            found.append(row("dark adapters", "skipped", path.DARK, where=where))
        elif blind := next((hop for hop in own if hop.status != "observed"), None):
            why = f"{blind.device}: {blind.detail or _UNSEEN}"
            found.append(row("unread adapters", "error", _UNSEEN, why, where=where))
        else:
            wanted = path.sent_bytes(item, back=proofs.sends_back(item.probe, where))
            total = sum(hop.total_bytes or 0 for hop in own)
            share = max(total, wanted.least) / max(limits.hcas, 1) * _IDLE_SHARE
            busy = [hop for hop in own if (hop.total_bytes or 0) >= max(share, 1)]
            verdict = "failed" if len(busy) < limits.hcas else path.judge_amount(wanted, total)
            lazy = ", ".join(hop.interface for hop in own if hop not in busy)
            actual = f"{path.show_size(total)} through {len(busy)}"
            why = f"adapters without their share: {lazy}" if lazy and verdict != "passed" else ""
            values = {"where": where, "sent": wanted.text, "count": str(limits.hcas)}
            found.append(row("adapter counters", verdict, actual, why, **values))
    return found


class Report(Seen):
    """The judged evidence."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    suspects: tuple[Suspect, ...] = ()
    """The parts that most likely made tests between pairs bad."""
    evidence: Evidence

    @property
    def exit_code(self) -> int:
        """Of the gate: 0 passed, 1 failed, 4 could not judge."""
        return verdicts.EXIT_CODES[self.verdict]

    @property
    def gate_code(self) -> int:
        """Of the gate in an update: hosts in use by others stop it unless `when_busy` is `warn`.

        The site itself chose to leave out a part, or to end without time for it.
        """
        skipped = (item.detail for item in self.evidence.probes if item.outcome == "skipped")
        taken = any(detail.startswith(TAKEN) for detail in skipped)
        stops = taken and self.evidence.when_busy != "warn"
        return 0 if self.verdict == "skipped" and not stops else self.exit_code

    @property
    def planned(self) -> int:
        """The number of planned probes."""
        return len(self.evidence.probes)

    def verdict_of(self, probe: str) -> Verdict:
        """The verdict of one probe."""
        return overall_verdict(self.about(probe))

    def about(self, subject: str) -> tuple[Finding, ...]:
        """The findings about one probe, host or device, in their order."""
        return tuple(self._by_subject.get(subject, ()))

    def measure_of(self, probe: str) -> Finding | None:
        """The finding with the measured value of one probe."""
        return next((each for each in self.about(probe) if each.check in verdicts.MEASURES), None)

    @cached_property
    def _by_subject(self) -> Mapping[str, Sequence[Finding]]:
        """Sorted once: a report asks several times of each of thousands of probes."""
        found: dict[str, list[Finding]] = {}
        for item in self.findings:
            found.setdefault(item.subject, []).append(item)
        return found


def judge_evidence(evidence: Evidence, limits: Limits | None = None) -> Report:
    """Judges one run of acceptance, by default with the limits of its evidence: the plan's."""
    expected = limits or evidence.limits
    findings, warnings = list[Finding](), list[Finding]()
    for item in path.split_shared(evidence.probes, expected):
        findings += judge_probe(item, expected)
        warned = path.judge_losses(item, expected.priority, expected.losses)
        warned += path.warn_pauses(item, expected) + warn_nccl(item, expected) + warn_spread(item)
        warnings += (each.about(item.probe.name) for each in warned)
    skipped = [each.detail for each in evidence.probes if each.outcome == "skipped"]
    never_asked = sum(each.startswith(NOT_ASKED) for each in skipped) == len(evidence.probes) > 0
    # RDMA pins its buffers: a pod with a limit fails at the first large registration.
    for node, limit in sorted(evidence.memlock.items()):
        right = "error" if limit.startswith("no answer") else verdict_for(limit == "unlimited")
        findings.append(row("memlock", right, limit).about(node))
    if not never_asked:
        # Exactly the planned resources: without one pods stay Pending, and a surplus fails.
        for node, wanted in sorted(expected.allocatable.items()):
            offered = evidence.allocatable.get(node)
            seen = {name: (offered or {}).get(name, 0) for name in wanted}
            right = "error" if offered is None else verdict_for(seen == {**wanted})
            actual = "not read" if offered is None else _amounts(seen)
            findings.append(row("allocatable", right, actual, wanted=_amounts(wanted)).about(node))
        findings += judge_ib(evidence.ib, expected.ib)
        findings += verdicts.judge_groups(evidence, expected, findings)
        warnings += warn_ib(evidence.ib, expected.ib)
    slow, suspects = judge_pairs(evidence.probes, findings, expected)
    findings += slow + [
        row("reachable", "error", each.detail, address=each.address).about(each.device)
        for each in evidence.unreachable
    ]
    causes, harmless = judge_causes(evidence, findings)
    findings += causes
    warnings += harmless
    verdict = overall_verdict(findings)
    if verdict == "passed" and skipped:  # the site stays unproven
        verdict = "skipped"
    elif verdict == "skipped" and not skipped:  # no probe was planned
        verdict = "error"
    return Report(
        verdict=verdict,
        findings=tuple(findings),
        warnings=tuple(warnings),
        suspects=suspects,
        evidence=evidence,
    )


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(resources.items())) or "nothing"


def judge_probe(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """All findings about one probe; a probe that did not run is not judged further."""
    name, ran = item.probe.name, _judge_run(item)
    if item.probe.refused and ran.verdict != "skipped":
        one, other = item.probe.rails
        logs = item.perftest.runs if item.perftest else ()
        kinds = {failure.kind for log in logs for failure in log.failures}
        # A missing address or route proves the separation; other faults of the client do not.
        is_refused = kinds & _NO_WAY and kinds <= NOT_READY
        rejects, asked = "a host there answered, and rejected the connection", ("", _SEPARATE)
        verdict, (actual, (why, step)) = verdicts.first_rule(
            (ran.verdict == "passed", "failed", ("the test ran", asked)),
            ("rejected" in kinds, "failed", (rejects, asked)),
            (is_refused, "passed", ("refused", asked)),
            (True, "error", (ran.actual, (ran.detail, ran.next_step))),
        )
        judged = row("separation", verdict, actual, why, one=one, other=other, step=step)
        return [judged.about(name)]
    if ran.verdict != "passed":
        if where := ", ".join(sorted({hop.place for hop in item.hops if hop.discards})):
            why, step = f"packets were discarded at {where}", f"look at MTU and errors of {where}"
            ran = ran.model_copy(update={"detail": f"{why}; {ran.detail}", "next_step": step})
        seen = (
            workload_findings.judge_node(item.model_copy(update={"nccl": None}), item.node)
            if item.node
            else []
        )
        found = [path.name_paused(ran, item, limits), *seen]
    else:
        judged = _judge_log(item, limits)
        if judged is None:
            problem = item.problem.what if item.problem else "no log was kept"
            return [row("no log", "error", problem, kind=item.probe.kind).about(name)]
        found, claimed = [ran], path.claimed_s(item)
        # A table whose rows took longer than the job comes from another run; both are rounded.
        if item.duration_s and claimed > item.duration_s * 1.01 + 0.1:
            took, seconds = f"its rows took {claimed:.1f} s", item.duration_s
            found.append(row("duration", "failed", took, seconds=seconds))
        found += (path.name_paused(each, item, limits) for each in judged)
        if item.probe.kind not in ("image", "node", "mpi_hosts", "mpi_gpus"):  # they send no bytes
            judge_way = judge_fabric if limits.transport == "ib" else path.judge_path
            found += judge_way(item, limits)
    found += path.judge_storms(item, limits) + path.fail_losses(item, limits)
    return [each if each.subject else each.about(name) for each in found]


def _judge_log(item: ProbeEvidence, limits: Limits) -> list[Finding] | None:
    found: list[Finding] | None = None
    if item.image is not None:
        found = workload_findings.judge_image(item, item.image)
    elif item.node is not None:
        found = workload_findings.judge_node(item, item.node)
    elif item.deepspeed is not None:
        found = workload_findings.judge_scan(item, item.deepspeed, limits)
    elif item.training is not None:
        found = workload_findings.judge_training(item, item.training, limits)
    elif item.mpi is not None:
        found = workload_findings.judge_mpi(item, item.mpi)
    elif item.nccl is not None:
        found = judge_nccl(item, item.nccl, limits)
    elif item.perftest is not None:
        found = judge_perftest(item, item.perftest, limits)
    return found


def _judge_run(item: ProbeEvidence) -> Finding:
    if item.outcome == "skipped":
        return row("skipped run", "skipped", item.detail)
    logs = [*(item.nccl.runs if item.nccl else ()), *(item.perftest.runs if item.perftest else ())]
    logs += [log for log in (item.deepspeed, item.training, item.mpi) if log]
    failure = verdicts.find_failure([failure for log in logs for failure in log.failures])
    if failure is not None:
        return failure
    if item.outcome == "completed":
        took = f"completed in {item.duration_s:.1f} s" if item.duration_s else "completed"
        return row("run", "passed", took)
    last = next((line for line in reversed(item.log_tail) if line.strip()), "")
    verdict = "error" if item.outcome == "not_run" else "failed"
    why = item.detail or (f"last line: {last}" if last else "it printed nothing")
    return row("run", verdict, item.outcome.replace("_", " "), why)


def judge_perftest(item: ProbeEvidence, log: PerftestLog, limits: Limits) -> list[Finding]:
    """All findings about one perftest that ran to its end."""
    floor, origin = pair_floor(limits, item.probe)
    rail = _rail(limits, item.probe)
    mtu = None if limits.transport == "ib" else limits.rdma_mtu_on(item.probe.rails)
    asked = perftest_findings.PerftestAsked(limits.transport, floor, origin, mtu, rail=rail)
    if not item.probe.tools:
        return perftest_findings.judge_perftest_runs(log, item.probe.name, asked)
    found: list[Finding] = []
    for number, tool in enumerate(item.probe.tools):
        run = log.runs[number] if number < len(log.runs) else PerftestLog()
        own = replace(asked, floor_gbit_s=None, most_tail_us=limits.latency_tail_us)
        rows = perftest_findings.judge_perftest_run(run, own if tool.endswith("_lat") else asked)
        _, verb, what = tool.split("_")
        kind = "BW" if what == "bw" else "Latency"
        if not (verb.capitalize() in run.test and kind in run.test):
            rows.append(row("tool", "error", run.test or "no output of it", tool=tool))
        found += [each.model_copy(update={"expected": f"{tool}: {each.expected}"}) for each in rows]
    return found


def _rail(limits: Limits, probe: Probe) -> RailLimit | None:
    """The rail of a perftest, with the line rate that its two hosts have."""
    name = probe.rails[0] if probe.rails else ""
    found = next((each for each in limits.rails if each.name == name), None)
    rate = probe.rates.get(name)
    if rate and found:
        return found.model_copy(update={"line_rate_gbit_s": rate})
    return RailLimit(name=name, line_rate_gbit_s=rate) if rate else found


def pair_floor(limits: Limits, probe: Probe) -> tuple[float, str]:
    """The least average of `ib_write_bw` on a probe's rail in Gb/s, and its origin in words."""
    rail = _rail(limits, probe)
    rate = rail.line_rate_gbit_s if rail else 0.0
    mtu = limits.rdma_mtu_on(probe.rails)
    ceiling = rate * mtu / (mtu + ROCE_OVERHEAD_BYTES)
    share = f"{limits.pair_fraction:g} x {rate:g} Gb/s line rate"
    return rate * limits.pair_fraction, f"{share} (ceiling at RDMA MTU {mtu}: {ceiling:.1f})"
