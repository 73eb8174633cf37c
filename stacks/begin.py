"""Begin an update: decide on its situation, refuse it, or say what it will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from components.acceptance.evidence import ForeignSettingSeen, as_seen
from components.acceptance.handover import EVIDENCE_STEP, UNASKED
from components.artefacts.gather import charts_away, fetch_ahead
from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.artefacts.registry import docker_logins
from components.checks.site import CheckedSite, group_problems
from components.core.errors import UsageError
from components.core.problem import Finding, render_finding
from components.core.record import record, replace
from components.drift.applied import Applied
from components.hosts.preview import class_changes, host_changes
from components.kubernetes.live.look import CLUSTER
from components.kubernetes.manifest import HELD
from components.model.cluster import ClusterSpec
from components.model.owners import not_touched
from components.plan.make import ClusterPlan
from components.update.decide import Intentions, intend, judge_situation, unrecorded_switches
from components.update.proof import (
    SCOPE,
    Accept,
    is_edited,
    narrow,
    narrow_to,
    part_of,
    passed,
)
from components.update.refusals import (
    LOSS,
    host_departures,
    known_hosts,
    played_playbooks,
    switch_changes,
)
from components.update.seen import Seen, Situation
from components.update.servers import describe_upgrades, node_versions

Message: TypeAlias = tuple[Literal["warn", "info"], str]


@record
class Orders:
    """The settings of one run, from the command line, the stack or the file."""

    observed: bool
    """Whether the devices were read."""
    accept: Accept
    scope: str = ""
    """The part of the site that acceptance proves; empty for all."""
    only: frozenset[str] = frozenset()
    """The devices that this run reads, judges and changes; empty for all."""
    confirm: str = ""
    """Names of what may be lost in this update, with commas between them."""


def read_orders(
    environ: Mapping[str, str],
    accept: Accept,
    only: frozenset[str],
    observed: bool,  # noqa: FBT001 - the one fact that only the caller has
) -> Orders:
    """Read the settings of one run that only its environment has."""
    part, names = environ.get("RAILYARD_ACCEPT_SCOPE", ""), environ.get("RAILYARD_CONFIRM", "")
    return Orders(observed, accept, part, only, names)


def refuse_scope(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, only: frozenset[str]
) -> None:
    """Refuse a scope if this update would have to change what it does not read.

    Raises:
        UsageError: The text is the whole report.
    """
    steps = {host.name: host.converge.name for host in plan.hosts}
    steps |= {x.name: x.step_named("exec") if x.exec else x.step for x in plan.switches}
    new = [name for name, step in steps.items() if name not in only and not applied.step(step)]
    gone = sorted({*applied.devices_of(spec).values()} - {"", *steps} - {*spec.renamed.all})
    whole = "update the whole site"
    what = fix = ""
    if plan.cloud or plan.hypervisors or plan.piece:
        kind = "cloud instances" if plan.cloud else "hypervisors" if plan.hypervisors else "stacks"
        what, fix = f"this site has {kind}, which an update reads together", whole
    elif not applied.steps:
        what, fix = "the stack was never updated", f"{whole} first"
    elif new:
        what = f"{', '.join(new)} is new in the file, and not in the scope"
        fix = f"name it too, or {whole}"
    elif gone or applied.former:
        names = ", ".join(gone) or f"the steps {', '.join(sorted(applied.former.values()))}"
        what, fix = f"this update would remove or rename {names}", whole
    if what:
        raise UsageError(f"{SCOPE}: {what}.\n  fix    {fix}. Nothing was changed on any device.")


def bring_charts(
    spec: ClusterSpec, lock: Lock, secrets: Mapping[str, str], *, asks: bool
) -> Mapping[str, str]:
    """Fetch the charts and files that the engine and the steps read from this machine.

    Without a lock nothing is pinned. `asks` is whether this run may contact registries, unlike a
    preview that contacts nothing.

    Returns:
        Release to a warning, for each chart that is not on this machine.
    """
    if not asks and spec.sources.bundle is None:
        return {
            release: f"{chart}: this chart of the lock is not on this machine, and with"
            " `railyard:observe: never` a preview fetches nothing. It shows `chart` of this release"
            " as unknown, and not whether the archive fits. An update fetches it."
            for release, chart in charts_away(spec, lock).items()
        }
    if lock.exists or spec.sources.bundle is not None:
        fetch_ahead(Reach(spec, secrets, logins=docker_logins()), lock)
    return {}


@record
class Begun:
    """An accepted update."""

    intentions: Intentions
    messages: tuple[Message, ...]
    foreign: tuple[ForeignSettingSeen, ...] | None
    """Foreign settings that break Railyard's traffic, for the proof of this update; None if nothing
    was read."""

    @property
    def proves(self) -> bool:
        """Whether this update collects evidence."""
        return self.intentions.notes.get(EVIDENCE_STEP) != UNASKED


def begin(
    checked: CheckedSite,
    plan: ClusterPlan,
    applied: Applied,
    seen: Seen,
    orders: Orders,
    parts: tuple[Finding, ...] = (),
) -> Begun:
    """Decide what this update does.

    `seen` is empty if nothing was read; `parts` are the findings about an existing cluster's parts.

    Raises:
        UsageError: The update is refused; the text is the whole report.
    """
    spec = checked.spec_or_raise()
    intentions = intend(plan, applied, seen, orders.accept)
    asked = narrow(spec, plan.acceptance, orders.accept, intentions.changed)
    counts = passed(applied) and not is_edited(plan, applied)
    asked = narrow_to(spec, asked, orders.scope, adds=counts)
    intentions = replace(intentions, plan=replace(intentions.plan, asked=asked))
    typed = [name.strip() for name in orders.confirm.split(",")]
    confirmed = frozenset(name for name in typed if name)
    at = Situation(spec, plan, applied, seen, intentions.drifts, checked.lines, confirmed)
    found = (*judge_situation(at, "update"), *parts)
    if orders.only:
        found = tuple(each for each in found if not each.device or _is_in(each.device, orders.only))
        drifts = tuple(each for each in intentions.drifts if _is_in(each.device, orders.only))
        intentions = replace(intentions, drifts=drifts)
        at = replace(at, plan=part_of(plan, orders.only), drifts=intentions.drifts)
    refuse(found, spec)
    drifts = intentions.drifts if orders.observed else ()
    foreign = (as_seen(each.device, one) for each in drifts for one in each.beside)
    told = replace(intentions, plan=part_of(intentions.plan, orders.only))
    messages = (*_warnings(at, found), *_news(at, orders, told), *_changes(at, told))
    return Begun(intentions, messages, tuple(foreign) if orders.observed else None)


def _is_in(device: str, only: frozenset[str]) -> bool:
    """Whether a device of a finding or of a drift, such as `gpu01 k3s`, is in the scope."""
    return device.partition(" ")[0] in only


def refuse(found: Sequence[Finding], spec: ClusterSpec | None = None) -> None:
    """Refuse an update for every error among the findings, all at once.

    Devices that were not read for one reason make one error; their names come from `spec`.

    Raises:
        UsageError: There is one.
    """
    refused = [each for each in found if each.severity == "error"]
    rules = [each.rule for each in refused]
    lost = group_problems((each for each in refused if each.rule == "unreachable"), spec)
    refused = [*lost, *(each for each in refused if each.rule != "unreachable")]
    refused.sort(key=lambda each: rules.index(each.rule))
    if refused:
        words = "\n".join(map(render_finding, refused))
        raise UsageError(f"{words}\nNothing was changed on any device.")


def _warnings(at: Situation, found: tuple[Finding, ...]) -> Iterator[Message]:
    for each in found:
        if each.severity == "warning" and each.device == CLUSTER:
            yield "warn", f"{CLUSTER}: {each.what[:-1]}: {each.actual}"
        elif each.rule == LOSS:
            yield "warn", each.what
    for line in unrecorded_switches(at.plan, at.drifts, at.seen.devices):
        yield "warn", line


_KINDS: Final[Mapping[str, Message]] = {
    "setting": ("info", "drift"),
    "tool": ("info", "drift"),
    "upgrade": ("info", "upgrade"),
    "unread": ("warn", "not observed"),
    "left": ("warn", "not repaired"),
}
"""Kind of finding to the level and the first word of its message; others warn with the kind."""


def _news(at: Situation, orders: Orders, intentions: Intentions) -> Iterator[Message]:
    if not orders.observed:
        yield "info", "not observed: railyard:observe is `never`, so drift is not detected"
    held = HELD in intentions.notes
    for drift in (*intentions.drifts, intentions.cluster):
        for each in drift.findings:
            if held and each.device == CLUSTER and each.rule == "unread":
                words = (
                    f"{CLUSTER}: the API does not answer ({each.what}), so this update leaves all"
                    " objects and charts as they are, and the next one does the rest"
                )
                yield "warn", words
            else:
                level, kind = _KINDS.get(each.rule, ("warn", each.rule))
                yield level, f"{each.device}: {kind}: {each.what}"
    for line in not_touched(at.plan.unreached):
        yield "info", line


def _changes(at: Situation, intentions: Intentions) -> Iterator[Message]:
    """Yield the changes on devices, and the hosts and nodes that leave service meanwhile."""
    plan, applied, facts = at.plan, at.applied, at.seen.devices
    texts = (
        *switch_changes(at.spec, intentions.plan, applied, facts),
        *host_changes(plan.hosts, facts),
        *class_changes(plan.hosts, known_hosts(plan, facts, applied)),
        *played_playbooks(at)[0],
        *host_departures(plan, facts, applied),
        *describe_upgrades(intentions.plan, node_versions(plan, applied, at.seen)),
    )
    for text in texts:
        yield "info", text
