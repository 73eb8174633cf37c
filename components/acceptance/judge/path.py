"""Judges where a probe's bytes went: the class at every hop of the path, and what was lost.

A probe between two idle nodes runs at full speed in the wrong class too; only the counters show it.
"""

from __future__ import annotations

from itertools import groupby

from components.acceptance.evidence import Hop, Limits, ProbeEvidence
from components.acceptance.judge.verdict import Finding
from components.acceptance.logs.log_model import NcclLog
from components.acceptance.logs.nccl_factor import bus_factor

_READ = ("observed", "uncounted")
_ROLES = ("sender_nic", "switch_ingress", "switch_egress", "receiver_nic")
LEAST_SHARE_SEEN = 0.9
"""Of the bytes that the log says were sent: counters read some seconds apart miss none of them."""
_SCAN_TRIALS = 50
"""Default of DeepSpeed's benchmarks; their warm-up runs come on top."""
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_WARNED = (
    ("discards", "no packet discarded"),
    ("out_of_sequence", "no packet out of sequence"),
    ("pause_frames", "no pause frame"),
)


def judge_path(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per rail and direction; the first wrong hop names the fault."""
    if limits.priority is None:
        return []
    if not item.hops:
        return [_unproven(item, "all rails", "no counter was read")]
    hops = sorted(item.hops, key=lambda hop: (hop.rail, hop.direction))
    findings: list[Finding] = []
    for (rail, direction), group in groupby(hops, key=lambda hop: (hop.rail, hop.direction)):
        findings.append(_judge_direction(item, f"{rail}, {direction}", list(group), limits))
    seen = {hop.rail for hop in hops}
    findings += [
        _unproven(item, rail, "no counter was read")
        for rail in item.probe.rails
        if rail not in seen
    ]
    return findings


def judge_losses(item: ProbeEvidence) -> list[Finding]:
    """Warnings: discards, packets out of sequence, pauses. They do not fail a probe."""
    return [
        Finding(
            check=name,
            subject=item.probe.name,
            verdict="failed",
            expected=expected,
            actual=f"{count} at {hop.place} ({hop.rail}, {hop.direction})",
            next_step="look for congestion, a wrong class, or a bad cable at that port",
        )
        for hop in item.hops
        for name, expected in _WARNED
        if (count := _count(hop, name))
    ]


def expected_bytes(item: ProbeEvidence) -> int:
    """The payload that a probe sends over one rail in one direction, by its own log.

    On InfiniBand it is that of all adapters of a worker together. A training benchmark does not say
    how much it sends: 0.
    """
    rails = max(len(item.probe.rails), 1)
    if item.perftest is not None:
        return sum(row.size_bytes * row.iterations for row in item.perftest.rows)
    if item.deepspeed is not None:
        sent = sum(row.size_bytes for row in item.deepspeed.rows) * _SCAN_TRIALS
        ranks = max(item.deepspeed.devices, 1)
        return round(sent * bus_factor(item.deepspeed.collective, ranks) / rails)
    log = item.nccl
    if item.probe.kind != "nccl" or log is None or not log.iterations or not log.ranks:
        return 0
    halves = sum((row.size_bytes or 0) * (2 if row.in_place else 1) for row in log.rows)
    # Warm-up runs come on top.
    return round(halves * log.iterations * _crossing(item, log) / rails)


def _crossing(item: ProbeEvidence, log: NcclLog) -> float:
    """How often the message crosses the boundary of a host, in each direction.

    A ring passes each boundary once; in alltoall every rank of a host sends each rank of the others
    its part.
    """
    ranks = len({line.rank for line in log.ranks})
    if log.collective.startswith("alltoall"):
        here = ranks / max(len(item.probe.nodes), 1)
        return here * (ranks - here) / ranks
    return bus_factor(log.collective or item.probe.collective, ranks)


def show_size(count: int) -> str:
    """A number of bytes in decimal units, as counters and line rates are."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _judge_direction(item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits) -> Finding:
    hops.sort(key=lambda hop: _ROLES.index(hop.role))
    missing = [role for role in _ROLES if role not in {hop.role for hop in hops}]
    blind = [hop for hop in hops if hop.status not in _READ]
    wanted = expected_bytes(item)
    for hop in hops:
        if hop.status in _READ:
            wrong = _wrong_class(item, where, hop, limits) or _absent(item, where, hop, wanted)
            if wrong is not None:
                return wrong
    if blind:
        hop = blind[0]
        what = hop.status.replace("_", " ")
        return _unproven(item, where, f"{hop.place} {what}: {hop.detail}".rstrip(": "))
    if missing:
        return _unproven(item, where, f"no counter of {missing[0].replace('_', ' ')}")
    # What a system cannot count proves nothing; the class that the bytes leave it in does.
    proven = [hop for hop in hops if hop.status == "observed"]
    least = min(_share(hop, limits) for hop in proven)
    return Finding(
        check="traffic class",
        subject=item.probe.name,
        verdict="passed",
        expected=f"{where}: {_classes(limits)} at {len(proven)} hops",
        actual=f"at least {least * 100:.0f} % of {show_size(proven[0].total_bytes or 0)}",
        detail=" -> ".join(hop.place for hop in hops),
    )


def _wrong_class(item: ProbeEvidence, where: str, hop: Hop, limits: Limits) -> Finding | None:
    if not hop.total_bytes or hop.status == "uncounted":
        return None
    if _share(hop, limits) >= limits.class_fraction:
        return None
    name, wanted = _class_of(hop, limits)
    others = {key: size for key, size in hop.bytes_by_class.items() if key != wanted}
    if others and max(others.values()) > 0:
        top = max(others, key=lambda key: others[key])
        found = f"in {name} {top}"
        size = others[top]
    else:
        size = hop.total_bytes - hop.bytes_by_class.get(wanted, 0)
        found = f"not in {name} {wanted}"
    share = size / hop.total_bytes * 100
    return Finding(
        check="traffic class",
        subject=item.probe.name,
        verdict="failed",
        expected=f"{where}: {name} {wanted} at {hop.place}",
        actual=f"{share:.0f} % of {show_size(hop.total_bytes)} {found}",
        detail=(
            f"wrong traffic class at {hop.place}: expected {name} {wanted}, "
            f"{share:.0f} % of {show_size(hop.total_bytes)} {found}"
        ),
        next_step=_class_step(hop),
    )


def _absent(item: ProbeEvidence, where: str, hop: Hop, wanted: int) -> Finding | None:
    if hop.total_bytes is None or hop.total_bytes >= max(wanted * LEAST_SHARE_SEEN, 1):
        return None
    return Finding(
        check="traffic class",
        subject=item.probe.name,
        verdict="failed",
        expected=f"{where}: {show_size(wanted)} through {hop.place}",
        actual=f"{show_size(hop.total_bytes)} seen there",
        detail=f"the probe's bytes did not pass {hop.place}",
        next_step="the cable plan is wrong, or the probe used another interface",
    )


def _unproven(item: ProbeEvidence, where: str, why: str) -> Finding:
    return Finding(
        check="traffic class",
        subject=item.probe.name,
        verdict="error",
        expected=f"{where}: counters of every hop",
        actual="not observed",
        detail=why,
        next_step="make every device of the path reachable and run acceptance again",
    )


def _class_of(hop: Hop, limits: Limits) -> tuple[str, int]:
    if hop.role == "switch_egress":
        wanted = limits.priority if limits.traffic_class is None else limits.traffic_class
        return "traffic class", wanted or 0
    return "priority", limits.priority or 0


def _share(hop: Hop, limits: Limits) -> float:
    _, wanted = _class_of(hop, limits)
    return hop.bytes_by_class.get(wanted, 0) / hop.total_bytes if hop.total_bytes else 0.0


def _classes(limits: Limits) -> str:
    if limits.traffic_class in (None, limits.priority):
        return f"priority {limits.priority}"
    return f"priority {limits.priority}, traffic class {limits.traffic_class}"


def _class_step(hop: Hop) -> str:
    return {
        "sender_nic": "the application's traffic class (NCCL_IB_TC, perftest's -T) or the NIC's "
        "trust is wrong: compare with the plan, then mlnx_qos",
        "switch_ingress": f"the trust of {hop.place} is not L3, or its DSCP map differs: "
        "run pulumi up to repair it",
        "switch_egress": f"the priority to traffic class map of {hop.device} differs",
        "receiver_nic": "the receiving NIC does not trust DSCP: mlnx_qos --trust dscp",
    }[hop.role]


def _count(hop: Hop, name: str) -> int:
    values = {
        "discards": hop.discards,
        "out_of_sequence": hop.out_of_sequence,
        "pause_frames": hop.pause_frames,
    }
    return values[name] or 0
