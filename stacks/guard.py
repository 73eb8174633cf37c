"""Before the first resource of a stack: load, check, plan, observe, refuse."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

import pulumi

from components.acceptance.report.archive import keep_foreign_settings
from components.artefacts.lock import Lock
from components.checks.render import render_problem
from components.checks.site import CheckedSite, check_config_value, load_checked_site
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import plain_text
from components.core.problem import Json, render_finding
from components.core.record import record, replace
from components.drift.applied import Applied
from components.model.cluster import CLUSTER, ClusterSpec
from components.plan.make import PARTS, ClusterPlan, Part, make_plan
from components.plan.pieces import find_piece, other_stacks, plan_piece
from components.project.engine import refuse_lab_parts
from components.reading.load import choose_setting
from components.reading.site_path import config_file, pieces_beside
from components.remote.component import Remote
from components.remote.objects import WithMade
from components.update.cluster import judge_existing, open_existing
from components.update.observe import Looks, observe_site
from components.update.pieces import OWN, judge_references, judge_taken, outputs_of, refer
from components.update.proof import SCOPE, Accept, devices_in
from components.update.secrets import outside_secrets, secret_names
from components.update.seen import Seen
from stacks.begin import Message, begin, bring_charts, read_orders, refuse, refuse_scope
from stacks.inputs import GivenSecrets
from stacks.order import trust_order
from stacks.own_state import (
    hold_others,
    note_names,
    read_other_state,
    read_own_state,
)

Observe = Literal["always", "never"]
_WHOLE: Final = (
    "the site file splits the site into several stacks, and stack {0} has nothing: it would set up"
    " the whole site.\n  fix    `railyard site split {0}` makes the stacks, and"
    " `railyard site up {0}` updates them; for one stack, remove `stacks` from the file.\n"
    "Nothing was touched."
)
_JOIN: Final = (
    "{1}: the site is split, and its file lacks `stacks`.\n  fix    put `stacks` back into the"
    " file; for one stack, run `railyard site join {0}` before you remove it.\nNothing was touched."
)
_NO_PIECE: Final = (
    "{1}: Pulumi.{0}.yaml lacks `railyard:piece`, so it would set up the whole site.\n  fix   "
    " bring the line back: `pulumi config set railyard:piece UNIT --stack {0}`; if it is a site of"
    " its own, give its units other names, and remove `piece_digest` from its outputs (pulumi stack"
    " export, then import).\nNothing was touched."
)


@record
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
    outputs: Mapping[str, object]
    """Outputs of a piece of a split site, by which the cluster's stack knows it."""
    scope: str = ""
    """The part of the site that this run reads and changes; empty for all."""

    def outputs_after(self, done: pulumi.Output[str]) -> Mapping[str, pulumi.Output[object]]:
        """Return `outputs`, which wait for the last step: after a failure the old ones remain.

        Those of a `Site` whose inputs changed are gone until an update succeeds: the engine drops
        the outputs of a component that it updates.
        """
        return {name: done.apply(lambda _, it=it: it) for name, it in self.outputs.items()}


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


def _guard(
    config: pulumi.Config,
    checked: CheckedSite,
    parts: Collection[Part],
    given: GivenSecrets | None,
) -> Guarded:
    spec, lock, preview = checked.spec_or_raise(), checked.lock, pulumi.runtime.is_dry_run()
    lab = config.get_bool("lab", default=False) is True
    refuse_lab_parts(spec, pulumi.get_stack(), is_lab=lab)
    plan, parts = _plan(config, spec, lock, parts)
    fetches = {*parts} != {"switches"}  # switches need no files or charts
    if fetches and (unpinned := refused_unpinned(spec, lock, lab=lab)):
        raise refusal(f"{unpinned}\nNothing was touched.")
    names = secret_names(spec)
    if {*parts} != {*PARTS}:
        names = tuple(name for name in names if name in plan.secret_names)
    given = given or GivenSecrets({}, {})
    given.check(secret_names(spec), names, config)
    own = {name: config.require(name) for name in names if name not in given.outputs}
    own |= given.texts
    outside = outside_secrets(spec, os.environ, own)
    looks = _looks(config, given)
    if fetches:
        away = bring_charts(spec, lock, own | outside, asks=looks or not preview)
        plan = replace(plan, operators=plan.operators.without(away))
        _log([("warn", text) for text in away.values()])
    applied, registered = read_own_state(spec), note_names()
    _refuse_doubled(spec, plan, applied, whole={*parts} == {*PARTS})
    only, kept = _scope(spec, plan, applied)
    calls = open_existing(plan.kubernetes, own | outside) if looks and not only else None
    seen = observe_site(plan, own | outside, applied, Looks(only=only)) if looks else Seen()
    if plan.piece == CLUSTER:
        seen = replace(seen, repairs=_other_repairs(spec, plan.stack, lock))
    there = judge_existing(spec, plan, applied, calls) if calls else ()
    accept = cast("Accept", _setting(config, "accept", spec.acceptance.accept))
    begun = begin(checked, plan, applied, seen, read_orders(os.environ, accept, only, looks), there)
    _log(begun.messages)
    if begun.proves and not preview and not only:
        keep_foreign_settings(plan.stack, begun.intentions.run, begun.foreign)
    made = {name: pulumi.Output.secret(value) for name, value in outside.items()}
    made |= {**given.outputs}
    provenance, ours = "lab" if lab else "real", begun.intentions
    remote = Remote(WithMade(config, made), ours.notes, provenance, stack=plan.stack, kept=kept)
    now, scope = datetime.now(UTC).isoformat(timespec="seconds"), os.environ.get(SCOPE, "")
    outputs = outputs_of(plan, ours.notes, applied.outputs, now)
    return Guarded(spec, ours.plan, remote, ours.run, applied, registered, outputs, scope)


