"""The hypervisors: ESXi settings, virtual machines with passed-through devices, reboots.

The components are loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.hypervisor.component import FirmwareReboots, Hypervisors

__all__ = ["FirmwareReboots", "Hypervisors"]


def __getattr__(name: str) -> type[Hypervisors | FirmwareReboots]:
    if name in __all__:
        from components.hypervisor import component  # noqa: PLC0415 - lazy on purpose

        return component.Hypervisors if name == "Hypervisors" else component.FirmwareReboots
    raise AttributeError(name)
