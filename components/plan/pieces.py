"""Split a site into pieces: its units, its spines and its cluster. Each piece has its own stack.

All pieces have one site file and one plan. On devices and in evidence they use the name of the
site's own stack.
"""

from __future__ import annotations

import hashlib
from typing import Final, get_args

from components.artefacts.lock import Lock
from components.core.errors import UsageError
from components.core.record import record, replace
from components.core.templates import fault_text
from components.core.to_json import json_pieces
from components.disruption.disruption_plan import reboot_parts
from components.fabric.fabric_plan import SwitchStep
from components.model.cluster import CLUSTER, SPINES, ClusterSpec, units_of_hosts
from components.plan.make import ClusterPlan, Part, make_plan

STAGES: Final = ("fabric", "hosts", "reboots")
"""The stages that every piece has; those of Kubernetes and acceptance are only in the cluster."""
PAGE: Final = "docs/howto/several-stacks.md"


@record
class Piece:
    """One stack of a split site."""

    name: str
    """Value of `railyard:piece` in the stack's configuration: the unit's name, or
    `spines` or `cluster`."""
    stack: str
    """Name of the stack: `<stack of the site>-<name>`."""
    parts: tuple[Part, ...]
    """The parts of the plan that it sets up, for its own devices."""
    switches: tuple[str, ...]
    """Names of its switches and hosts, in the order of the file."""
    hosts: tuple[str, ...]
    wave: int
    """Pieces of one wave can be updated at the same time; counted from 0."""
    after: tuple[str, ...]
    """The pieces that an update changes first: the previous wave, or all others for the cluster."""


def pieces_of(spec: ClusterSpec, stack: str) -> tuple[Piece, ...]:
    """List the pieces of a site's own stack in the order of an update; none if it is not split."""
    if spec.stacks is None:
        return ()
    # The spines, then the canaries one by one, then the other units.
    units, canary, size = tuple(spec.stacks.units), spec.stacks.canary, spec.stacks.at_once
    rest = units[canary:]
    waves = [(SPINES,)] if _switches(spec, SPINES) else []
    waves += [(name,) for name in units[:canary]]
    waves += [rest[at : at + size] for at in range(0, len(rest), size)]
    found: list[Piece] = []
    for wave, names in enumerate(waves):
        before = tuple(each.name for each in found if each.wave == wave - 1)
        found += [_piece(spec, stack, name, wave, before) for name in names]
    others = tuple(each.name for each in found)
    last = found[-1].wave + 1
    return (*found, _piece(spec, stack, CLUSTER, last, others))


def other_stacks(spec: ClusterSpec, site: str, stack: str) -> tuple[str, ...]:
    """List the other stacks of a split site.

    Without its piece a stack passes as the site's own, so it is also compared by its name.
    """
    ends = tuple(f"-{each.name}" for each in pieces_of(spec, site) if site == stack)
    sites = dict.fromkeys((site, *map(site.removesuffix, ends)))
    found = [[each, *(piece.stack for piece in pieces_of(spec, each))] for each in sites]
    return tuple(each for names in found for each in names if each != stack)


def _switches(spec: ClusterSpec, name: str) -> tuple[str, ...]:
    units = spec.stacks.units if spec.stacks else {}
    if name in units:
        return tuple(each.name for each in spec.switches if each.name in units[name].leaves)
    leaves = {leaf for unit in units.values() for leaf in unit.leaves}
    spines = tuple(each.name for each in spec.switches if each.name not in leaves)
    return spines if name == SPINES else ()


def _piece(spec: ClusterSpec, stack: str, name: str, wave: int, after: tuple[str, ...]) -> Piece:
    parts: dict[str, tuple[Part, ...]] = {SPINES: ("switches",), CLUSTER: ("hosts", "cluster")}
    unit_of = units_of_hosts(spec)
    hosts = tuple(each.name for each in spec.hosts if unit_of.get(each.name, CLUSTER) == name)
    own = parts.get(name, ("switches", "hosts"))
    return Piece(name, f"{stack}-{name}", own, _switches(spec, name), hosts, wave, after)


def find_piece(spec: ClusterSpec, stack: str, name: str) -> tuple[str, Piece]:
    """Return the name of the site's own stack, and the piece that the stack of a piece sets up.

    `name` is `railyard:piece` of its configuration. UsageError: the file has no such piece, or the
    stack is named after another one.
    """
    site = stack.removesuffix(f"-{name}")
    pieces = pieces_of(spec, site)
    found = next((each for each in pieces if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in pieces) or "none: it has no `stacks`"
        words = {"stack": stack, "name": name, "known": known, "page": PAGE}
        raise UsageError(fault_text(__file__, "no-piece", **words))
    if found.stack != stack:
        words = {"stack": stack, "name": name, "right": found.stack}
        raise UsageError(fault_text(__file__, "other-piece", **words))
    return site, found


def plan_stack(
    spec: ClusterSpec, stack: str, piece: str = "", lock: Lock | None = None
) -> ClusterPlan:
    """Plan one stack: the whole site, or the piece that its configuration names."""
    if not piece:
        return make_plan(spec, stack, lock)
    site, found = find_piece(spec, stack, piece)
    return plan_piece(make_plan(spec, site, lock), found)


def plan_piece(plan: ClusterPlan, piece: Piece) -> ClusterPlan:
    """Keep one piece of a site's plan. Nothing reads or judges the other devices."""
    kept = plan.only(piece.parts)
    reboots = [each for each in kept.reboots if {*each.hosts} <= {*piece.hosts}]
    return replace(
        kept,
        piece=piece.name,
        site_digest=plan.digest,
        switches=tuple(each for each in kept.switches if each.name in piece.switches),
        hosts=tuple(each for each in kept.hosts if each.name in piece.hosts),
        reboots=tuple(replace(each, number=number) for number, each in enumerate(reboots, 1)),
        ports={name: each for name, each in kept.ports.items() if name in piece.switches},
        unreached=tuple(name for name in kept.unreached if name in piece.hosts),
    )


def names_of_piece(plan: ClusterPlan) -> frozenset[str]:
    """Return the names of the resources of its own devices; those on top of hosts are left out."""
    switches = {
        name for each in plan.switches for name in map(each.step_named, get_args(SwitchStep))
    }
    hosts = {step.name for each in plan.hosts for step in (each.sending, *each.all_steps)}
    return frozenset(switches | hosts | {f"reboots-{each}" for each in reboot_parts(plan.reboots)})


def digest_of_piece(plan: ClusterPlan) -> str:
    """A short fingerprint of one piece. Edits of other pieces do not change it."""
    found = hashlib.sha256()
    for value in (plan.switches, plan.hosts, plan.reboots):
        for text in json_pieces(value):
            found.update(text.encode())
    return found.hexdigest()[:16]
