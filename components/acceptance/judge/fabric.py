"""Judges where a probe's bytes went on InfiniBand: through all adapters of every worker.

A cloud shows no switch of its fabric, and InfiniBand has no DSCP: there is no class to be wrong.
What can be proven are the adapters' own counters: that the bytes left and arrived there, and that
no adapter stood idle while others did its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from components.acceptance.between_leaves import is_telling
from components.acceptance.evidence import (
    Evidence,
    Hop,
    Limits,
    ProbeEvidence,
    RoutingSeen,
    has_two_directions,
    sends_back,
)
from components.acceptance.judge.amount import Sent, judge_amount, sent_bytes, show_size
from components.acceptance.judge.path import DARK
from components.acceptance.judge.verdict import Finding, overall_verdict, row

_IDLE_SPREAD_SHARE: Final = 0.01
"""Of an even share: less is what else is on a link, such as BGP."""
_CHECK: Final = "adapter counters"
_STEP: Final = (
    "look at what the switch hashes over (the UDP source port tells RoCE's connections apart), and"
    " at the routes of the switch at the other end"
)


def warn_spread(item: ProbeEvidence) -> list[Finding]:
    """Warnings: the links that carried nothing of a test of many connections."""
    return [] if item.outcome != "completed" else [*_warnings(item)]


def _warnings(item: ProbeEvidence) -> Iterator[Finding]:
    lost = {(seen.device, seen.where) for seen in item.routing if seen.kind == "lost"}
    uplinks = [
        hop
        for hop in item.hops
        if hop.role == "uplink_egress" and (hop.device, f"port {hop.interface}") not in lost
    ]
    for (rail, direction), group in groupby(uplinks, key=lambda hop: (hop.rail, hop.direction)):
        hops = list(group)
        seen = [hop for hop in hops if hop.status == "observed" and hop.total_bytes is not None]
        if len(seen) == len(hops) and is_telling(item.probe.flows, len(hops)):
            yield from _idle(item, f"{rail}, {direction}", hops)


def _idle(item: ProbeEvidence, where: str, hops: list[Hop]) -> Iterator[Finding]:
    total = sum(hop.total_bytes or 0 for hop in hops)
    idle = [hop for hop in hops if (hop.total_bytes or 0) < total / len(hops) * _IDLE_SPREAD_SHARE]
    flows = item.probe.flows
    expected = f"{where}: a share of {flows} connections on each of {len(hops)} links"
    for hop in idle:
        actual = f"{show_size(hop.total_bytes or 0)} of {show_size(total)} at {hop.place}"
        yield row("spread", item.probe.name, "failed", expected, actual, _STEP).because(
            f"{hop.place} carried none of {flows} connections, though its session is up"
        )


def judge_routing(evidence: Evidence, judged: Sequence[Finding]) -> list[Finding]:
    """Those on the way of a probe that did not pass."""
    return [found for found, explains in _findings(evidence, judged) if explains]


def warn_routing(evidence: Evidence, judged: Sequence[Finding]) -> list[Finding]:
    """All others: the probes passed by other links."""
    return [found for found, explains in _findings(evidence, judged) if not explains]


def _findings(evidence: Evidence, judged: Sequence[Finding]) -> Iterator[tuple[Finding, bool]]:
    over: dict[RoutingSeen, list[str]] = {}
    for item in evidence.probes:
        for seen in item.routing:
            over.setdefault(seen, []).append(item.probe.name)
    for seen, probes in over.items():
        wrong = [
            found
            for found in judged
            if found.subject in probes and found.verdict in {"failed", "error"}
        ]
        yield _finding(seen, wrong), bool(wrong)


def _finding(seen: RoutingSeen, wrong: Sequence[Finding]) -> Finding:
    names = ", ".join(dict.fromkeys(found.subject for found in wrong))
    why = f"it may be why these did not pass: {names}" if names else "the probes took other links"
    verdict = overall_verdict(wrong) if wrong else "failed"
    expected = f"{seen.where}: BGP with every neighbour of the file"
    return row("routing", seen.device, verdict, expected, seen.what, seen.fix).because(why)


_IDLE_SHARE = 0.5
"""An adapter with less than half of its even share was left out of some channels."""


def judge_fabric(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per worker and direction."""
    hops = sorted(item.hops, key=lambda hop: hop.direction)
    if not hops:
        return [_unproven(item, "every worker", "no counter was read")]
    if {*item.probe.rails} & {*item.probe.rates}:  # through one adapter
        limits = limits.model_copy(update={"hcas": 1})
        both = has_two_directions(item.probe)
        hops = [hop for hop in hops if both or not sends_back(item.probe, hop.direction)]
    return [
        _judge_direction(
            item, way, list(group), limits, sent_bytes(item, back=sends_back(item.probe, way))
        )
        for way, group in groupby(hops, key=lambda hop: hop.direction)
    ]


def _judge_direction(
    item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits, wanted: Sent
) -> Finding:
    name, counters = item.probe.name, f"{where}: counters of its adapters"
    if all(hop.status == "no_login" for hop in hops):
        return row(_CHECK, name, "skipped", counters, DARK)
    blind = next((hop for hop in hops if hop.status != "observed"), None)
    if blind is not None:
        return _unproven(item, where, f"{blind.device}: {blind.detail or 'not observed'}")
    total = sum(hop.total_bytes or 0 for hop in hops)
    share = max(total, wanted.least) / max(limits.hcas, 1) * _IDLE_SHARE
    busy = [hop for hop in hops if (hop.total_bytes or 0) >= max(share, 1)]
    verdict = "failed" if len(busy) < limits.hcas else judge_amount(wanted, total)
    lazy = ", ".join(hop.interface for hop in hops if hop not in busy)
    expected = f"{where}: {wanted.text} through {limits.hcas} adapters"
    actual = f"{show_size(total)} through {len(busy)}"
    step = "look at NCCL's list of adapters, and at ibstat on that worker"
    found = row(_CHECK, name, verdict, expected, actual, step)
    if verdict == "passed" or not lazy:
        return found
    return found.because(f"adapters without their share: {lazy}")


def _unproven(item: ProbeEvidence, where: str, why: str) -> Finding:
    expected = f"{where}: counters of its adapters"
    step = "make every worker reachable and run acceptance again"
    return row(_CHECK, item.probe.name, "error", expected, "not observed", step).because(why)
