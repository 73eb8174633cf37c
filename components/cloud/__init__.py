"""Cloud instances: the API's client, the order in which objects are made, and the component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.cloud.component import Instances
else:
    __getattr__ = on_demand(__name__, "Instances")

__all__ = ["Instances"]
