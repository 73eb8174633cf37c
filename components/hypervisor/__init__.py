"""The hypervisors: ESXi settings, virtual machines with passed-through devices, reboots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.hypervisor.component import FirmwareReboots, Hypervisors
else:
    __getattr__ = on_demand(__name__, "FirmwareReboots", "Hypervisors")

__all__ = ["FirmwareReboots", "Hypervisors"]
