"""The program of every stack: load, check, plan, observe, compose, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

import pulumi

from components.acceptance.evidence import as_seen
from components.acceptance.handover import EVIDENCE_STEP, UNASKED
from components.acceptance.report.archive import keep_foreign_settings
from components.artefacts.gather import charts_away, fetch_ahead
from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.artefacts.registry import docker_logins
from components.checks.render import render_problem
from components.checks.site import CheckedSite, check_config_value, load_checked_site
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import plain_text
from components.core.problem import Json
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift
from components.hosts.preview import class_changes, host_changes
from components.kubernetes.live.look import CLUSTER, ClusterDrift
from components.kubernetes.manifest import HELD
from components.model.cluster import ClusterSpec
from components.model.owners import not_touched
from components.plan.make import PARTS, ClusterPlan, Part, make_plan
from components.preflight.cluster import check_existing
from components.project.engine import refuse_lab_parts
from components.reading.load import choose_setting
from components.reading.site_path import config_file
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from components.remote.objects import WithMade
from components.update.cluster import look_at_existing, parts_refused
from components.update.decide import Intentions, intend, unrecorded_switches
from components.update.observe import observe_site
from components.update.own_state import note_names, read_own_state
from components.update.proof import (
    Accept,
    is_edited,
    narrow,
    narrow_to,
    passed,
    stale_after,
)
from components.update.refusals import host_departures, known_hosts, switch_changes
from components.update.refuse import Situation, played_playbooks, refuse_update
from components.update.secrets import outside_secrets, secret_names
from components.update.seen import Seen
from components.update.servers import describe_upgrades, node_versions
from stacks import cloud_ib, esxi, onprem
from stacks.inputs import GivenSecrets
from stacks.order import trust_order

COMPOSE: Final = {
    "onprem": onprem.compose,
    "esxi": esxi.compose,
    "cloud_ib": cloud_ib.compose,
}
TRACED_CALLS: Final = 7
"""Calls of the SDK and of the component; the resource's parent already shows the stage."""
Observe = Literal["always", "never"]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A checked and observed site that was not refused, with the input of its components."""

    spec: ClusterSpec
    plan: ClusterPlan
    remote: Remote
    run: int
    """Number of the acceptance run; a new number proves the path again."""
    applied: Applied
    """The state of the stack's last update."""
    registered: AbstractSet[str]
    """The names of the resources that the program has registered since then; it grows."""


def guarded(
    site: Path | CheckedSite | None = None,
    parts: Collection[Part] = PARTS,
    secrets: GivenSecrets | None = None,
) -> Guarded:
    """Give a program of your own the refusals and warnings of the whole program.

    It checks the site, reads its devices (unless `railyard:observe` is `never`), compares them with
    the last update of this stack, and refuses changes that an update must not make. It changes
    nothing.

    Args:
        site: The site file; by default the one in the stack's configuration.
        parts: The parts of the site that the program sets up. The others are neither read nor
            judged, and their secrets may be missing.
        secrets: Secrets that are not in the stack's configuration.

    Raises:
        RunError: As `run`.
    """
    trust_order()
    try:
        config = pulumi.Config("railyard")
        if isinstance(site, Path):
            site = load_checked_site(site)
        checked = _load(config) if site is None else _tell_site(site)
        return _guard(config, checked, parts, secrets)
    except RailyardError as error:
        raise refusal(str(error)) from error


def run() -> None:
    """Run one stack.

    Raises:
        RunError: The file is wrong, or a device that must change cannot be reached; the text is
            the whole report, and no device was changed.
    """
    ready = guarded()
    pulumi.export("verdict", compose(ready).verdict)
    pulumi.export("cluster", ready.spec.name)


def compose(ready: Guarded) -> AcceptanceReport:
    """Register the stages of a site, in their order."""
    with _short_traces():
        report = COMPOSE[ready.spec.environment.kind](ready.plan, ready.remote, ready.run)
    stale = stale_after(ready.applied, ready.registered, pulumi.get_stack())
    verdict = report.verdict.apply(lambda text: text and text + stale) if stale else report.verdict
    return replace(report, verdict=verdict)


