"""Judge the pieces of a split site: what each has recorded, and whether all are up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

from components.artefacts.lock import Lock
from components.core.problem import Finding
from components.core.record import record
from components.core.templates import finding_of
from components.drift.applied import Applied
from components.model.cluster import CLUSTER, ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.plan.pieces import Piece, digest_of_piece, pieces_of, plan_piece
from components.update.identity import planned_devices, recorded_devices
from components.update.proof import counted_repairs
from components.update.seen import Situation

SITE: Final = "plan_digest"
"""Output of each piece: the digest of the whole site's plan."""
OWN: Final = "piece_digest"
SINCE: Final = "updated_at"
"""Output of each piece: when an update first had this digest."""
REPAIRS: Final = "repairs"
OF_PIECES: Final = (SITE, OWN, SINCE, REPAIRS)
"""The marks of a piece's stack: a split adds these outputs, a join drops them."""


@record
class Reference:
    """One other stack of the site, as the cluster's stack sees it."""

    piece: Piece
    wanted: str
    """The digest of the piece in the current site file."""
    outputs: Mapping[str, object] | None
    """Its outputs; None if the stack does not exist."""

    @property
    def repairs(self) -> Mapping[str, str]:
        """Its repairs: step to repair note."""
        return cast("Mapping[str, str]", (self.outputs or {}).get(REPAIRS) or {})

    @property
    def fault(self) -> str:
        """What is wrong with it, as a clause; empty if it is up to date."""
        if self.outputs is None:
            return "does not exist"
        digest, since = self.outputs.get(OWN), self.outputs.get(SINCE)
        if not digest:
            return "was never updated completely"
        dated = f"{digest} (since {since})" if since else digest
        words = f"has the plan {dated}, and the site file now gives {self.wanted}"
        return "" if digest == self.wanted else words


def refer(
    spec: ClusterSpec, site: str, lock: Lock, read: Callable[[str], Applied | None]
) -> Iterator[Reference]:
    """Read the outputs of all other stacks, for the cluster's: None if one does not exist."""
    whole = make_plan(spec, site, lock)
    for each in pieces_of(spec, site):
        if each.name != CLUSTER:
            state, wanted = read(each.stack), digest_of_piece(plan_piece(whole, each))
            yield Reference(each, wanted, state and state.outputs)


def outputs_of(
    plan: ClusterPlan, notes: Mapping[str, str], before: Mapping[str, object], now: str
) -> Mapping[str, object]:
    """Return the outputs of a piece, by which the cluster's stack knows it; none for a whole site.

    `plan` is not adapted to the recorded state yet; `before` are the outputs of the last update,
    and `now` is the time in ISO form.
    """
    if not plan.piece:
        return {}
    own = digest_of_piece(plan)
    since = before.get(SINCE) if before.get(OWN) == own else None
    repairs = dict(counted_repairs(notes)) if plan.piece != CLUSTER else {}
    return {SITE: plan.digest, OWN: own, SINCE: since or now, REPAIRS: repairs}


def judge_references(references: tuple[Reference, ...], site: str) -> Iterator[Finding]:
    """Refuse to set up the cluster on devices that are not up to date, or whose stack is gone."""
    for each in references:
        if each.fault:
            row = "stack-reference" if each.outputs is not None else "stack-missing"
            yield finding_of(__file__, row, stack=each.piece.stack, fault=each.fault, site=site)


def judge_taken(
    plan: ClusterPlan,
    applied: Applied,
    others: Iterable[str],
    read: Callable[[str], Applied | None],
) -> Iterator[Finding]:
    """Refuse to set up a device that the state of another stack of the site has.

    Its first settings would be recorded again, and undone by both. `read` returns a stack's state;
    it is asked only if this stack gets a device.
    """
    planned = planned_devices(plan)
    new = planned.keys() - recorded_devices(applied).keys()
    for stack in others if new else ():
        known = recorded_devices(read(stack) or Applied())
        for name in sorted(n for n in new & known.keys() if known[n].is_same(planned[n])):
            row = "stack-moves" if stack != plan.stack else "stack-half-moved"
            why = f"is new in this stack, and the state of stack {stack} has it"
            yield finding_of(__file__, row, device=name, why=why, stack=plan.stack)


def judge_moved(at: Situation) -> Iterator[Finding]:
    """Refuse to undo a device that moves to another stack, or a node that the cluster still has."""
    if not at.plan.piece:
        return
    own = planned_devices(at.plan)
    everywhere = {each.name for each in (*at.spec.hosts, *at.spec.switches)}
    ours = at.spec.k3s is not None or at.spec.kubespray is not None
    for name, device in recorded_devices(at.applied).items():
        if name in own:
            continue
        if name in everywhere:
            why = "is a device of this stack, and the site file has it in another one"
        elif ours and at.plan.piece != CLUSTER and device.kind == "host":
            why = "leaves the site file, and only the cluster's stack can drain its node"
        else:
            continue
        yield finding_of(__file__, "stack-moves", device=name, why=why, stack=at.plan.stack)
