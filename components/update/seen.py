"""Hold the situation of an update: the wanted, the applied and the read state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from components.cloud.kinds import Item
from components.cloud.observe import CloudFacts, Gone
from components.core.key_values import HostState
from components.core.problem import Lines
from components.core.record import record
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable
from components.fabric.state import SwitchState
from components.kubernetes.live.look import ClusterLook
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan

Facts = SwitchState | HostState | Unreachable | None
"""Facts of one device; None if it was not read."""


@record
class Seen:
    """All facts of one run; empty if nothing was read."""

    devices: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    """Facts by switch, or by the device of a watched step."""
    cloud: CloudFacts = field(default_factory=dict[str, Item | Gone | Unreachable])
    """Facts of each cloud object, by its step."""
    cluster: ClusterLook | Unreachable | None = None
    """Live state of applied Kubernetes objects; None if it was not read."""
    repairs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Repairs by the other stacks of a split site: step to repair note."""

    def host(self, device: str) -> HostState | Unreachable | None:
        """Return the facts of a watched step's device."""
        facts = self.devices.get(device)
        return None if isinstance(facts, SwitchState) else facts

    def switch(self, device: str) -> SwitchState | Unreachable | None:
        """Return the facts of a switch."""
        facts = self.devices.get(device)
        return None if isinstance(facts, HostState) else facts


@dataclass(frozen=True)
class Situation:
    """One update before its first resource: the wanted, applied and observed states."""

    spec: ClusterSpec
    plan: ClusterPlan
    applied: Applied
    seen: Seen = field(default_factory=Seen)
    drifts: tuple[DeviceDrift, ...] = ()
    lines: Lines = field(default_factory=Lines)
    """The line of each value in the site file, as `CheckedSite.lines` has it."""
    confirmed: frozenset[str] = frozenset()
    """Names that the user typed to permit their loss in this update."""

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Device to the address and login by which Railyard reaches it."""
        known = self.applied.instances
        found = {switch.name: switch.endpoint.where for switch in self.plan.switches}
        watched = self.plan.watched
        return found | {each.device: each.step.endpoint.known(known).where for each in watched}
