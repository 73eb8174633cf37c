"""What one topic (driver, firmware, VFs, QoS, kernel) wants of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one host, by what a reboot does to them."""

    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    """Outlive a reboot: files, packages, the firmware of a card."""
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lost at a reboot: `railyard-nics.service` sets them again."""
