"""The verdicts of acceptance: one finding, the cause of a failed run, each kind of workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeVar

from components.acceptance.evidence import Evidence, Limits
from components.acceptance.logs.lines import first_cause
from components.acceptance.logs.log_model import LogFailure, Seen, cut_text
from components.core.templates import read_table

Verdict = Literal["passed", "failed", "skipped", "error"]
"""`failed`: proven wrong. `error`: not judged. `skipped`: not asked for, or not applicable."""
SLOW_TEST: Final = 0.85
"""A test between two hosts below this share of the median of like tests is slow. A link that lost
20 % must be found, and tests of one link differ by about 3 %: a limit of 0.80 would miss half of
the links with such a loss."""
SLOW_SIBLING: Final = 0.80
"""A GPU, an NVLink, or one of two ports of a card below this share of its siblings has a fault. It
is a choice: one number of each is compared, and their usual variation is unknown."""
GROUP: Final = "group"
UNPROVEN: Final = "proof"
MEASURES = ("bandwidth", "throughput", "hosts", "gpus", "image")
"""The checks whose actual value tables show as the result of a probe."""
EXIT_CODES: dict[Verdict, int] = {"passed": 0, "failed": 1, "skipped": 4, "error": 4}
"""Exit codes of the commands that judge: good, failed verdict, could not judge."""
_Run = TypeVar("_Run")
_Said = TypeVar("_Said")


class Finding(Seen):
    """One judgement: `expected X, actual Y`."""

    check: str
    """Its short name, for example `bandwidth`."""
    subject: str = ""
    """The probe, host, fabric or log; it is added to all findings about it at once."""
    verdict: Verdict
    expected: str
    actual: str
    detail: str = ""
    next_step: str = ""

    @property
    def text(self) -> str:
        """The finding as one sentence."""
        return f"expected {self.expected}, actual {self.actual}"

    def about(self, subject: str) -> Finding:
        """The same finding with its subject."""
        return self.model_copy(update={"subject": subject})

    def because(self, detail: str) -> Finding:
        """The same finding with another detail."""
        return self.model_copy(update={"detail": cut_text(detail)})


def row(check: str, verdict: Verdict, actual: str, detail: str = "", **values: object) -> Finding:
    """Make a finding with the texts of a check in checks.yaml; a passed one omits the next step.

    `values` fill the braces of these texts. A report shows the detail below the finding.
    """
    texts: Mapping[str, str] = read_table(__file__, "checks")[check]
    step = "" if verdict == "passed" else texts.get("step", "")
    return Finding(
        check=texts.get("check", check).format(**values), verdict=verdict, actual=actual,
        expected=texts["expected"].format(**values), detail=detail,
        next_step=step.format(**values),
    )  # fmt: skip


def row_of(check: str, wrong: Sequence[str], good: str, **values: object) -> Finding:
    """One finding that lists every fault; without a fault it passes and shows `good`."""
    return row(check, verdict_for(not wrong), "; ".join(wrong) or good, "", **values)


def verdict_for(is_right: bool) -> Verdict:  # noqa: FBT001 - the one place where a truth becomes a word
    """`passed` or `failed`."""
    return "passed" if is_right else "failed"


def first_rule(*rules: tuple[object, Verdict, _Said]) -> tuple[Verdict, _Said]:
    """The verdict and the words of the first rule whose condition holds."""
    return next((verdict, said) for holds, verdict, said in rules if holds)


def overall_verdict(findings: Iterable[Finding]) -> Verdict:
    """A proven fault outweighs an unknown; nothing judged is an error, not a pass."""
    verdicts = {finding.verdict for finding in findings}
    if verdicts == {"skipped"}:
        return "skipped"
    if "failed" in verdicts:
        return "failed"
    if "error" in verdicts or "passed" not in verdicts:
        return "error"
    return "passed"


def find_failure(failures: Sequence[LogFailure]) -> Finding | None:
    """A finding for the first cause of failure that a log names, or None."""
    cause = first_cause(failures)
    if cause is None:
        return None
    named = (("on", cause.host), ("device", cause.device), ("peer", cause.peer))
    place = ", ".join(f"{word} {name}" for word, name in named if name)
    why = "; ".join(filter(None, (place, f"the first cause among {len(failures)} failure lines")))
    actual = f"{cause.kind}: {cause.line}"
    return row("run with a failure", "failed", actual, why, meaning=cause.meaning)


def name_runs(runs: Sequence[_Run], subject: str) -> Iterator[tuple[str, _Run]]:
    """Each run of a log, under its own name."""
    for number, run in enumerate(runs, 1):
        yield subject if len(runs) == 1 else f"{subject}, run {number} of {len(runs)}", run


def judge_groups(evidence: Evidence, limits: Limits, findings: list[Finding]) -> list[Finding]:
    """One finding for each kind of workers, and one for each thing that stays unproven."""
    found: list[Finding] = []
    ran = [item.probe for item in evidence.probes if item.probe.kind == "nccl"]
    for group in limits.groups:
        hosts, rails = ", ".join(group.hosts), ", ".join(group.rails) or "no rail"
        # Only collectives over all of its hosts prove a kind.
        probes = [probe.name for probe in ran if probe.nodes == group.hosts]
        why = group.unproven or ("" if probes else "no collective was planned")
        verdict: Verdict = "skipped"
        actual, step = f"not proven: {hosts}: {why}", "read the findings of the probes above"
        if not why:
            verdict = overall_verdict(each for each in findings if each.subject in probes)
            state = "proven" if verdict == "passed" else "not proven"
            actual = f"{hosts}: {state} by {', '.join(probes)}"
        values = {"hosts": hosts, "gpus": str(group.gpus), "rails": rails}
        own = row(GROUP, verdict, actual, **values, step="" if why else step)
        found.append(own.about(group.name))
    return found + [
        row(UNPROVEN, "skipped", f"not proven: {it.what}: {it.why}", what=it.what).about(it.subject)
        for it in limits.unproven
    ]
