"""Judges routed links without a session: what may explain a failed probe over them, or a warning.

ECMP hides a lost link: the probe takes the others, and passes at a part of the rail's rate under
load. So a link on a way that passed is a warning, and no silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from components.acceptance.evidence import Evidence
from components.acceptance.judge.verdict import Finding, overall_verdict
from components.acceptance.routing import RoutingSeen


def judge_routing(evidence: Evidence, judged: Sequence[Finding]) -> list[Finding]:
    """Those on the way of a probe that did not pass.

    Args:
        evidence: What was seen.
        judged: What the probes came to.
    """
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
    return Finding(
        check="routing",
        subject=seen.device,
        verdict=overall_verdict(wrong) if wrong else "failed",
        expected=f"{seen.where}: BGP with every neighbour of the file",
        actual=seen.what,
        detail=why,
        next_step=seen.fix,
    )
