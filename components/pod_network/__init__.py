"""How pods get onto the rails: Multus, SR-IOV, address management."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.pod_network.component import PodNetwork
else:
    __getattr__ = on_demand(__name__, "PodNetwork")

__all__ = ["PodNetwork"]
