"""The state that acceptance keeps in a stack: digests and a line or two, at any size.

The request and the evidence grow with the site: the archive has them, and the steps their digests.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from itertools import accumulate
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from components.acceptance.acceptance_plan import AcceptancePlan
from components.acceptance.evidence import days_since
from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import Finding, overall_verdict, row
from components.acceptance.report import archive
from components.acceptance.report import text as report_text
from components.core.errors import Bug, UsageError
from components.core.plain_text import counted
from components.core.record import record
from components.core.to_json import to_json
from components.model.sources import EvidenceStore
from components.remote.lines import as_json, read_request, render_lines

SHORT: Final = 2_000
"""Characters of the gate's table: one line a probe fits for some twenty, else counts and faults."""
PROVE_AGAIN: Final = "bring the folder from the machine that proved it; or: railyard accept {}"
_WIDTH: Final = 200
"""Characters of one fault in it; the report has it whole."""
EVIDENCE_STEP: Final = "acceptance-evidence"
VERDICT_STEP: Final = "acceptance-gate"
UNASKED: Final = "nothing asks for another proof"
"""The note of the evidence step in a run without a new proof; the inputs do not include it."""


@record
class Asked:
    """The stdin of the evidence step."""

    plan_digest: str
    stack: str
    provenance: Literal["real", "lab"]
    request: str
    shared: str = ""
    """Digest of the settings that all hosts share."""
    repairs: str = ""
    """Digest of all repairs up to this proof."""


@record
class Named:
    """The stdout of the evidence step, and the stdin of the gate."""

    stack: str
    run: int
    evidence: str
    archive: str
    """Its path, relative to the folder of the program."""
    verdict: str
    proven_at: str = ""
    """The date of the oldest part of the proof; empty if an older release wrote it."""
    store: EvidenceStore | None = None
    """The store that has it; None: only the archive."""
    asked: str = ""
    """For the gate: digest of the plan to prove."""


def hand_over(request: AcceptRequest, text: str, *, keep: bool) -> str:
    """The stdin of the evidence step; `keep` puts the request's `text` into the archive first."""
    digest = archive.keep_request(request.stack, text) if keep else archive.digest_of(text)
    site = (request.plan_digest, request.stack, request.provenance)
    return render_lines(asdict(Asked(*site, digest, request.acceptance.shared, request.repairs)))


def parse_asked(text: str) -> Asked:
    """Read the stdin of the evidence step; UsageError if it is another text."""
    return read_request(Asked, text, "question for acceptance")


def tell(report: Report, stack: str, digest: str, store: EvidenceStore | None = None) -> str:
    """The stdout of the evidence step."""
    evidence = report.evidence
    place = archive.run_folder(stack, evidence.run) / archive.EVIDENCE
    verdicts = Counter(report.verdict_of(item.probe.name) for item in evidence.probes)
    verdict = f"{report.verdict}: {_counts(verdicts)}"
    earlier = (each.proven_at for each in evidence.left_out if each.proven_at)
    oldest = min([evidence.finished_at, *earlier])
    named = asdict(Named(stack, evidence.run, digest, str(place), verdict, oldest))
    del named["asked"], named["store"]
    if store is not None:
        named["store"] = store.model_dump(mode="json", exclude_defaults=True)
    return render_lines(named)


def for_gate(plan_digest: str, printed: str | None) -> str:
    """Give the gate's stdin: the evidence (None if its step failed), and the wanted digest."""
    return (printed or "").rstrip() + "\n" + render_lines({"asked": plan_digest})


