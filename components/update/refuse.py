"""Every reason to refuse an update, asked in one place.

A refusal is a text: its first line says what is wrong, the indented lines below it where and how to
fix it. A new kind of refusal is one function of a `Situation` and one entry of `REFUSALS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from components.core.problem import Lines
from components.disruption.leave_plan import renamed_nodes
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift
from components.hosts.judge_settings import refuse_settings
from components.hosts.preview import hosts_refused
from components.kubernetes.kubespray.changes import kubespray_changes
from components.kubernetes.kubespray.wanted import STEP as KUBESPRAY
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.update.alignment import alignment_refused
from components.update.api_reach import api_refused
from components.update.balancers import balancers_refused
from components.update.decide import refusals
from components.update.first_install import first_install_refused
from components.update.guards import guards_refused
from components.update.identity import identity_refused, renamed_unsaid
from components.update.protect import Loss, find_losses, losses_refused
from components.update.refusals import disruptions_refused
from components.update.seen import Seen
from components.update.servers import quorum_refused
from components.update.upgrades import upgrades_refused


@dataclass(frozen=True, slots=True)
class Situation:
    """One update before its first resource: what is wanted, what was applied, what was seen."""

    spec: ClusterSpec
    plan: ClusterPlan
    applied: Applied
    seen: Seen
    drifts: tuple[DeviceDrift, ...]
    lines: Lines = field(default_factory=Lines)
    """The line of each value in the site file, as `CheckedSite.lines` has it."""
    confirmed: frozenset[str] = frozenset()
    """Names of what this one update may destroy, as they were typed."""

    @property
    def known(self) -> Applied:
        """What was applied, without what the identity refuses to undo: it has one message."""
        names = tuple(
            f"{name}-" for name in renamed_unsaid(self.spec, self.plan, self.applied, self.seen)
        )
        if not names:
            return self.applied
        left = {
            name: step for name, step in self.applied.steps.items() if not name.startswith(names)
        }
        return replace(self.applied, steps=left)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What this update would destroy."""
        return find_losses(self.spec, self.plan, self.known)


def played_playbooks(
    plan: ClusterPlan, applied: Applied
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What kubespray would do in this update, and why it must not."""
    played = applied.step(KUBESPRAY)
    return kubespray_changes(plan.kubernetes, played.stdout if played else "")


REFUSALS: Final[tuple[Callable[[Situation], tuple[str, ...]], ...]] = (
    lambda at: identity_refused(at.spec, at.plan, at.applied, at.seen),
    lambda at: losses_refused(at.losses, at.confirmed),
    lambda at: refusals(at.plan, at.applied, at.drifts),
    lambda at: guards_refused(at.spec.guards, at.plan, at.applied, at.drifts),
    lambda at: disruptions_refused(at.spec, at.plan, at.drifts, at.seen.devices, at.known),
    lambda at: quorum_refused(at.plan, at.applied, at.seen),
    lambda at: first_install_refused(at.plan, at.applied, at.lines),
    lambda at: alignment_refused(at.plan, at.applied, at.lines),
    lambda at: renamed_nodes(at.plan.kubernetes, at.applied),
    lambda at: api_refused(at.plan, at.seen, at.lines),
    lambda at: balancers_refused(at.plan, at.seen, at.lines),
    lambda at: upgrades_refused(at.spec, at.plan, at.applied, at.seen, at.lines),
    lambda at: hosts_refused(at.spec, at.plan.hosts, at.seen.devices),
    lambda at: refuse_settings(at.plan.hosts, at.seen.devices),
    lambda at: played_playbooks(at.plan, at.applied)[1],
)
"""In the order in which they are printed."""


def refuse_update(at: Situation) -> tuple[str, ...]:
    """Every refusal of this update; empty if it may start."""
    return tuple(text for refuse in REFUSALS for text in refuse(at))
