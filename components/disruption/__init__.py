"""Taking hosts out of service in groups: drain, change or reboot, prove, put back.

The component is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.disruption.component import Reboots

__all__ = ["Reboots"]


def __getattr__(name: str) -> type[Reboots]:
    if name in __all__:
        from components.disruption.component import Reboots  # noqa: PLC0415 - lazy on purpose

        return Reboots
    raise AttributeError(name)
