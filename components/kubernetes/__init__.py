"""Kubernetes: planes, their steps, and access to the finished cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.start import on_demand

if TYPE_CHECKING:
    from components.kubernetes.component import Cluster
else:
    __getattr__ = on_demand(__name__, "Cluster")

__all__ = ["Cluster"]
