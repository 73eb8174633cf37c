"""Judges evidence of acceptance. Pure: the same evidence always gives the same report.

A probe passes only when it ran, on the planned transport, with right values, at the speed that the
physical limit asks for, and with its bytes in the planned class at every hop. A good number on the
wrong path is a failure; what was not observed is not believed.
"""

from __future__ import annotations

from components.acceptance.evidence import Evidence, Limits, ProbeEvidence
from components.acceptance.judge_path import judge_losses, judge_path
from components.acceptance.log_model import NcclLog, PerftestLog
from components.acceptance.nccl_findings import (
    find_failure,
    judge_busbw,
    judge_completeness,
    judge_correctness,
    judge_transport,
)
from components.acceptance.perftest_findings import (
    find_perftest_failure,
    judge_average,
    judge_gid,
    judge_link,
    judge_perftest_completeness,
)
from components.acceptance.verdict import EXIT_CODES, Finding, Verdict, overall_verdict
from components.model.units import Frozen

_BITS = 8
ROCE_OVERHEAD_BYTES = 82
"""Ethernet, IPv4, UDP, BTH, ICRC and FCS of a full RoCE v2 packet on the wire."""


class Report(Frozen):
    """The judged evidence."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    evidence: Evidence

    @property
    def exit_code(self) -> int:
        """Of the gate: 0 passed, 1 failed, 4 could not judge."""
        return EXIT_CODES[self.verdict]

    @property
    def planned(self) -> int:
        """Probes that were planned."""
        return len(self.evidence.probes)

    def verdict_of(self, probe: str) -> Verdict:
        """The verdict of one probe."""
        return overall_verdict(item for item in self.findings if item.subject == probe)


def judge_evidence(evidence: Evidence, limits: Limits | None = None) -> Report:
    """Judges one run of acceptance.

    Args:
        evidence: What was seen.
        limits: What is expected; default those of the evidence, which are the plan's.
    """
    expected = limits or evidence.limits
    findings: list[Finding] = []
    warnings: list[Finding] = []
    for item in evidence.probes:
        found = judge_probe(item, expected)
        findings += found
        warnings += judge_losses(item)
    findings += [_judge_memlock(node, limit) for node, limit in sorted(evidence.memlock.items())]
    for device in evidence.unreachable:
        findings.append(
            Finding(
                check="reachable",
                subject=device.device,
                verdict="error",
                expected=f"an answer from {device.address}",
                actual=device.detail,
                next_step="mend the way to the device; paths through it are not proven",
            )
        )
    return Report(
        verdict=overall_verdict(findings),
        findings=tuple(findings),
        warnings=tuple(warnings),
        evidence=evidence,
    )


def _judge_memlock(node: str, limit: str) -> Finding:
    """RDMA pins its buffers: a pod with a limit fails at the first large registration."""
    good = limit == "unlimited"
    return Finding(
        check="memlock",
        subject=node,
        verdict="error" if limit.startswith("no answer") else _verdict(good),
        expected="ulimit -l unlimited in a pod",
        actual=limit,
        next_step=""
        if good
        else "the K3s unit runs without its LimitMEMLOCK drop-in: run pulumi up, or restart it",
    )


def judge_probe(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """All findings about one probe; a probe that did not run is not judged further."""
    name = item.probe.name
    ran = _judge_run(item)
    if ran.verdict != "passed":
        return [_with_place(ran, item)]
    if item.nccl is not None:
        found = _judge_nccl(item, item.nccl, limits)
    elif item.perftest is not None:
        found = _judge_perftest(item, item.perftest, limits)
    else:
        problem = item.problem.what if item.problem else "no log was kept"
        return [
            Finding(
                check="run",
                subject=name,
                verdict="error",
                expected=f"a log of {item.probe.kind}",
                actual=problem,
                next_step="read the pod's events and log",
            )
        ]
    return [ran, *found, *judge_path(item, limits)]


def pair_floor(limits: Limits, rail: str) -> tuple[float, str]:
    """The least average of `ib_write_bw` on a rail in Gb/s, and its origin in words."""
    rate = next((item.line_rate_gbit_s for item in limits.rails if item.name == rail), 0.0)
    ceiling = rate * limits.rdma_mtu_bytes / (limits.rdma_mtu_bytes + ROCE_OVERHEAD_BYTES)
    return (
        rate * limits.pair_fraction,
        (
            f"{limits.pair_fraction:g} x {rate:g} Gb/s line rate "
            f"(ceiling at RDMA MTU {limits.rdma_mtu_bytes}: {ceiling:.1f})"
        ),
    )


def nccl_floor(limits: Limits, rails: tuple[str, ...]) -> tuple[float, str]:
    """The least NCCL bus bandwidth over some rails in GB/s, and its origin in words."""
    used = [item for item in limits.rails if item.name in rails]
    total = sum(item.line_rate_gbit_s for item in used) / _BITS
    rates = " + ".join(f"{item.line_rate_gbit_s:g}" for item in used) or "0"
    return (
        total * limits.nccl_fraction,
        (
            f"{limits.nccl_fraction:g} x {total:g} GB/s, the line rate of {len(used)} rails "
            f"({rates} Gb/s)"
        ),
    )


def _judge_run(item: ProbeEvidence) -> Finding:
    name = item.probe.name
    failure = None
    if item.nccl is not None:
        failure = find_failure(item.nccl, name)
    elif item.perftest is not None:
        failure = find_perftest_failure(item.perftest, name)
    if failure is not None:
        return failure
    ended = item.outcome == "completed" and item.exit_code in (0, None)
    if ended:
        took = f"completed in {item.duration_s:.1f} s" if item.duration_s else "completed"
        return Finding(
            check="run", subject=name, verdict="passed", expected="a run to its end", actual=took
        )
    code = f", exit code {item.exit_code}" if item.exit_code else ""
    last = next((line for line in reversed(item.log_tail) if line.strip()), "")
    return Finding(
        check="run",
        subject=name,
        verdict="error" if item.outcome == "not_run" else "failed",
        expected="a run to its end",
        actual=f"{item.outcome.replace('_', ' ')}{code}",
        detail=item.detail or (f"last line: {last}" if last else "it printed nothing"),
        next_step="read the events of its pods: is a resource or an image missing?",
    )


def _with_place(ran: Finding, item: ProbeEvidence) -> Finding:
    """Names the hop that dropped packets while the probe failed, if one did."""
    places = sorted({hop.place for hop in item.hops if hop.discards})
    if not places:
        return ran
    where = ", ".join(places)
    return ran.model_copy(
        update={
            "detail": f"packets were discarded at {where}; {ran.detail}",
            "next_step": f"look at MTU and errors of {where}",
        }
    )


def _judge_nccl(item: ProbeEvidence, log: NcclLog, limits: Limits) -> list[Finding]:
    name = item.probe.name
    completeness = judge_completeness(log, name)
    if completeness.verdict == "error":
        return [completeness]
    floor, origin = nccl_floor(limits, item.probe.rails)
    return [
        completeness,
        _judge_ranks(item, log),
        judge_correctness(log, name),
        judge_transport(log, name, limits.transport),
        _judge_rails(item, log),
        _judge_gdr(item, log, limits),
        judge_busbw(log, name, floor, origin),
    ]


def _judge_perftest(item: ProbeEvidence, log: PerftestLog, limits: Limits) -> list[Finding]:
    name = item.probe.name
    completeness = judge_perftest_completeness(log, name)
    if completeness.verdict == "error":
        return [completeness]
    floor, origin = pair_floor(limits, item.probe.rails[0] if item.probe.rails else "")
    mtu = log.mtu_bytes
    return [
        completeness,
        judge_link(log, name, limits.transport),
        judge_gid(log, name),
        Finding(
            check="mtu",
            subject=name,
            verdict="error" if mtu is None else _verdict(mtu == limits.rdma_mtu_bytes),
            expected=f"RDMA MTU {limits.rdma_mtu_bytes}",
            actual="not shown" if mtu is None else str(mtu),
            next_step=""
            if mtu == limits.rdma_mtu_bytes
            else "look at the MTU of VF, PF and switch port",
        ),
        judge_average(log, name, floor, origin),
    ]


def _judge_ranks(item: ProbeEvidence, log: NcclLog) -> Finding:
    """All planned ranks took part, evenly on the planned workers."""
    hosts = {line.host for line in log.ranks}
    count = len({line.rank for line in log.ranks}) or log.nranks or 0
    wanted = item.probe.ranks
    workers = set(item.probe.workers)
    right_hosts = hosts == workers if workers else len(hosts) == len(item.probe.nodes)
    return Finding(
        check="ranks",
        subject=item.probe.name,
        verdict=_verdict(count == wanted and right_hosts),
        expected=f"{wanted} ranks on {len(item.probe.nodes)} hosts",
        actual=f"{count} ranks on {len(hosts)} hosts ({', '.join(sorted(hosts))})",
        next_step="" if count == wanted and right_hosts else "look at the hostfile and the slots",
    )


def _judge_rails(item: ProbeEvidence, log: NcclLog) -> Finding:
    """Every host's channels use as many devices as there are rails."""
    used = log.channels.devices_by_host
    wanted = len(item.probe.rails)
    lacking = {host: found for host, found in used.items() if len(found) < wanted}
    verdict: Verdict = "error" if not used else _verdict(not lacking)
    actual = ", ".join(f"{len(found)} on {host}" for host, found in sorted(used.items()))
    return Finding(
        check="rails",
        subject=item.probe.name,
        verdict=verdict,
        expected=f"{wanted} rails in the channels of every host",
        actual=actual or "no network channel",
        next_step=""
        if verdict == "passed"
        else f"a rail is missing on {', '.join(sorted(lacking)) or 'all hosts'}: "
        "look at its link and its VF",
    )


def _judge_gdr(item: ProbeEvidence, log: NcclLog, limits: Limits) -> Finding:
    total, gdr = log.channels.net_total, log.channels.gdr
    verdict: Verdict = "skipped"
    if limits.require_gdr:
        verdict = "error" if not total else _verdict(gdr == total)
    return Finding(
        check="gpudirect",
        subject=item.probe.name,
        verdict=verdict,
        expected="GDRDMA on all network channels" if limits.require_gdr else "not required",
        actual=f"{gdr} of {total} channels",
        next_step="load nvidia_peermem on every worker; look at NCCL_NET_GDR_LEVEL"
        if verdict == "failed"
        else "",
    )


def _verdict(is_right: bool) -> Verdict:  # noqa: FBT001 - the one place where a truth becomes a word
    return "passed" if is_right else "failed"
