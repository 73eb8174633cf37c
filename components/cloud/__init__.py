"""Cloud instances: the API's client, what is made in which order, and the component.

`Instances` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.lazy import on_demand

if TYPE_CHECKING:
    from components.cloud.component import Instances
else:
    __getattr__ = on_demand(__name__, "Instances")

__all__ = ["Instances"]
