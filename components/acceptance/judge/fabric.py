"""Judges the way of a probe's bytes through the fabric: links between leaves, routes and adapters.

On InfiniBand they must go through all adapters of every worker. A cloud hides the switches of its
fabric, and InfiniBand has no DSCP: no class can be wrong. The adapters' own counters prove that the
bytes left and arrived there, and that no adapter was idle while others did its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from components.acceptance.between_leaves import is_telling
from components.acceptance.evidence import (
    Evidence,
    ForeignSettingSeen,
    Hop,
    Limits,
    ProbeEvidence,
    RoutingSeen,
    has_two_directions,
    sends_back,
)
from components.acceptance.judge.path import DARK, judge_amount, sent_bytes, show_size
from components.acceptance.judge.verdict import Finding, overall_verdict, row

_IDLE_SPREAD_SHARE: Final = 0.01
"""Fraction of an even share below which a link is idle: other traffic such as BGP may cause it."""
_CHECK: Final = "adapter counters"
_STEP: Final = (
    "check the hash fields of the switch (only the UDP source port tells RoCE's connections "
    "apart), and the routes of the switch at the other end"
)


def warn_spread(item: ProbeEvidence) -> list[Finding]:
    """Warnings: the links that carried nothing of a test of many connections."""
    lost = {(seen.device, seen.where) for seen in item.routing if seen.kind == "lost"}
    uplinks = [
        hop
        for hop in item.hops
        if hop.role == "uplink_egress" and (hop.device, f"port {hop.interface}") not in lost
    ]
    found: list[Finding] = []
    for (rail, direction), group in groupby(uplinks, key=lambda hop: (hop.rail, hop.direction)):
        hops = list(group)
        seen = all(hop.status == "observed" and hop.total_bytes is not None for hop in hops)
        if item.outcome == "completed" and seen and is_telling(item.probe.flows, len(hops)):
            found += _idle(item, f"{rail}, {direction}", hops)
    return found


def _idle(item: ProbeEvidence, where: str, hops: list[Hop]) -> Iterator[Finding]:
    total, flows = sum(hop.total_bytes or 0 for hop in hops), item.probe.flows
    expected = f"{where}: a share of {flows} connections on each of {len(hops)} links"
    for hop in hops:
        carried = hop.total_bytes or 0
        if carried < total / len(hops) * _IDLE_SPREAD_SHARE:
            actual = f"{show_size(carried)} of {show_size(total)} at {hop.place}"
            why = f"{hop.place} carried none of {flows} connections, though its session is up"
            yield row("spread", item.probe.name, "failed", expected, actual, _STEP).because(why)


def judge_causes(
    evidence: Evidence, judged: Sequence[Finding]
) -> tuple[list[Finding], list[Finding]]:
    """Judge foreign settings and lost routes on the way of probes.

    Returns:
        Those that may explain why a probe did not pass; and the others, as warnings: those probes
        passed nevertheless, without congestion or by other links.
    """
    bad = [each for each in judged if each.verdict in {"failed", "error"}]
    found: tuple[list[Finding], list[Finding]] = ([], [])
    for seen, probes in _on_the_way(evidence):
        wrong = [each for each in bad if each.subject in probes]
        names = ", ".join(dict.fromkeys(each.subject for each in wrong))
        why = f"it may be why these did not pass: {names}" if names else ""
        verdict = overall_verdict(wrong) if wrong else "failed"
        if isinstance(seen, RoutingSeen):
            expected = f"{seen.where}: BGP with every neighbour of the file"
            cause = row("routing", seen.device, verdict, expected, seen.what, seen.fix)
            why = why or "the probes took other links"
        else:
            expected = f"{seen.setting} {seen.harmless}"
            actual = f"{seen.actual}; outside the plan, and it breaks {seen.breaks}"
            cause = row("beside", seen.device, verdict, expected, actual, seen.fix)
            why = f"as the update found it before it began{'; ' if why else ''}{why}"
        found[not wrong].append(cause.because(why))
    return found


def _on_the_way(evidence: Evidence) -> Iterator[tuple[ForeignSettingSeen | RoutingSeen, set[str]]]:
    """Each setting and route with the probes that pass it."""
    for seen in evidence.beside or ():
        names = {
            item.probe.name
            for item in evidence.probes
            if seen.device in {*item.probe.nodes, *(hop.device for hop in item.hops)}
        }
        yield seen, names
    over: dict[RoutingSeen, set[str]] = {}
    for item in evidence.probes:
        for seen in item.routing:
            over.setdefault(seen, set()).add(item.probe.name)
    yield from over.items()


_IDLE_SHARE = 0.5
"""Some channels left out an adapter with less than half of its even share."""


def judge_fabric(item: ProbeEvidence, limits: Limits) -> list[Finding]:
    """One finding per worker and direction of InfiniBand."""
    hops = sorted(item.hops, key=lambda hop: hop.direction)
    if not hops:
        return [_unproven(item, "every worker", "no counter was read")]
    if {*item.probe.rails} & {*item.probe.rates}:  # through one adapter
        limits = limits.model_copy(update={"hcas": 1})
        both = has_two_directions(item.probe)
        hops = [hop for hop in hops if both or not sends_back(item.probe, hop.direction)]
    return [
        _judge_direction(item, way, list(group), limits)
        for way, group in groupby(hops, key=lambda hop: hop.direction)
    ]


def _judge_direction(item: ProbeEvidence, where: str, hops: list[Hop], limits: Limits) -> Finding:
    name = item.probe.name
    wanted = sent_bytes(item, back=sends_back(item.probe, where))
    if all(hop.status == "no_login" for hop in hops):
        return row(_CHECK, name, "skipped", f"{where}: counters of its adapters", DARK)
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
    is_lazy = lazy and verdict != "passed"
    return found.because(f"adapters without their share: {lazy}") if is_lazy else found


def _unproven(item: ProbeEvidence, where: str, why: str) -> Finding:
    expected = f"{where}: counters of its adapters"
    step = "make every worker reachable and run acceptance again"
    return row(_CHECK, item.probe.name, "error", expected, "not observed", step).because(why)
