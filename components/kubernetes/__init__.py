"""Kubernetes: planes, their steps, and access to the finished cluster.

`Cluster` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.core.lazy import on_demand

if TYPE_CHECKING:
    from components.kubernetes.component import Cluster
else:
    __getattr__ = on_demand(__name__, "Cluster")

__all__ = ["Cluster"]