def as_of(report: Report, now: datetime, asked: str = "") -> Report:
    """Judge a report later: old evidence, and that of another plan than `asked`, prove nothing."""
    evidence, found = report.evidence, list[Finding]()
    limit, age = evidence.max_age_days, days_since(evidence.finished_at, now)
    if age is None or not -1 <= age <= limit:  # a clock may be a day off
        ago = "no date" if age is None else f"{age:.0f} days ago"
        actual = f"it ended at {evidence.finished_at or 'no time'}: {ago}"
        found.append(row("evidence", "error", actual, wanted=f"the last {limit} days"))
    if asked and asked != evidence.plan_digest:
        actual = f"plan {evidence.plan_digest}"
        found.append(row("evidence", "error", actual, wanted=f"plan {asked}"))
    findings = (*report.findings, *(each.about(f"run {evidence.run}") for each in found))
    changed = {"findings": findings, "verdict": overall_verdict(findings)}
    return Report.model_validate(dict(report) | changed) if found else report


def parse_named(text: str) -> Named:
    """Read the stdout of the evidence step; UsageError if it is another text."""
    try:
        return TypeAdapter(Named).validate_json(as_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"this names no evidence: {where}: {first['msg']}") from error


def read_proof(named: Named, secrets: Mapping[str, str]) -> str:
    """Read the evidence that the state names, from the store if the site has one.

    UsageError: it is missing or changed. StoreError: the store refused, or no trusted key signed.
    """
    if named.store is None:
        path = archive.run_folder(named.stack, named.run) / archive.EVIDENCE
        return archive.read_archived(path, named.evidence, PROVE_AGAIN.format(named.stack))
    from components.acceptance.report.store import open_store  # noqa: PLC0415 - most sites lack it

    return open_store(named.store, secrets).fetch(named.stack, named.run, named.evidence)


def render_short(report: Report) -> str:
    """The table of the gate: one line per probe, or counts and faults if that is too long."""
    whole = report_text.render_table(report)
    if len(whole) <= SHORT:
        return whole
    kinds: dict[str, Counter[str]] = {}
    for item in report.evidence.probes:
        kinds.setdefault(item.probe.kind, Counter())[report.verdict_of(item.probe.name)] += 1
    lines = [f"{kind}: {_counts(found)}" for kind, found in kinds.items()]
    unproven = len(report_text.unproven_lines(report))
    end = report_text.waivers_of(report)
    end += [f"not proven: {counted(unproven, 'probe')}; the report has each"] if unproven else []
    end += [report_text.LAB_NOTE] if report.evidence.provenance == "lab" else []
    end.append(f"{report_text.headline_of(report)}: {counted(report.planned, 'probe')} planned")
    room = SHORT - sum(len(line) + 1 for line in (*lines, *end)) - _WIDTH
    faults = [line[:_WIDTH] for line in report_text.unsettled_lines(report)]
    sizes = accumulate(len(line) + 1 for line in faults)
    shown = faults[: sum(size <= room for size in sizes)]
    left = len(faults) - len(shown)
    more = [f"and {counted(left, 'more fault')}; the report has them all"] if left else []
    return "\n".join((*lines, *shown, *more, *end)) + "\n"


def _counts(found: Mapping[str, int]) -> str:
    """`3 of 5 passed, 1 failed, 1 error`."""
    others = [f"{found[word]} {word}" for word in ("failed", "error", "skipped") if found.get(word)]
    passed = f"{found.get('passed', 0)} of {sum(found.values())} passed"
    return ", ".join((passed, *others))


@record
class AcceptRequest:
    """The stdin that the evidence resource gives to `railyard evidence collect`."""

    plan_digest: str
    stack: str
    provenance: Literal["real", "lab"]
    acceptance: AcceptancePlan
    repairs: str = ""
    """Digest of all repairs up to this proof: the next run proves a repair that no proof names."""


def render_accept_request(request: AcceptRequest) -> str:
    """The request as indented JSON; the number of the run is in the command."""
    return json.dumps(to_json(request), indent=1, sort_keys=True) + "\n"


def parse_accept_request(text: str) -> AcceptRequest:
    """Read a request; Bug if the text is another: only our own component writes them."""
    try:
        return TypeAdapter(AcceptRequest).validate_json(text)
    except ValidationError as error:
        raise Bug(f"the acceptance request cannot be read: {error}") from error
