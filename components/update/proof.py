"""Read the last acceptance from the state, and choose the part of the site to test next.

That part is the whole site, the changed devices with their partners, or one pair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, Literal

from components.acceptance.acceptance_plan import AcceptancePlan, ProbePlan, plan_acceptance
from components.acceptance.evidence import MAX_AGE_DAYS, days_since
from components.acceptance.handover import EVIDENCE_STEP, VERDICT_STEP
from components.acceptance.report.text import PASSED_LINE
from components.core.errors import UsageError
from components.core.plain_text import counted
from components.core.templates import fault_text
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines

_RUN: Final = re.compile(r"--number (\d+)")
_COUNTED: Final = re.compile(r"\D*\d+: ")
Accept = Literal["changed", "always", "never", "canary"]
_PAIR: Final = 2
SCOPE: Final = "RAILYARD_SCOPE"


def last_run(applied: Applied) -> int:
    """The number of the last acceptance run; 0 before the first."""
    recorded = applied.step(EVIDENCE_STEP)
    number = _RUN.search(recorded.create) if recorded and recorded.stdin else None
    return int(number[1]) if number else 0


def is_asked(plan: ClusterPlan, applied: Applied, *, touched: bool, accept: Accept) -> bool:
    """Whether this run collects new evidence."""
    if accept == "never":  # an edited plan would otherwise overwrite the evidence of this run
        return is_edited(plan, applied)
    unproven = not passed(applied) or is_edited(plan, applied)
    if touched or accept == "always" or unproven:
        return True
    if accept == "canary":  # it deliberately leaves most of the site untested
        return False
    printed = applied.steps[EVIDENCE_STEP].stdout.splitlines()
    date = next((line for line in printed if line.startswith("proven_at = ")), "")
    age = days_since(date.removeprefix("proven_at = ").strip('"'), datetime.now(UTC))
    return age is not None and age > (plan.acceptance.policy.max_age_days or MAX_AGE_DAYS)


def repairs_of(notes: Mapping[str, str]) -> str:
    """Return a digest of the numbered repairs, without resent tools; empty without repairs.

    Notes stay in the state with the step that they repaired, and the evidence records their digest.
    So if a run was killed before its acceptance, the digests differ and the next run tests it.
    """
    found = sorted(f"{step} {note}" for step, note in counted_repairs(notes).items())
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16] if found else ""


def counted_repairs(notes: Mapping[str, str]) -> Mapping[str, str]:
    """Return the numbered repairs among the notes, without resent tools."""
    found = {step: note for step, note in notes.items() if _COUNTED.match(note)}
    return {step: note for step, note in found.items() if not step.endswith("-tools")}


def proven_repairs(applied: Applied) -> str:
    """Return the repairs that the recorded evidence covers."""
    return str(parse_lines(applied.stdin(EVIDENCE_STEP)).get("repairs", ""))


def is_edited(plan: ClusterPlan, applied: Applied) -> bool:
    """Whether the plan differs from that of the recorded evidence."""
    recorded = applied.stdin(EVIDENCE_STEP)
    return not recorded or parse_lines(recorded).get("plan_digest") != plan.digest


def passed(applied: Applied) -> bool:
    """Whether the recorded gate judged the recorded evidence and passed it."""
    gate, evidence = applied.step(VERDICT_STEP), applied.step(EVIDENCE_STEP)
    if gate is None or evidence is None or not evidence.stdout:
        return False
    # With `gate: warn` a failed verdict does not stop the update, but proves nothing.
    return evidence.stdout.strip() in gate.stdin and PASSED_LINE in gate.stdout


def stale_after(applied: Applied, registered: AbstractSet[str], stack: str) -> str:
    """Return a note for the verdict if the engine deletes unregistered resources after it."""
    count = len(applied.resources - registered)
    what = f", before {counted(count, 'deletion')}: run `railyard accept {stack}`"
    return f"{what} to prove the site as it is now" if count else ""


def narrow(
    spec: ClusterSpec, whole: AcceptancePlan, accept: Accept, changed: Collection[str] | None
) -> AcceptancePlan:
    """Return the acceptance plan of this run; without the changed devices, of the whole site."""
    if accept == "never":
        return replace(whole, policy=replace(whole.policy, asked=False))
    devices = {*(changed or ())}
    if accept == "canary":  # the first pair of neighbours with a changed worker, else the first
        pairs = list(pairwise(host.name for host in spec.workers))
        touched = [pair for pair in pairs if devices.intersection(pair)]
        return _among(spec, whole, {*(touched or pairs or [()])[0]})
    if spec.acceptance.scope != "changed" or not devices:
        return whole
    hosts: set[str] = set()  # those of every pair that includes a changed device or crosses it
    for each in whole.probes:
        crossed = {hop.device for hop in each.hops} | {*each.probe.nodes}
        if each.probe.kind == "perftest" and crossed & devices:
            hosts |= {*each.probe.nodes}
    return _among(spec, whole, hosts)


def _parts(spec: ClusterSpec, hosts: Sequence[Host]) -> dict[str, dict[str, list[str]]]:
    """Return the devices of each part by kind and name; a unit is a `domain`, a rail has none."""
    units: dict[str, list[str]] = {}
    for host in hosts:
        units.setdefault(host.domain or "", []).append(host.name)
    return {
        "host": {host.name: [host.name] for host in hosts},
        "rail": {rail.name: [] for rail in spec.rails},
        "leaf": {switch.name: [switch.name] for switch in spec.switches},
        "unit": {name: devices for name, devices in units.items() if name},
    }


def narrow_to(spec: ClusterSpec, plan: AcceptancePlan, scope: str, *, adds: bool) -> AcceptancePlan:
    """Return the part of acceptance that the user selected.

    `scope` is a kind of part and names, or empty for all. `adds` is whether the result adds to
    an earlier proof of the whole site. An unknown part, or one without a probe, is a UsageError.
    """
    if not scope:
        return plan
    kind, _, text = scope.partition("=")
    parts = _parts(spec, spec.workers)
    names, known = {*text.split(",")}, {*parts.get(kind, ())}
    if kind not in parts or not names <= known:
        there = ", ".join(sorted(known) or [f"{key}=NAME" for key in parts])
        raise UsageError(fault_text(__file__, "no-part", scope=scope, there=there))
    kept = tuple(each for each in plan.probes if _is_within(spec, each, kind, names))
    if not kept:
        raise UsageError(fault_text(__file__, "no-probe", scope=scope))
    hosts = {node for each in kept for node in each.probe.nodes}
    crossed = hosts | {hop.device for each in kept for hop in each.hops}
    pods = dict(zip(plan.workers, plan.memlock, strict=False))
    offers = {host: what for host, what in plan.limits.allocatable.items() if host in hosts}
    return replace(
        plan,
        probes=kept,
        left_out=(*plan.left_out, *(each.probe for each in plan.probes if each not in kept)),
        sources=tuple(each for each in plan.sources if each.endpoint.device in crossed),
        workers=tuple(each for each in plan.workers if each in hosts),
        memlock=tuple(body for host, body in pods.items() if host in hosts),
        ib=tuple(each for each in plan.ib if each.endpoint.device in hosts),
        limits=plan.limits.model_copy(update={"allocatable": offers}),
        policy=replace(plan.policy, scope="" if adds else scope),
    )


def _is_within(spec: ClusterSpec, each: ProbePlan, kind: str, names: Collection[str]) -> bool:
    """Whether a probe is in the part: any host or leaf of a pair, else all its rails or units."""
    probe, is_pair = each.probe, len(each.probe.nodes) <= _PAIR
    if kind == "leaf":
        return is_pair and any(hop.device in names for hop in each.hops)
    if kind == "host":
        return is_pair and bool({*probe.nodes} & {*names})
    units = (host.domain or "" for host in spec.workers if host.name in probe.nodes)
    places = {*(probe.rails if kind == "rail" else units)}
    return bool(places) and places <= {*names}


def _among(spec: ClusterSpec, whole: AcceptancePlan, hosts: Collection[str]) -> AcceptancePlan:
    """Plan acceptance for these workers only, and list the probes left out."""
    if len(hosts) < _PAIR or len(hosts) == len(spec.workers):  # RDMA needs two hosts
        return whole
    kept = tuple(host for host in spec.hosts if host.role != "worker" or host.name in hosts)
    part = plan_acceptance(spec.model_copy(update={"hosts": kept}))
    asked = {(each.probe.name, each.probe.nodes) for each in part.probes}
    left = [each.probe for each in whole.probes if (each.probe.name, each.probe.nodes) not in asked]
    return replace(part, left_out=tuple(left))


def devices_in(spec: ClusterSpec, text: str) -> frozenset[str]:
    """Return the devices of a scope like `host=gpu01,leaf=leaf-01`; UsageError for a wrong one."""
    kind, found, parts = "", set[str](), _parts(spec, spec.reached)
    del parts["rail"]
    for word in text.split(",") if text else ():
        head, sign, name = word.strip().rpartition("=")
        kind = head if sign else kind
        known = parts.get(kind, {})
        if name not in known:
            there = ", ".join(sorted(known) or [f"{key}=NAME" for key in parts])
            raise UsageError(fault_text(__file__, "no-device", word=word.strip(), there=there))
        found |= {*known[name]}
    return frozenset(found)


def part_of(plan: ClusterPlan, only: frozenset[str]) -> ClusterPlan:
    """Return the plan with only the devices of the scope, or all of it without a scope."""
    if not only:
        return plan
    groups = (
        replace(group, steps=tuple(s for s in group.steps if s.request.endpoint.device in only))
        for group in plan.reboots
    )
    return replace(
        plan,
        switches=tuple(each for each in plan.switches if each.name in only),
        hosts=tuple(each for each in plan.hosts if each.name in only),
        reboots=tuple(group for group in groups if group.steps),
    )
