"""Judges settings beside ours: a warning, or the likely cause of what was not proven."""

from __future__ import annotations

from collections.abc import Sequence

from components.acceptance.beside import BesideSeen
from components.acceptance.evidence import Evidence
from components.acceptance.judge.verdict import Finding, Verdict, overall_verdict


def judge_beside(evidence: Evidence, judged: Sequence[Finding]) -> list[Finding]:
    """Those on the way of a probe that did not pass: they may explain it, so they are not proven.

    Args:
        evidence: What was seen.
        judged: What the probes came to.
    """
    return [
        _finding(each, verdict, probes)
        for each in evidence.beside or ()
        for verdict, probes in [_explained(evidence, each.device, judged)]
        if probes
    ]


def warn_beside(evidence: Evidence, judged: Sequence[Finding]) -> list[Finding]:
    """All others: the probes passed in spite of them, under no congestion."""
    return [
        _finding(each, "failed", ())
        for each in evidence.beside or ()
        if not _explained(evidence, each.device, judged)[1]
    ]


def _explained(
    evidence: Evidence, device: str, judged: Sequence[Finding]
) -> tuple[Verdict, tuple[str, ...]]:
    """The probes through a device that did not pass, and what they came to together."""
    through = {
        item.probe.name
        for item in evidence.probes
        if device in item.probe.nodes or any(hop.device == device for hop in item.hops)
    }
    wrong = [
        found
        for found in judged
        if found.subject in through and found.verdict in {"failed", "error"}
    ]
    return overall_verdict(wrong), tuple(dict.fromkeys(found.subject for found in wrong))


def _finding(seen: BesideSeen, verdict: Verdict, probes: tuple[str, ...]) -> Finding:
    why = f"; it may be why these did not pass: {', '.join(probes)}" if probes else ""
    return Finding(
        check="beside",
        subject=seen.device,
        verdict=verdict,
        expected=f"{seen.setting} {seen.harmless}",
        actual=f"{seen.actual}; not ours, and it breaks {seen.breaks}",
        detail=f"as the update found it before it began{why}",
        next_step=seen.fix,
    )
