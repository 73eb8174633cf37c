"""When each part of a site was last proven, from the archive of its runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from components.acceptance.evidence import Evidence, Probe, parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import EVIDENCE, FOLDER, run_folder
from components.core.errors import UsageError

MOST_RUNS: Final = 50
"""How many runs are read, the newest first; what none of them proved counts as never proven."""


_SHOWN: Final = 4
"""So many hosts are named; of more, the first and the last."""


def subjects_of(probe: Probe) -> tuple[str, ...]:
    """What a probe proves: itself, each rail of each host, and the link of a pair."""
    ends = tuple(f"{node} {rail}" for rail in probe.rails for node in probe.nodes)
    return (label_of(probe), *ends)


def label_of(probe: Probe) -> str:
    """A probe by name; a collective over other hosts is another one."""
    if probe.kind in {"perftest", "image"}:
        return probe.name
    nodes = probe.nodes
    if len(nodes) <= _SHOWN:
        return f"{probe.name} over {', '.join(nodes)}"
    return f"{probe.name} over {len(nodes)} hosts, {nodes[0]} to {nodes[-1]}"


def last_proofs(stack: str, before: int, wanted: Collection[str]) -> dict[str, str]:
    """Subject to the end of the last run that proved it; one that was never proven is absent.

    Args:
        stack: The stack whose archive is read.
        before: Number of the run that is going on.
        wanted: Subjects, as `subjects_of` names them.
    """
    found: dict[str, str] = {}
    runs = sorted((FOLDER / stack).glob(f"run-*/{EVIDENCE}"), reverse=True)
    earlier = [path for path in runs if path.parent.name < run_folder(stack, before).name]
    for path in earlier[:MOST_RUNS]:
        if wanted and set(wanted) <= found.keys():
            break
        try:
            evidence = parse_evidence(path.read_text())
        except (UsageError, OSError):
            continue  # of another release, or no longer readable: it proves nothing here
        for subject in _proven(evidence):
            found.setdefault(subject, evidence.finished_at)
    return {subject: date for subject, date in found.items() if subject in wanted}


def _proven(evidence: Evidence) -> set[str]:
    report = judge_evidence(evidence)
    return {
        subject
        for item in evidence.probes
        if report.verdict_of(item.probe.name) == "passed"
        for subject in subjects_of(item.probe)
    }