def _guard(
    config: pulumi.Config,
    checked: CheckedSite,
    parts: Collection[Part],
    given: GivenSecrets | None,
) -> Guarded:
    spec, lock = checked.spec_or_raise(), checked.lock
    lab = config.get_bool("lab", default=False) is True
    refuse_lab_parts(spec, pulumi.get_stack(), is_lab=lab)
    if unpinned := refused_unpinned(spec, lock, lab=lab):
        raise refusal(f"{unpinned}\nNothing was touched.")
    plan = make_plan(spec, pulumi.get_stack(), lock).only(parts)
    names = secret_names(spec)
    if {*parts} != {*PARTS}:
        names = tuple(name for name in names if name in plan.secret_names)
    if given is not None:
        given.check(secret_names(spec), names, config)
    given = given or GivenSecrets({}, {})
    own = {name: config.require(name) for name in names if name not in given.outputs}
    own |= given.texts
    outside = outside_secrets(spec, os.environ, own)
    secrets = own | outside
    observe = cast("Observe", _setting(config, "observe"))
    if given.unknown and observe == "always":
        observe = "never"
        _warn("a secret is not known before the update, so this preview reads no device")
    looks = observe == "always"
    if {*parts} == {"switches"}:
        pass  # switches need no files or charts
    elif looks or spec.sources.bundle is not None or not pulumi.runtime.is_dry_run():
        _fetch_ahead(spec, lock, secrets)
    else:
        plan = _without_charts(plan, charts_away(spec, lock))
    applied, registered = read_own_state(spec), note_names()
    intentions = _look(config, checked, plan, secrets, applied, observe)
    made = {name: pulumi.Output.secret(value) for name, value in outside.items()}
    remote = Remote(
        WithMade(config, {**made, **given.outputs}), intentions.notes, "lab" if lab else "real"
    )
    return Guarded(spec, intentions.plan, remote, intentions.run, applied, registered)


def _fetch_ahead(spec: ClusterSpec, lock: Lock, secrets: Mapping[str, str]) -> None:
    """Fetch the charts and files that the engine and the steps read from this machine."""
    if not lock.exists and spec.sources.bundle is None:
        return  # without a lock nothing is pinned
    fetch_ahead(Reach(spec, secrets, logins=docker_logins()), lock)


def _without_charts(plan: ClusterPlan, away: Mapping[str, str]) -> ClusterPlan:
    """Drop charts that are not on this machine from a preview that contacts nothing."""
    for chart in away.values():
        _warn(
            f"{chart}: this chart of the lock is not on this machine, and with `railyard:observe:"
            " never` a preview fetches nothing. It shows `chart` of this release as unknown, and"
            " not whether the archive fits. An update fetches it."
        )
    return replace(plan, operators=plan.operators.without(away))


@contextmanager
def _short_traces() -> Generator[None]:
    """Keep only the nearest calls of each resource, not all twenty up to the interpreter's own.

    The SDK sends them and the state keeps them for each resource: a fifth of a small site's state.
    The traceback of an error is formatted later, and is whole.
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


def _load(config: pulumi.Config) -> CheckedSite:
    value = cast("Json", config.get_object("cluster"))
    file = config_file(pulumi.get_stack())
    return _tell_site(check_config_value(value, file, config.get("site")))


def _tell_site(checked: CheckedSite) -> CheckedSite:
    checked.spec_or_raise()
    for warning in checked.problems:
        _warn(render_problem(warning))
    for waived in checked.waived:
        _warn(str(waived))
    return checked


def _look(
    config: pulumi.Config,
    checked: CheckedSite,
    plan: ClusterPlan,
    secrets: Mapping[str, str],
    applied: Applied,
    observe: Observe,
) -> Intentions:
    spec = checked.spec_or_raise()
    seen = _observe(plan, secrets, applied) if observe == "always" else Seen()
    accept = cast("Accept", _setting(config, "accept", spec.acceptance.accept))
    intentions = intend(plan, applied, seen, accept)
    asked = narrow(spec, plan.acceptance, accept, intentions.changed)
    counts = passed(applied) and not is_edited(plan, applied)
    asked = narrow_to(spec, asked, os.environ.get("RAILYARD_SCOPE", ""), adds=counts)
    intentions = replace(intentions, plan=replace(intentions.plan, asked=asked))
    typed = os.environ.get("RAILYARD_CONFIRM", "").split(",")
    confirmed = frozenset(name.strip() for name in typed if name.strip())
    drifts, lines = intentions.drifts, checked.lines
    situation = Situation(spec, plan, applied, seen, drifts, lines, confirmed)
    refused = refuse_update(situation)
    refused += _parts_refused(spec, plan, applied, secrets) if observe == "always" else ()
    if refused:
        raise refusal("\n".join(refused))
    for loss in situation.losses:
        _warn(f"WILL BE LOST: {loss.what}")
    for line in unrecorded_switches(plan, intentions.drifts, seen.devices):
        _warn(line)
    _tell(observe, intentions)
    for line in not_touched(plan.unreached):
        _inform(line)
    _hand_beside(observe, intentions)
    changes = switch_changes(spec, intentions.plan, applied, seen.devices)
    playbooks, _ = played_playbooks(plan, applied)
    hosts = (
        *host_changes(plan.hosts, seen.devices),
        *class_changes(plan.hosts, known_hosts(plan, seen.devices, applied)),
    )
    for text in (*changes, *hosts, *playbooks):
        _inform(text)
    for text in host_departures(plan, seen.devices, applied):
        _inform(text)
    for text in describe_upgrades(intentions.plan, node_versions(plan, applied, seen)):
        _inform(text)
    return intentions


def _hand_beside(observe: Observe, intentions: Intentions) -> None:
    """Keep foreign settings that break Railyard's traffic, for the proof of this update."""
    if pulumi.runtime.is_dry_run() or intentions.notes.get(EVIDENCE_STEP) == UNASKED:
        return
    found = [as_seen(drift.device, each) for drift in intentions.drifts for each in drift.beside]
    keep_foreign_settings(
        pulumi.get_stack(), intentions.run, found if observe == "always" else None
    )


