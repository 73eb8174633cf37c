"""What one look at a site found: its devices, and what a cloud holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.cloud.observe import CloudFacts, Gone, Item, Unread
from components.drift.device_drift import Facts


@dataclass(frozen=True, slots=True)
class Seen:
    """The outcome of observe; empty where nobody looked."""

    devices: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    """Switch, or device of a watched step, to what was seen of it."""
    cloud: CloudFacts = field(default_factory=dict[str, Item | Gone | Unread])
    """Step of a cloud object to what was seen of it."""