def _refuse_doubled(spec: ClusterSpec, plan: ClusterPlan, applied: Applied, *, whole: bool) -> None:
    """Refuse to set up in one stack of a split site what another one has."""
    if whole and spec.stacks and not applied.steps:
        raise refusal(_WHOLE.format(plan.stack))
    others = other_stacks(spec, plan.stack, pulumi.get_stack())
    if not (spec.stacks or applied.steps):
        others = pieces_beside(plan.stack)
    taken = judge_taken(plan, applied, others, read_other_state)
    if plan.piece:
        refuse(tuple(taken))
    elif OWN in applied.outputs:
        marked = f"the state of stack {plan.stack} is a piece of a split site"
        raise refusal(_NO_PIECE.format(plan.stack, marked))
    elif first := next(taken, None):
        text = _NO_PIECE if spec.stacks else _JOIN
        raise refusal(text.format(plan.stack, first.what))


def _scope(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied
) -> tuple[frozenset[str], Mapping[str, str]]:
    """Return the devices of a scope, and what the state keeps of the others; empty without one."""
    only = devices_in(spec, os.environ.get(SCOPE, ""))
    if not only:
        return only, {}
    refuse_scope(spec, plan, applied, only)
    return only, hold_others(spec, applied, only)


def _plan(
    config: pulumi.Config, spec: ClusterSpec, lock: Lock, parts: Collection[Part]
) -> tuple[ClusterPlan, Collection[Part]]:
    """Plan the parts of this stack: those of its piece of a split site, else the given ones."""
    stack, name = pulumi.get_stack(), config.get("piece")
    if not name:
        return make_plan(spec, stack, lock).only(parts), parts
    site, piece = find_piece(spec, stack, name)
    return plan_piece(make_plan(spec, site, lock), piece), piece.parts


def _other_repairs(spec: ClusterSpec, site: str, lock: Lock) -> Mapping[str, str]:
    """Return the repairs of the other stacks; refuse if one of them is not up to date."""
    others = tuple(refer(spec, site, lock, read_other_state))
    faults = tuple(judge_references(others, site))
    if not pulumi.runtime.is_dry_run():
        refuse(faults)
    _log([("warn", render_finding(each)) for each in faults])
    return {step: note for each in others for step, note in each.repairs.items()}


def _looks(config: pulumi.Config, given: GivenSecrets) -> bool:
    """Whether this run reads the devices."""
    observe = cast("Observe", _setting(config, "observe"))
    if given.unknown and observe == "always":
        text = "a secret is not known before the update, so this preview reads no device"
        _log([("warn", text)])
    return observe == "always" and not given.unknown


def _load(config: pulumi.Config) -> CheckedSite:
    value = cast("Json", config.get_object("cluster"))
    file = config_file(pulumi.get_stack())
    return _tell_site(
        check_config_value(value, file, config.get("site"), partial(_is_given, config))
    )


def _is_given(config: pulumi.Config, name: str) -> bool:
    """Whether the engine gave a secret as one: a value in clear text does not count."""
    return pulumi.runtime.is_config_secret(f"railyard:{name}") and config.get(name) is not None


def _tell_site(checked: CheckedSite) -> CheckedSite:
    checked.spec_or_raise()
    texts = (*map(render_problem, checked.problems), *map(str, checked.waived))
    _log([("warn", text) for text in texts])
    return checked


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
