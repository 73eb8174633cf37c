"""A preview from two plans: no engine, no state, no secret and no device."""

from __future__ import annotations

from collections.abc import Mapping

from components.catalogue.switches import find_model
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.left_alone import not_touched
from components.plan.make import ClusterPlan
from components.preview.compare import Change, compare_items
from components.preview.forecast import (
    as_recorded,
    facts_of_plan,
    facts_of_state,
    foretell,
    foretell_upgrades,
    replaced,
)
from components.preview.items import Item, renamed_items
from components.preview.plan_items import items_of_plan
from components.preview.programs import programs_of
from components.preview.report import Preview
from components.update.seen import Facts

NOT_READ = "Nothing was read from devices: drift is not known."
PROVEN_AGAIN = "Acceptance proves the path again after the update."


def preview_plans(
    spec: ClusterSpec, before: ClusterPlan, after: ClusterPlan, reference: str
) -> Preview:
    """What the difference of two files would do to devices that are as the first one says.

    Args:
        spec: The site of the second file.
        before: Plan of the first file.
        after: Plan of the second file.
        reference: Where the first file comes from, in words.
    """
    was = renamed_items(items_of_plan(before, with_limits=True), spec)
    edits = compare_items(was, items_of_plan(after, with_limits=True))
    new = {old: name for name, old in spec.renamed.all.items()}
    facts = {new.get(name, name): each for name, each in facts_of_plan(before).items()}
    recorded = as_recorded(before).follow(spec)
    upgrades = foretell_upgrades(spec, after, recorded)
    alarms = (*replaced(before, after), *foretell(spec, after, facts, recorded), *upgrades)
    return Preview(
        stack=after.stack,
        basis=f"the file against that of {reference}; no device and no state was read",
        alarms=alarms,
        edits=edits,
        repairs=(),
        notes=_notes(after, facts, is_changed=before.digest != after.digest),
        ports=port_orders(after),
    )


def preview_state(
    spec: ClusterSpec, plan: ClusterPlan, recorded: Mapping[str, Item], applied: Applied
) -> Preview:
    """What the file would do to devices that are as they were last applied.

    Args:
        spec: The site of the file.
        plan: Its plan.
        recorded: The items of the recorded state.
        applied: The same state, as steps.
    """
    edits = edits_of(plan, recorded)
    facts = facts_of_state(plan, applied)
    return Preview(
        stack=plan.stack,
        basis="the file against the recorded state; no device was read",
        alarms=(*foretell(spec, plan, facts, applied), *foretell_upgrades(spec, plan, applied)),
        edits=edits,
        repairs=(),
        notes=(
            *_notes(plan, facts, is_changed=bool(edits)),
            *(f"Program: {words}" for words in programs_of(spec).values()),
        ),
        ports=port_orders(plan),
    )


def _notes(after: ClusterPlan, facts: Mapping[str, Facts], *, is_changed: bool) -> tuple[str, ...]:
    devices = (*(switch.name for switch in after.switches), *(host.name for host in after.hosts))
    new = [name for name in devices if name not in facts]
    first = f"Never applied: {', '.join(new)}. What a first update interrupts there is not known."
    known = (NOT_READ, *((first,) if new else ()), *not_touched(after.unreached))
    return (*known, *((PROVEN_AGAIN,) if is_changed else ()))


def edits_of(plan: ClusterPlan, recorded: Mapping[str, Item]) -> tuple[Change, ...]:
    """What the file changes against a recorded state."""
    return compare_items(recorded, items_of_plan(plan, with_limits=False))


def edited_names(plan: ClusterPlan, recorded: Mapping[str, Item]) -> frozenset[str]:
    """The resources that the file changes: what differs there is no drift."""
    wanted = items_of_plan(plan, with_limits=False)
    return frozenset(
        name
        for name in {*wanted, *recorded}
        if compare_items(_only(recorded, name), _only(wanted, name))
    )


def _only(items: Mapping[str, Item], name: str) -> dict[str, Item]:
    return {name: items[name]} if name in items else {}


def port_orders(plan: ClusterPlan) -> dict[str, dict[str, int]]:
    """Switch to its ports in the order of its front."""
    found: dict[str, dict[str, int]] = {}
    for switch in plan.switches:
        model = find_model(switch.model)
        known = model.ports.get(switch.os, ()) if model else ()
        found[switch.name] = {name: number for number, name in enumerate(known)}
    return found
