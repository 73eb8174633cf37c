"""The program of every stack: load, check, plan, observe, compose, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

import pulumi

from components.acceptance.report.archive import keep_foreign_settings
from components.checks.render import render_problem
from components.checks.site import CheckedSite, check_config_value, load_checked_site
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import plain_text
from components.core.problem import Json
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.plan.make import PARTS, ClusterPlan, Part, make_plan
from components.preflight.cluster import check_existing
from components.project.engine import refuse_lab_parts
from components.reading.load import choose_setting
from components.reading.site_path import config_file
from components.remote.component import Remote
from components.remote.handoffs import AcceptanceReport
from components.remote.objects import WithMade
from components.update.begin import Message, begin, bring_charts, read_orders
from components.update.cluster import look_at_existing
from components.update.observe import observe_site
from components.update.own_state import note_names, read_own_state
from components.update.proof import Accept, stale_after
from components.update.secrets import outside_secrets, secret_names
from components.update.seen import Seen
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
    spec, lock, preview = checked.spec_or_raise(), checked.lock, pulumi.runtime.is_dry_run()
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
    looks = _looks(config, given)
    if {*parts} != {"switches"}:  # switches need no files or charts
        away = bring_charts(spec, lock, own | outside, asks=looks or not preview)
        plan = replace(plan, operators=plan.operators.without(away))
        _log([("warn", text) for text in away.values()])
    applied, registered = read_own_state(spec), note_names()
    seen = _observe(plan, own | outside, applied) if looks else Seen()
    there = look_at_existing(spec, plan, applied, own | outside) if looks else ()
    accept = cast("Accept", _setting(config, "accept", spec.acceptance.accept))
    begun = begin(checked, plan, applied, seen, read_orders(os.environ, accept, looks), there)
    _log(begun.messages)
    if begun.proves and not preview:
        keep_foreign_settings(pulumi.get_stack(), begun.intentions.run, begun.foreign)
    made = {name: pulumi.Output.secret(value) for name, value in outside.items()}
    made |= {**given.outputs}
    provenance = "lab" if lab else "real"
    remote = Remote(WithMade(config, made), begun.intentions.notes, provenance)
    return Guarded(spec, begun.intentions.plan, remote, begun.intentions.run, applied, registered)


def _looks(config: pulumi.Config, given: GivenSecrets) -> bool:
    """Whether this run reads the devices."""
    observe = cast("Observe", _setting(config, "observe"))
    if given.unknown and observe == "always":
        text = "a secret is not known before the update, so this preview reads no device"
        _log([("warn", text)])
    return observe == "always" and not given.unknown


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
    texts = (*map(render_problem, checked.problems), *map(str, checked.waived))
    _log([("warn", text) for text in texts])
    return checked


def _observe(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
    """Read all devices and the cluster before the first resource; nothing else may connect."""
    if plan.kubernetes is not None and (existing := plan.kubernetes.existing) is not None:
        check_existing(plan.kubernetes, secrets[existing.kubeconfig_secret])
    return observe_site(plan, secrets, applied)


def _setting(config: pulumi.Config, key: str, of_site: str = "") -> str:
    """A setting of the run: from the environment, else the stack, else the site's file."""
    from_stack = config.get(key) or of_site
    return choose_setting(key, os.environ.get(f"RAILYARD_{key.upper()}", ""), from_stack)


def refusal(text: str) -> pulumi.RunError:
    """Return the error whose text is the whole report, without a traceback."""
    return pulumi.RunError(plain_text(text))


def _log(messages: Iterable[Message]) -> None:
    for level, text in messages:
        (pulumi.log.warn if level == "warn" else pulumi.log.info)(plain_text(text))
