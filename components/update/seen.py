"""What one look at a site found: its devices, and what a cloud holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.cloud.observe import CloudFacts, Gone, Item, Unread
from components.core.key_values import HostState
from components.drift.device_drift import Unreachable
from components.fabric.state import SwitchState
from components.kubernetes.live.look import ClusterLook

Facts = SwitchState | HostState | Unreachable | None
"""What was read of one device; None: it was not read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The outcome of observe; empty where nothing was read."""

    devices: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    """Switch, or device of a watched step, to what was seen of it."""
    cloud: CloudFacts = field(default_factory=dict[str, Item | Gone | Unread])
    """Step of a cloud object to what was seen of it."""

    cluster: ClusterLook | Unreachable | None = None
    """What Kubernetes has of what was applied to it; None: it was not read."""

    def host(self, device: str) -> HostState | Unreachable | None:
        """What was read of the device of a watched step."""
        facts = self.devices.get(device)
        return None if isinstance(facts, SwitchState) else facts

    def switch(self, device: str) -> SwitchState | Unreachable | None:
        """What was read of a switch."""
        facts = self.devices.get(device)
        return None if isinstance(facts, HostState) else facts
