"""The operators that make GPUs and RDMA cards resources of the cluster.

`Operators` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.operators.component import Operators

__all__ = ["Operators"]


def __getattr__(name: str) -> type[Operators]:
    if name == "Operators":
        from components.operators.component import Operators  # noqa: PLC0415 - lazy on purpose

        return Operators
    raise AttributeError(name)
