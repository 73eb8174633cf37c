"""The switches: intent, drivers, and the component that applies them.

`Fabric` is loaded on first use, so that the pure parts of the room import no Pulumi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.fabric.component import Fabric

__all__ = ["Fabric"]


def __getattr__(name: str) -> type[Fabric]:
    if name == "Fabric":
        from components.fabric.component import Fabric  # noqa: PLC0415 - lazy on purpose

        return Fabric
    raise AttributeError(name)
