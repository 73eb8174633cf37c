"""How pods get onto the rails: Multus, SR-IOV, address management.

`PodNetwork` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.pod_network.component import PodNetwork

__all__ = ["PodNetwork"]


def __getattr__(name: str) -> type[PodNetwork]:
    if name == "PodNetwork":
        from components.pod_network.component import PodNetwork  # noqa: PLC0415 - lazy on purpose

        return PodNetwork
    raise AttributeError(name)
