"""Take hosts out of service in groups: drain, change or reboot, verify, and return to service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.disruption.component import Departures, Reboots, Upgrades
else:
    __getattr__ = on_demand(__name__, "Departures", "Reboots", "Upgrades")

__all__ = ["Departures", "Reboots", "Upgrades"]