def _parts_refused(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, secrets: Mapping[str, str]
) -> tuple[str, ...]:
    """Compare the parts that an existing cluster has with the site's choice for each part."""
    if plan.kubernetes is None or (existing := plan.kubernetes.existing) is None:
        return ()
    found = look_at_existing(spec, plan, applied, secrets[existing.kubeconfig_secret])
    for each in found:
        if each.severity == "warning":
            _warn(f"{CLUSTER}: {each.what[:-1]}: {each.actual}")
    return parts_refused(found)


def _observe(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
    """Read all devices and the cluster before the first resource; nothing else may connect."""
    if plan.kubernetes is not None and (existing := plan.kubernetes.existing) is not None:
        check_existing(plan.kubernetes, secrets[existing.kubeconfig_secret])
    return observe_site(plan, secrets, applied)


def _setting(config: pulumi.Config, key: str, of_site: str = "") -> str:
    """A setting of the run: from the environment, else the stack, else the site's file."""
    from_stack = config.get(key) or of_site
    return choose_setting(key, os.environ.get(f"RAILYARD_{key.upper()}", ""), from_stack)


def _tell(observe: Observe, intentions: Intentions) -> None:
    if observe == "never":
        _inform("not observed: railyard:observe is `never`, so drift is not detected")
    for drift in intentions.drifts:
        _tell_device(drift)
    _tell_cluster(intentions.cluster, held=HELD in intentions.notes)


def _tell_device(drift: DeviceDrift) -> None:
    if drift.unreachable is not None:
        _warn(f"{drift.device}: not observed: {drift.unreachable}")
    for difference in drift.differences:
        _inform(f"{drift.device}: drift: {difference}")
    if drift.ahead:
        _inform(f"{drift.device}: upgrade: {drift.ahead}")
    for found in drift.cabling:
        _warn(f"{drift.device}: cabling: {found}")
    for misplaced in drift.placement:
        _warn(f"{drift.device}: placement: {misplaced.text}")
    for beside in drift.beside:
        _warn(f"{drift.device}: beside: {beside}")
    for lost in drift.routing:
        _warn(f"{drift.device}: routing: {lost}")


def _tell_cluster(drift: ClusterDrift, *, held: bool) -> None:
    for line in drift.lost:
        _warn(f"{CLUSTER}: lost: {line}")
    if held:
        _warn(
            f"{CLUSTER}: the API does not answer ({drift.unreachable}), so this update leaves all"
            " objects and charts as they are, and the next one does the rest"
        )
    elif drift.unreachable is not None:
        _warn(f"{CLUSTER}: not observed: {drift.unreachable}")
    for line in drift.repaired:
        _inform(f"{CLUSTER}: drift: {line}")
    for line in drift.left:
        _warn(f"{CLUSTER}: not repaired: {line}")


def refusal(text: str) -> pulumi.RunError:
    """Return the error whose text is the whole report, without a traceback."""
    return pulumi.RunError(plain_text(text))


def _warn(text: str) -> None:
    pulumi.log.warn(plain_text(text))


def _inform(text: str) -> None:
    pulumi.log.info(plain_text(text))
