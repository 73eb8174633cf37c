"""The operators that make GPUs and RDMA cards resources of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.operators.component import Operators
else:
    __getattr__ = on_demand(__name__, "Operators")

__all__ = ["Operators"]
