"""The program of every stack: load, check, plan, observe, compose, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, cast

import pulumi

from components.checks.render import render_problem
from components.checks.site import check_config_value
from components.core.errors import RailyardError
from components.core.problem import Json
from components.drift.applied import Applied
from components.hosts.preview import host_changes, hosts_refused
from components.kubernetes.server_version import check_existing
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.reading.run_settings import choose_setting
from components.reading.site_path import config_file
from components.remote.component import Remote
from components.update.decide import Intentions, intend, refusals, strangers_to_undo
from components.update.observe import observe_site
from components.update.own_state import read_own_state
from components.update.refusals import disruptions_refused, host_departures, switch_changes
from components.update.secret_names import secret_names
from components.update.seen import Seen
from stacks import cloud_ib, esxi, onprem
from stacks.order import trust_order

COMPOSE: Final = {
    "onprem": onprem.compose,
    "esxi": esxi.compose,
    "cloud_ib": cloud_ib.compose,
}
TRACED_CALLS: Final = 9
"""Some seven are the SDK's and the component's own; the rest says which stage it is."""
Observe = Literal["always", "never"]


def run() -> None:
    """Run one stack.

    Raises:
        RunError: The file is wrong, or a device that must change cannot be reached; the text is
            the whole report, and nothing was touched.
    """
    trust_order()
    try:
        _run(pulumi.Config("railyard"))
    except RailyardError as error:
        raise pulumi.RunError(str(error)) from error


def _run(config: pulumi.Config) -> None:
    spec = _load(config)
    plan = make_plan(spec, pulumi.get_stack())
    intentions = _look(config, spec, plan)
    lab = config.get_bool("lab", default=False)
    remote = Remote(config, intentions.notes, "lab" if lab else "real")
    with _short_traces():
        report = COMPOSE[spec.environment.kind](intentions.plan, remote, intentions.run)
    pulumi.export("verdict", report.verdict)
    pulumi.export("cluster", spec.name)


@contextmanager
def _short_traces() -> Generator[None]:
    """Keep the calls nearest to each resource, and not all twenty up to the interpreter's own.

    The SDK sends them and the state keeps them for each resource: a fifth of a small site's state.
    A traceback of an error is formatted later, and is whole.
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = TRACED_CALLS
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before


def _load(config: pulumi.Config) -> ClusterSpec:
    value = cast("Json", config.get_object("cluster"))
    file = config_file(pulumi.get_stack())
    checked = check_config_value(value, file, config.get("site"))
    spec = checked.spec_or_raise()
    for warning in checked.problems:
        pulumi.log.warn(render_problem(warning))
    for waived in checked.waived:
        pulumi.log.warn(str(waived))
    return spec


def _look(config: pulumi.Config, spec: ClusterSpec, plan: ClusterPlan) -> Intentions:
    observe = cast("Observe", _setting(config, "observe"))
    secrets = {name: config.require(name) for name in secret_names(spec)}
    applied = read_own_state()
    seen = _observe(plan, secrets, applied) if observe == "always" else Seen()
    accept = cast("Literal['changed', 'always']", _setting(config, "accept"))
    intentions = intend(plan, applied, seen, accept)
    refused = refusals(plan, applied, intentions.drifts)
    refused += disruptions_refused(spec, plan, intentions.drifts, seen.devices, applied)
    refused += hosts_refused(spec, plan.hosts, seen.devices)
    if refused:
        raise pulumi.RunError("\n".join(refused))
    for line in strangers_to_undo(plan, intentions.drifts, seen.devices):
        pulumi.log.warn(line)
    _tell(observe, intentions)
    changes = switch_changes(spec, plan, applied, seen.devices)
    for text in (*changes, *host_changes(plan.hosts, seen.devices)):
        pulumi.log.info(text)
    for text in host_departures(plan, seen.devices, applied):
        pulumi.log.info(text)
    return intentions


def _observe(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
    """All that this run contacts before its first resource: nothing else may open a connection."""
    if plan.kubernetes is not None and (existing := plan.kubernetes.existing) is not None:
        check_existing(plan.kubernetes, secrets[existing.kubeconfig_secret])
    return observe_site(plan, secrets, applied)


def _setting(config: pulumi.Config, key: str) -> str:
    return choose_setting(key, os.environ.get(f"RAILYARD_{key.upper()}", ""), config.get(key) or "")


def _tell(observe: Observe, intentions: Intentions) -> None:
    if observe == "never":
        pulumi.log.info("not observed: railyard:observe is `never`, so drift is not detected")
    for drift in intentions.drifts:
        if drift.unreachable is not None:
            pulumi.log.warn(f"{drift.device}: not observed: {drift.unreachable}")
        for difference in drift.differences:
            pulumi.log.info(f"{drift.device}: drift: {difference}")
        for found in drift.cabling:
            pulumi.log.warn(f"{drift.device}: cabling: {found}")
        for misplaced in drift.placement:
            pulumi.log.warn(f"{drift.device}: placement: {misplaced.text}")
