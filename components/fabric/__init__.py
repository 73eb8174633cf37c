"""The switches: intent, drivers, and the component that applies them.

`Fabric` is loaded on first use: the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.fabric.component import Fabric
else:
    __getattr__ = on_demand(__name__, "Fabric")

__all__ = ["Fabric"]
