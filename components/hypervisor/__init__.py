"""The hypervisors: ESXi settings, virtual machines with passed-through devices, reboots.

The components are loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.lazy import on_demand

if TYPE_CHECKING:
    from components.hypervisor.component import FirmwareReboots, Hypervisors
else:
    __getattr__ = on_demand(__name__, "FirmwareReboots", "Hypervisors")

__all__ = ["FirmwareReboots", "Hypervisors"]
