"""Tier 1: a good first run, then three random edits of the file, each of them judged."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from campaign.history import CRASH, History
from campaign.intent.decide import Circumstances, Decision, decide
from campaign.intent.edits import edit_site
from campaign.intent.engine import by_engine, disagreements, in_clear, recorded_again
from campaign.intent.judge import Update, judge, summary
from campaign.intent.record import Registration, register
from campaign.intent.sites import Base, Site, base_of, choose_base
from campaign.intent.world import World, printed_by
from components.checks.site import CheckedSite, check_config_value
from components.core.record import record, replace
from components.plan.make import ClusterPlan
from components.update.seen import Seen
from tests.graph.dev_site import STDOUT
from tests.graph.example_sites import printed_of

EDITS: Final = 3
_OWN: Final = frozenset({"dev", "three-servers"})
"""Sites of the dev stack, whose steps print what `tests/graph/dev_site.py` says."""
PREVIEWS: Final = 0.4
"""Share of the updates of which the preview is compared: it costs as much as the rest."""
BY_ENGINE: Final = 0.01
"""Share of the updates that go the long way too."""
TRIES: Final = 4
"""How many edits a person makes until the rules let one pass."""


@record
class Stand:
    """A site at rest."""

    base: Base
    site: Site
    plan: ClusterPlan
    registration: Registration
    world: World


@cache
def first_run(name: str) -> tuple[Stand, Mapping[str, str]]:
    """A good first update of a site, and what its steps print."""
    base = base_of(name)
    decision = decide(base.site, Circumstances(name))
    if decision.plan is None:
        raise AssertionError(f"the first update of {name} was refused: {decision.refused}")
    given = printed_of(decision.plan) | (STDOUT if name in _OWN else {})
    made = register(decision, Registration(), printed_by(decision.plan, given))
    world = World().after(decision.plan, made)
    return Stand(base, base.site, decision.plan, made, world), given


def play(history: History) -> None:
    """Play one history of edits."""
    chance = history.chance()
    base = choose_base(chance)
    stand, given = first_run(base.name)
    history.say(f"site {base.name}")
    policy = _policy(chance)
    for number in range(1, EDITS + 1):
        edited = _edit(history, chance, stand.site, policy, number)
        if edited is not None:
            stand = _update(history, chance, stand, edited, given)


def _policy(chance: random.Random) -> dict[str, str]:
    """Mostly the one under which nothing may be lost."""
    if chance.random() < 0.6:  # noqa: PLR2004 - the interesting case more often than each other
        return {"ports": "deny", "reboots": "deny"}
    words = ["allow", "deny"]
    return {"ports": chance.choice(words), "reboots": chance.choice(words)}


def _edit(
    history: History, chance: random.Random, site: Site, policy: Mapping[str, str], number: int
) -> tuple[Site, CheckedSite] | None:
    """An edit that the rules of the file let pass."""
    for _ in range(TRIES):
        changed = copy.deepcopy(site)
        if number == 1:
            changed["disruption"] = {**changed.get("disruption", {}), **policy}
        words = edit_site(chance, changed)
        checked = check_config_value(changed, None, None)
        history.counts["edits"] += 1
        if checked.spec is not None:
            history.say(f"edit {number}: {words}")
            return changed, checked
        history.counts["edits refused by a rule of the file"] += 1
    return None


def _update(
    history: History,
    chance: random.Random,
    stand: Stand,
    edited: tuple[Site, CheckedSite],
    given: Mapping[str, str],
) -> Stand:
    """One update: what is decided, and what comes of it."""
    site, checked = edited
    looks = chance.random() < 0.7  # noqa: PLR2004 - as the default of a stack, mostly
    look = _look(stand.world, chance) if looks else None
    at = Circumstances(stand.base.name, stand.registration.applied, look, checked)
    history.counts["updates"] += 1
    slow = chance.random() < BY_ENGINE
    try:
        decision = decide(site, at)
    except Exception as error:  # noqa: BLE001 - whatever the product raises is a finding
        history.fail(CRASH, f"{type(error).__name__}: {str(error)[:300]}")
        return stand
    if slow:
        _compare(history, (site, checked), at, decision, stand, given)
    if decision.plan is None:
        history.counts["updates refused"] += 1
        history.say(f"  refused: {decision.refused.strip().splitlines()[0]}")
        return stand
    made = register(decision, stand.registration, printed_by(decision.plan, given))
    spec = checked.spec_or_raise()
    update = Update(site, spec, stand.plan, decision.plan, stand.registration, made, decision)
    _tell(history, update, looks=looks)
    for finding in judge(update, previews=chance.random() < PREVIEWS):
        history.fail(finding.invariant, finding.text)
    world = stand.world.after(decision.plan, made)
    return replace(stand, site=site, plan=decision.plan, registration=made, world=world)


def _look(world: World, chance: random.Random) -> Callable[[ClusterPlan], Seen]:
    """A look of one update: it finds the same whoever asks."""
    found: list[Seen] = []

    def look(plan: ClusterPlan) -> Seen:
        if not found:
            found.append(world.look(plan, chance))
        return found[0]

    return look


def _compare(
    history: History,
    edited: tuple[Site, CheckedSite],
    at: Circumstances,
    decision: Decision,
    stand: Stand,
    given: Mapping[str, str],
) -> None:
    """Go the long way too, by the recording engine: it must come to the same."""
    site, checked = edited
    made, printed = None, given
    if decision.plan is not None:
        printed = printed_by(decision.plan, given)
        made = register(decision, stand.registration, printed)
    graph, refused = by_engine(site, checked.spec_or_raise(), at, printed)
    history.counts["updates also by the recording engine"] += 1
    for words in disagreements(decision, made, graph, refused):
        history.fail(CRASH, f"both ways differ: {words}")
    for finding in (*in_clear(graph), *recorded_again(graph)):
        history.fail(finding.invariant, finding.text)


def _tell(history: History, update: Update, *, looks: bool) -> None:
    counts = summary(update)
    policy = update.spec.disruption
    history.counts.update(counts)
    words = ", ".join(f"{key} {value}" for key, value in counts.items() if value)
    look = "looked" if looks else "not looked"
    history.say(f"  ports {policy.ports}, reboots {policy.reboots}, {look}: {words or 'nothing'}")
