"""Kubernetes: planes, their steps, and access to the finished cluster.

`Cluster` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.kubernetes.component import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> type[Cluster]:
    if name == "Cluster":
        from components.kubernetes.component import Cluster  # noqa: PLC0415 - lazy on purpose

        return Cluster
    raise AttributeError(name)
