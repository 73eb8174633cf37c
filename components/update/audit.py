"""Compare devices and cluster with a site file, without a stack and without ownership."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from components.acceptance.handover import EVIDENCE_STEP
from components.core.errors import UsageError
from components.core.plain_text import counted, one_line
from components.core.problem import DIFFERS, Finding, exit_code
from components.core.record import record, replace
from components.drift.applied import Applied, AppliedStep
from components.kubernetes.live.look import CLUSTER
from components.model.owners import not_touched
from components.model.texts import fold_names
from components.plan.make import ClusterPlan
from components.remote.lines import render_lines
from components.remote.step import env_name, render_request
from components.update.cluster import judge_cluster
from components.update.decide import judge_drift
from components.update.observe import observe_site
from components.update.seen import Seen

SCHEMA_VERSION: Final = 1
"""Version of the JSON report; it rises when a key changes its meaning or goes."""
_OWN: Final = "unit.railyard-"
"""Only an update of Railyard makes these units, so an audit does not ask for them."""
_UNMADE: Final = (
    "cloud instances: not read: only a stack knows their addresses (railyard drift STACK)"
)


@record
class Audit:
    """Every deviation of a site's devices from its file."""

    site: str
    read: tuple[str, ...]
    """The devices that answered, `cluster` among them if its API did."""
    findings: tuple[Finding, ...]
    """`rule` is the kind: `unread`, `cluster`, or that of a `DeviceDrift`."""
    not_read: tuple[str, ...] = ()
    """Devices that the file keeps out of reach, and why; they do not count as unread."""

    @property
    def exit_code(self) -> int:
        """0: everything is as the file says, 3: something differs, 4: something was not read."""
        return exit_code(self.findings, DIFFERS)

    def render(self) -> str:
        """The report as text: a line for each device, and its deviations under it."""
        found: dict[str, list[Finding]] = {name: [] for name in self.read}
        for each in self.findings:
            found.setdefault(each.device, []).append(each)
        lines, reasons = list[str](), dict[str, str]()
        for name, differ in found.items():
            unread = [each.what for each in differ if each.rule == "unread"]
            first = reasons.setdefault(unread[0], name) if unread else name
            verdict = counted(len(differ), "difference") if differ else "as the file says"
            verdict = "not read" if unread else verdict
            lines.append(f"{name:<12} {verdict if first == name else f'not read, as {first}'}")
            if first == name:
                lines += [f"{'':<12}   {each.rule:<9} {each.what}" for each in differ]
        count = sum(each.rule != "unread" for each in self.findings)
        summary = f"{len(self.read)} read, {counted(count, 'difference')}. Nothing was changed."
        return "\n".join((*lines, *self.not_read, summary))

    def render_json(self) -> str:
        """The report as JSON: `schema_version`, `site`, `exit_code`, `read`, `deviations`."""
        body = {
            "schema_version": SCHEMA_VERSION,
            "site": self.site,
            "exit_code": self.exit_code,
            "read": list(self.read),
            "not_read": list(self.not_read),
            "deviations": [
                {"device": each.device, "kind": each.rule, "text": each.what}
                for each in self.findings
            ],
        }
        return json.dumps(body, indent=1, sort_keys=True)


def run_audit(site: str, plan: ClusterPlan, secrets: Mapping[str, str]) -> Audit:
    """Compare devices and cluster with a plan; a UsageError lists missing secrets of logins."""
    ends = (*(each.endpoint for each in plan.switches), *(e.step.endpoint for e in plan.watched))
    wanted: dict[str, dict[str, None]] = {}
    for end in ends:
        for name in end.secret_names:
            wanted.setdefault(name, {})[end.device] = None
    missing = [
        f"\n  {env_name(name)}, to log in to {fold_names(devices)}"
        for name, devices in wanted.items()
        if not secrets.get(name)
    ]
    if missing:
        raise UsageError(f"these secrets are not in the environment:{''.join(missing)}")
    applied = as_planned(plan)
    return judge_audit(site, plan, applied, observe_site(plan, secrets, applied))


def judge_audit(site: str, plan: ClusterPlan, applied: Applied, seen: Seen) -> Audit:
    """Compare the readings with the plan; `applied` is `as_planned(plan)`."""
    every = judge_drift(plan, applied, seen)
    drifts = [each for each in every if each.applied]
    cluster = judge_cluster(plan, applied, seen)
    devices = dict.fromkeys(each.device for each in drifts if each.observed)
    away = (_UNMADE,) if len(drifts) < len(every) else ()
    found: list[Finding] = []
    for drift in drifts:
        ours = (each for each in drift.differences if not each.where.startswith(_OWN))
        found += replace(drift, differences=tuple(ours)).findings
    found += (
        each if each.severity == "unreachable" else replace(each, rule=CLUSTER)
        for each in cluster.findings
    )
    for number, each in enumerate(found):  # each on one line
        text, rule = one_line(each.what), each.rule
        if each.severity == "unreachable":
            parts = re.split(r"\n\s*fix\s+", each.what)
            text, rule = "; ".join(" ".join(part.split()) for part in parts), "unread"
        found[number] = replace(each, rule=rule, what=text)
    read = (*devices, *([CLUSTER] if cluster.observed else []))
    return Audit(site, read, tuple(found), (*not_touched(plan.unreached), *away))


def as_planned(plan: ClusterPlan) -> Applied:
    """Return the state that a finished update of this plan would leave, without cloud objects."""
    steps = {each.step.name: AppliedStep(each.desired.render()) for each in plan.watched}
    for each in plan.switches:
        wanted = each.desired.model_dump(mode="json")
        steps[each.step] = AppliedStep(render_request(each.endpoint, os=each.os, desired=wanted))
    steps[EVIDENCE_STEP] = AppliedStep(render_lines({"plan_digest": plan.digest}))
    releases: dict[str, dict[str, JsonValue]] = {
        each.release: {"name": each.release, "namespace": each.namespace, "description": ""}
        for each in plan.operators.charts
    }
    objects = {each.resource_name: dict(each.body) for each in plan.manifests}
    return Applied(steps, objects, releases)
