"""Hold the facts read from devices, the cloud and the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.cloud.observe import CloudFacts, Gone, Item, Unread
from components.core.key_values import HostState
from components.drift.device_drift import Unreachable
from components.fabric.state import SwitchState
from components.kubernetes.live.look import ClusterLook

Facts = SwitchState | HostState | Unreachable | None
"""Facts of one device; None if it was not read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All facts of one run; empty if nothing was read."""

    devices: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    """Facts by switch, or by the device of a watched step."""
    cloud: CloudFacts = field(default_factory=dict[str, Item | Gone | Unread])
    """Facts of each cloud object, by its step."""

    cluster: ClusterLook | Unreachable | None = None
    """Live state of applied Kubernetes objects; None if it was not read."""

    def host(self, device: str) -> HostState | Unreachable | None:
        """Return the facts of a watched step's device."""
        facts = self.devices.get(device)
        return None if isinstance(facts, SwitchState) else facts

    def switch(self, device: str) -> SwitchState | Unreachable | None:
        """Return the facts of a switch."""
        facts = self.devices.get(device)
        return None if isinstance(facts, HostState) else facts
