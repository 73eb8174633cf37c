"""Says of each kind of workers whether it was proven, and names what no probe proves."""

from __future__ import annotations

from typing import Final

from components.acceptance.evidence import Evidence, Limits, WorkerGroup
from components.acceptance.judge.verdict import Finding, overall_verdict

GROUP: Final = "group"
UNPROVEN: Final = "proof"


def judge_groups(evidence: Evidence, limits: Limits, findings: list[Finding]) -> list[Finding]:
    """One finding for each kind of workers, and one for each thing that stays unproven."""
    unproven = [
        Finding(
            check=UNPROVEN,
            subject=each.subject,
            verdict="skipped",
            expected=each.what,
            actual=f"not proven: {each.what}: {each.why}",
        )
        for each in limits.unproven
    ]
    return [*(_judge_group(evidence, group, findings) for group in limits.groups), *unproven]


def _judge_group(evidence: Evidence, group: WorkerGroup, findings: list[Finding]) -> Finding:
    """A kind is proven by the collectives over all of its hosts, and by nothing else."""
    rails = ", ".join(group.rails) or "no rail"
    what = f"a collective over {', '.join(group.hosts)} ({group.gpus} GPUs each; {rails})"
    probes = [
        item.probe.name
        for item in evidence.probes
        if item.probe.kind == "nccl" and item.probe.nodes == group.hosts
    ]
    why = group.unproven or ("" if probes else "no collective was planned")
    if why:
        return Finding(
            check=GROUP,
            subject=group.name,
            verdict="skipped",
            expected=what,
            actual=f"not proven: {', '.join(group.hosts)}: {why}",
        )
    verdict = overall_verdict(each for each in findings if each.subject in probes)
    state = "proven" if verdict == "passed" else "not proven"
    return Finding(
        check=GROUP,
        subject=group.name,
        verdict=verdict,
        expected=what,
        actual=f"{', '.join(group.hosts)}: {state} by {', '.join(probes)}",
        next_step="" if verdict == "passed" else "look at the findings of these probes",
    )
